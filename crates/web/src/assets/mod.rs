//! What pages load: the style sheet, the script and the icon. Each has a hash in its name, so it may be kept for ever.

use std::sync::LazyLock;

use maud::{Markup, PreEscaped};
use sha2::{Digest, Sha256};

/// A file that pages load.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/assets/`: what it is, a hash of its content, and its extension.
    pub name: String,
    /// Its MIME type.
    pub mime: &'static str,
    /// Its content.
    pub content: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, mime: &'static str, content: &'static str) -> Asset {
        let hash = Sha256::digest(content);
        let hash = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        Asset {
            name: format!("{stem}.{hash:08x}.{extension}"),
            mime,
            content,
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// The style sheet.
pub static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "style",
        "css",
        "text/css; charset=utf-8",
        include_str!("style.css"),
    )
});

/// The script.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "page",
        "js",
        "text/javascript; charset=utf-8",
        include_str!("page.js"),
    )
});

/// The icon of the window.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("icon.svg")));

/// The file of that name below `/assets/`; None: there is none.
pub fn find(name: &str) -> Option<&'static Asset> {
    let all: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    all.into_iter().find(|asset| asset.name == name)
}

/// The mark beside the name, as part of the page.
pub fn logo() -> Markup {
    PreEscaped(include_str!("logo.svg").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{ICON, SCRIPT, STYLE, find};

    /// The colors of a scheme, as red, green and blue from 0 to 1.
    fn colors(block: &str) -> HashMap<&str, [f64; 3]> {
        let declarations = block
            .split(';')
            .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        declarations
            .map(|(name, digits)| {
                let part = |at: usize| {
                    f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0
                };
                (name, [part(0), part(2), part(4)])
            })
            .collect()
    }

    /// The luminance of WCAG 2.
    fn luminance(color: [f64; 3]) -> f64 {
        let [red, green, blue] = color.map(|part| match part {
            part if part <= 0.040_45 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_text_has_contrast_in_both_schemes() {
        let blocks: Vec<&str> = STYLE
            .content
            .split(":root {")
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect();
        assert_eq!(blocks.len(), 2, "light and dark");
        for block in blocks {
            let block = block.replace('{', ";");
            let colors = colors(&block);
            for behind in ["ground", "raised", "alarm"] {
                for text in ["text", "quiet", "accent", "good", "bad", "warn"] {
                    let contrast = contrast(colors[text], colors[behind]);
                    assert!(contrast >= 4.5, "{text} on {behind}: {contrast:.2}");
                }
                // A bar, or the border of a field.
                let contrast = contrast(colors["bar"], colors[behind]);
                assert!(
                    contrast >= 3.0 || behind == "alarm",
                    "bar on {behind}: {contrast:.2}"
                );
            }
        }
        // The button of a question: the ground on the accent, which is tried above.
        assert!(STYLE.content.contains(
            "background: var(--accent); border-color: var(--accent); color: var(--ground)"
        ));
    }

    #[test]
    fn no_color_stands_outside_of_the_schemes() {
        let rules = STYLE
            .content
            .rsplit("color-scheme: light dark;")
            .next()
            .unwrap();
        let rules = rules.split_once("*, ::before").unwrap().1;
        assert!(
            !rules.contains('#') || rules.matches('#').count() == rules.matches("#stale").count(),
            "{rules}"
        );
    }

    #[test]
    fn an_asset_is_found_by_its_name_alone() {
        for asset in [&*STYLE, &*SCRIPT, &*ICON] {
            assert_eq!(
                find(asset.url().strip_prefix("/assets/").unwrap())
                    .unwrap()
                    .mime,
                asset.mime
            );
        }
        assert!(find("style.css").is_none() && find("").is_none());
    }

    #[test]
    fn the_script_asks_by_the_header_that_is_understood() {
        assert!(SCRIPT.content.contains(crate::pages::MAIN_ONLY));
    }
}
