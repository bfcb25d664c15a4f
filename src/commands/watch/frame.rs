//! What a terminal of some size shows of a text, and what it says about the rest.

use crate::base::terminal::cut;
use crate::base::text::{counted, width};

/// A terminal's size, in rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
}

/// What is to be shown. All of it is printable, but for the sequences that color a table.
#[derive(Debug, Default)]
pub struct Frame {
    /// What the first line says at its left and its right end.
    pub title: [String; 2],
    /// The second line: what is wrong; empty: nothing.
    pub trouble: String,
    /// The lines below.
    pub body: String,
    /// Whether the last lines matter most, and not those below the first one, which names the columns.
    pub newest_last: bool,
}

impl Frame {
    /// The lines that fit. If some do not, the last one says how many.
    pub fn fitted(&self, size: Size) -> Vec<String> {
        let mut head = vec![self.title_line(size.columns)];
        head.push(cut(&self.trouble, size.columns).0);
        head.truncate(size.rows);
        let room = size.rows - head.len();
        let body: Vec<_> = self.body.lines().collect();
        let is_wide = |line: &&&str| cut(line, size.columns).1;
        if body.len() <= room && !body.iter().any(|line| is_wide(&line)) {
            return head
                .into_iter()
                .chain(body.into_iter().map(str::to_owned))
                .collect();
        }
        let Some(for_lines) = room.checked_sub(1) else {
            return head;
        };
        let shown = self.shown(&body, for_lines);
        let wide = shown.iter().filter(is_wide).count();
        let mut missing = Vec::new();
        match body.len() - shown.len() {
            0 => {}
            lines => missing.push(counted(lines, "line")),
        }
        match wide {
            0 => {}
            1 => missing.push("the end of 1 line".to_owned()),
            lines => missing.push(format!("the ends of {lines} lines")),
        }
        let last = format!("not shown: {}", missing.join(" and "));
        let lines = shown.into_iter().chain([&*last]);
        head.extend(lines.map(|line| cut(line, size.columns).0));
        head
    }

    /// The lines that fit into so many.
    fn shown<'a>(&self, body: &[&'a str], room: usize) -> Vec<&'a str> {
        let fitting = room.min(body.len());
        match (self.newest_last, body) {
            (true, [titles, rows @ ..]) if fitting > 0 => {
                let rows = &rows[rows.len() - (fitting - 1)..];
                [titles].into_iter().chain(rows).copied().collect()
            }
            _ => body[..fitting].to_vec(),
        }
    }

    /// The right end is shown whole if it can be.
    fn title_line(&self, columns: usize) -> String {
        let [left, right] = &self.title;
        match columns.checked_sub(width(right) + 1) {
            None => cut(right, columns).0,
            Some(room) => {
                let left = cut(left, room).0;
                let gap = columns - width(&left) - width(right);
                format!("{left}{}{right}", " ".repeat(gap))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lines: usize) -> Frame {
        let body = (1..=lines).map(|line| format!("line {line}\n"));
        Frame {
            title: ["Every 2s: dblock status".to_owned(), "12:00".to_owned()],
            body: body.collect(),
            ..Frame::default()
        }
    }

    fn fitted(frame: &Frame, rows: usize, columns: usize) -> Vec<String> {
        let lines = frame.fitted(Size { rows, columns });
        assert!(lines.len() <= rows, "{lines:?}");
        assert!(lines.iter().all(|line| width(line) <= columns), "{lines:?}");
        lines
    }

    #[test]
    fn all_of_it_is_shown_where_it_fits() {
        let lines = fitted(&frame(3), 5, 30);
        let title = "Every 2s: dblock status  12:00";
        assert_eq!(lines, [title, "", "line 1", "line 2", "line 3"]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines = fitted(&frame(4), 5, 30);
        assert_eq!(lines[2..], ["line 1", "line 2", "not shown: 2 lines"]);
        let newest = Frame {
            newest_last: true,
            ..frame(9)
        };
        let lines = fitted(&newest, 6, 30);
        assert_eq!(
            lines[2..],
            ["line 1", "line 8", "line 9", "not shown: 6 lines"]
        );
        let mut wide = frame(1);
        wide.body += "a line that is wider than that\n";
        let lines = fitted(&wide, 9, 24);
        let last = "not shown: the end of 1…";
        assert_eq!(lines[2..], ["line 1", "a line that is wider th…", last]);
        for (rows, columns) in [(0, 9), (1, 0), (1, 1), (2, 3), (3, 20), (9, 0)] {
            fitted(&newest, rows, columns);
            fitted(&wide, rows, columns);
        }
    }
}
