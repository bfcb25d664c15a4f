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
        let hash = hash
            .iter()
            .take(5)
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        Asset {
            name: format!("{stem}.{hash}.{extension}"),
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
