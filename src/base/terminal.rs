//! A terminal's size and abilities, and what a line of it shows of a text.

use std::env;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::text::width_of;

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
}
