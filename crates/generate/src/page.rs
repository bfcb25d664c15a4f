//! A manual page: names, usage and options are clap's; the rest of the description and the sections behind the options are
//! written by hand, and stand in the file of the page's name in `texts`.

use std::fmt::Write;
use std::fs;
use std::time::SystemTime;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::{at, dblock, with_subcommands};

/// As long as a line of text may be: mandoc warns of longer ones.
const WIDTH: usize = 80;

/// What roff has for an apostrophe that is not typographic, and how the crate writes it.
const APOSTROPHE: (&str, &str) = (r"\(aq", r"\*(Aq");

/// One page of section 1.
pub struct Page {
    /// `dblock`, or `dblock-` and the name of a command.
    pub name: String,
    /// What it describes.
    pub command: Command,
}

/// The page of dblock, and one of each of its commands.
pub fn all() -> Vec<Page> {
    let dblock = dblock();
    let page = |command: Command| Page {
        name: command
            .get_display_name()
            .unwrap_or_else(|| command.get_name())
            .to_owned(),
        command,
    };
    let commands = with_subcommands(&dblock).into_iter();
    commands
        .map(|(_, command)| command)
        .chain([dblock.clone()])
        .map(page)
        .collect()
}

/// The day, as pages write it.
pub fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().expect("a date").to_owned()
}

impl Page {
    /// `dblock-run.1`
    pub fn file_name(&self) -> String {
        format!("{}.1", self.name)
    }

    /// Whether `text` is this page, of whatever date.
    pub fn is_same(&self, text: &str) -> bool {
        let title = text.lines().find(|line| line.starts_with(".TH "));
        let date = title.and_then(|title| title.split(' ').nth(3));
        date.is_some_and(|date| self.text(date) == text)
    }

    /// The whole page, of this date.
    pub fn text(&self, date: &str) -> String {
        let by_hand = format!("crates/generate/texts/{}.roff", self.name);
        let text = fs::read_to_string(at(&by_hand));
        let text = text.unwrap_or_else(|error| panic!("{by_hand}: {error}"));
        let sections = text.find(".SH ").expect("a section behind the options");
        let (description, sections) = text.split_at(sections);
        let about = self.command.get_about().expect("an about").to_string();
        let man = Man::new(self.command.clone())
            .title(self.name.to_uppercase())
            .date(date)
            .source(concat!("dblock ", env!("CARGO_PKG_VERSION")))
            .manual("User Commands");
        let mut page = format!(
            ".\\\" Made by script/generate of src/settings/cli and {by_hand}: change those.\n"
        );
        page += &rendered(|to| man.render_title(to));
        // No word is broken: a URL or an option may be copied.
        page += ".nh\n.ad l\n";
        page += &section(
            "NAME",
            [roman(format!("{} - {}", self.name, uncapitalized(&about)))],
        );
        page += &section("SYNOPSIS", self.usage());
        page += &section("DESCRIPTION", [roman(format!("{about}."))]);
        page += description;
        page += &options(&man);
        page += &self.commands();
        page += sections;
        filled(&page)
    }

    /// The usage: what is typed literally is bold, and a placeholder italic.
    fn usage(&self) -> Vec<Inline> {
        let usage = self.command.clone().render_usage().to_string();
        // What is italic needs no brackets around it.
        let usage = usage.replace("Usage: ", "").replace(['<', '>'], "");
        let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '-';
        let mut rest = usage.as_str();
        let mut inlines = Vec::new();
        while !rest.is_empty() {
            let (word, behind) =
                rest.split_at(rest.find(|next| !is_of_word(next)).unwrap_or(rest.len()));
            let (mark, behind) = behind.split_at(behind.find(is_of_word).unwrap_or(behind.len()));
            let is_placeholder = word.chars().all(char::is_uppercase);
            inlines.extend([
                if is_placeholder {
                    italic(word)
                } else {
                    bold(word)
                },
                roman(mark),
            ]);
            rest = behind;
        }
        inlines
    }

    /// The section of the commands, where there are some.
    fn commands(&self) -> String {
        if !self.command.has_subcommands() {
            return String::new();
        }
        let mut roff = Roff::new();
        roff.control("SH", ["COMMANDS"]);
        for command in self.command.get_subcommands() {
            let about = command.get_about().expect("an about");
            roff.control("TP", []);
            roff.text([
                bold(format!("{}-{}", self.name, command.get_name())),
                roman("(1)"),
            ]);
            roff.text([roman(format!("{about}."))]);
        }
        rendered(|to| roff.to_writer(to))
    }
}

/// The options, each with its value in italics alone, and all in one section.
fn options(man: &Man) -> String {
    let options = rendered(|to| man.render_options_section(to));
    let options = options.replace(r"\fI<", r"\fI").replace(r">\fR", r"\fR");
    options
        .replace(r"<\fI", r"\fI")
        .replace(r"\fR>", r"\fR")
        .replace(".SH CONNECTION", ".SS Connection")
}

/// One section of one paragraph.
fn section(name: &str, text: impl Into<Vec<Inline>>) -> String {
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    roff.text(text);
    rendered(|to| roff.to_writer(to))
}

/// What the crate writes, without what it puts in front of each piece.
fn rendered(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory takes what is written");
    let text = String::from_utf8(bytes).expect("roff is text");
    let lines = text.lines().filter(|line| !line.contains(".ds Aq "));
    lines.fold(String::new(), |mut all, line| {
        let _ = writeln!(
            all,
            "{}",
            line.trim_end().replace(APOSTROPHE.1, APOSTROPHE.0)
        );
        all
    })
}

/// The page with the long lines of its paragraphs broken, which changes nothing that is seen.
fn filled(page: &str) -> String {
    let mut filled = String::new();
    let mut is_example = false;
    let mut is_tag = false;
    for line in page.lines() {
        if let ".EX" | ".EE" = line {
            is_example = line == ".EX";
        }
        let is_as_it_is = is_example || is_tag || line.starts_with('.');
        // A tag is the one line behind this.
        is_tag = matches!(line, ".TP" | ".TQ");
        if is_as_it_is {
            let _ = writeln!(filled, "{line}");
            continue;
        }
        let mut length = 0;
        for word in line.split(' ') {
            // A control line begins so.
            let must_stay = word.starts_with(['.', '\'']);
            if length > 0 && length + 1 + width(word) > WIDTH && !must_stay {
                filled.push('\n');
                length = 0;
            } else if length > 0 {
                filled.push(' ');
                length += 1;
            }
            filled.push_str(word);
            length += width(word);
        }
        filled.push('\n');
    }
    filled
}

/// As mandoc counts, to which other letters than those of ASCII are escapes, say `\[u2026]`.
fn width(word: &str) -> usize {
    let of_each = word
        .chars()
        .map(|letter| if letter.is_ascii() { 1 } else { 8 });
    of_each.sum()
}

/// `Run a command` as `run a command`, as the NAME section has it.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}
