//! A terminal's size and abilities, who has it, and what it shows of a text.

use std::env;
use std::fmt::Write as _;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::unistd::{getpgrp, tcgetpgrp};

use super::text::{is_unseen, width_of};

/// The rows and columns of this terminal, 0 where it does not know. `None`: it is no terminal.
pub fn size_of(terminal: BorrowedFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: this request fills in such a structure, and fails for what is no terminal.
    let asked = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// Whether the terminal only shows what is written, one thing behind the other: `TERM` says so, or does not say what it is.
pub fn is_plain() -> bool {
    env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Whether this process is in the background of this terminal: others show something on it, and set its modes.
pub fn is_in_background(terminal: BorrowedFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground != getpgrp())
}

/// What others wrote, as a terminal may show it: bytes and characters that would steer it or that nobody sees are escaped. Colors stay, and
/// end with it.
pub fn safe_to_show(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    let mut has_colors = false;
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(c) = rest.chars().next() {
            let color = length_of_color(rest);
            has_colors |= color.is_some();
            let (first, others) = rest.split_at(color.unwrap_or(c.len_utf8()));
            let steers = c.is_control() && !"\n\t".contains(c);
            if color.is_none() && (steers || is_unseen(c, shown.chars().next_back())) {
                shown.extend(c.escape_default());
            } else {
                shown += first;
            }
            rest = others;
        }
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    if has_colors {
        shown += "\x1b[0m";
    }
    shown
}

/// How long the sequence is that a text begins with and that changes the color or weight of what follows.
fn length_of_color(text: &str) -> Option<usize> {
    const START: &str = "\x1b[";
    let parameters = text.strip_prefix(START)?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..]
        .starts_with('m')
        .then_some(START.len() + end + 1)
}

/// The beginning of a line, with `…` if that is not all; and whether it is cut. Colors take no column, and end with the line.
pub fn cut(line: &str, columns: usize) -> (String, bool) {
    let mut kept = String::with_capacity(line.len());
    let mut used = 0;
    let mut before_last = 0;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            kept.push(c);
            kept.extend(rest.by_ref().take_while(|&c| c != 'm'));
            kept.push('m');
            continue;
        }
        used += width_of(c);
        if used > columns {
            kept.truncate(before_last);
            let end = if columns == 0 { "" } else { "…" };
            let no_color = if line.contains('\x1b') { "\x1b[0m" } else { "" };
            return (format!("{kept}{end}{no_color}"), true);
        }
        kept.push(c);
        if used < columns {
            before_last = kept.len();
        }
    }
    (kept, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_takes_no_column_and_ends_with_its_line() {
        let line = "a \x1b[31mfailed\x1b[0m b";
        assert_eq!(cut(line, 10), (line.to_owned(), false));
        let (cut_line, is_cut) = cut(line, 6);
        assert!(is_cut);
        assert_eq!(cut_line, "a \x1b[31mfai…\x1b[0m");
        assert_eq!(cut("日本", 3), ("日…".to_owned(), true));
    }

    #[test]
    fn what_others_wrote_steers_no_terminal_and_keeps_its_colors() {
        for (written, shown) in [
            (&b"a\tb\n"[..], "a\tb\n"),
            (b"\x1b[1;31mred", "\x1b[1;31mred\x1b[0m"),
            (b"\x1b[2J\x1b[31", "\\u{1b}[2J\\u{1b}[31"),
            (b"\x1b]0;title\x07\r", "\\u{1b}]0;title\\u{7}\\r"),
            (b"\xff\xc2\x9b", "\\xff\\u{9b}"),
            ("né\u{202e}".as_bytes(), "né\\u{202e}"),
        ] {
            assert_eq!(safe_to_show(written), shown);
        }
    }
}
