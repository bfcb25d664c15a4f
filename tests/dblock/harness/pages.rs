//! The README and the pages of docs/: their code blocks, headings and links.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the project.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// One page.
#[derive(Debug)]
pub struct Page {
    /// Its path inside the project.
    pub name: String,
    pub text: String,
}

/// A code block of a page.
#[derive(Debug, Clone)]
pub struct Block {
    /// The page and the line, for a message.
    pub place: String,
    /// The heading that it stands under.
    pub heading: String,
    /// What the fence says; `None` for an indented block.
    pub language: Option<String>,
    pub text: String,
}

impl Block {
    /// The path of the file that this block is: it stands in a comment in the first line or the second.
    pub fn file(&self) -> Option<&str> {
        let mut first = self.text.lines().take(2);
        let path = first.find_map(|line| line.strip_prefix("# /"))?;
        let start = self.text.find(path)? - 1;
        Some(&self.text[start..=start + path.len()])
    }
}

impl Page {
    /// The README and all pages of docs/.
    pub fn all() -> Vec<Self> {
        let docs = fs::read_dir(Path::new(ROOT).join("docs")).expect("the folder docs");
        let docs = docs.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = docs
            .map(|name| format!("docs/{}", name.to_string_lossy()))
            .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
            .chain(["README.md".to_owned()])
            .collect();
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// The page of this path inside the project.
    pub fn read(name: &str) -> Self {
        let text = fs::read_to_string(Path::new(ROOT).join(name));
        Self {
            name: name.to_owned(),
            text: text.unwrap_or_else(|error| panic!("{name}: {error}")),
        }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        Path::new(ROOT).join(&self.name)
    }

    /// Its code blocks, in order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut heading = String::new();
        let mut fence: Option<usize> = None;
        let (mut was_blank, mut is_indented) = (true, false);
        for (number, line) in self.text.lines().enumerate() {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            let new = |language: Option<&str>| Block {
                place: format!("{}:{}", self.name, number + 1),
                heading: heading.clone(),
                language: language.map(str::to_owned),
                text: String::new(),
            };
            if let Some(language) = trimmed.strip_prefix("```") {
                fence = match fence {
                    None => {
                        blocks.push(new(Some(language)));
                        Some(indent)
                    }
                    Some(_) => None,
                };
                is_indented = false;
            } else if let Some(indent) = fence {
                let block = blocks.last_mut().expect("a fence begins one");
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
            } else if !trimmed.is_empty() && indent >= 4 && (was_blank || is_indented) {
                // What follows a comment of its own is done elsewhere.
                if !is_indented || was_blank && trimmed.starts_with("# ") {
                    blocks.push(new(None));
                    is_indented = true;
                } else if was_blank {
                    blocks.last_mut().expect("it goes on").text.push('\n');
                }
                let block = blocks.last_mut().expect("it goes on");
                block.text.push_str(&line[4..]);
                block.text.push('\n');
            } else if !trimmed.is_empty() {
                is_indented = false;
                if line.starts_with('#') {
                    line.trim_start_matches('#').trim().clone_into(&mut heading);
                }
            }
            was_blank = trimmed.is_empty();
        }
        assert!(fence.is_none(), "{}: a fence has no end", self.name);
        blocks
    }

    /// Its text without code blocks, a paragraph, a heading or a row of a table each.
    pub fn prose(&self) -> String {
        let mut is_code = false;
        let lines = self.text.lines().filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The headings, as links name them.
    pub fn anchors(&self) -> Vec<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        let anchor = |heading: &str| {
            let words = heading
                .trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(' ', "-");
            words
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
                .collect()
        };
        headings.map(anchor).collect()
    }

    /// Where its links lead.
    pub fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let after = prose.split("](").skip(1);
        after
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target.to_owned())
            .collect()
    }
}
