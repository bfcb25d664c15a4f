//! A table for people.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::time::SystemTime;

use super::output::terminal_width;
use crate::base::text::{moment, printable, width, width_of};
use crate::settings::Color;

/// What stands in a cell without a value.
const NONE: &str = "-";

/// What stands between two columns.
const GAP: &str = "  ";

/// The least width to which a free text is cut.
const SHORTEST: usize = 8;

/// What a cell says, where there are colors. Its words say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Doubtful,
    Bad,
}

impl Tone {
    /// The color's number in the sequence that selects it: green, yellow, red.
    fn color(self) -> u8 {
        match self {
            Self::Good => 32,
            Self::Doubtful => 33,
            Self::Bad => 31,
        }
    }
}

/// Rows of cells, aligned in columns. All cells are printable.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Which columns may be cut.
    is_free: Vec<bool>,
    /// What cells say, by their row and column.
    tones: BTreeMap<(usize, usize), Tone>,
}

impl Table {
    /// A table with these titles, and no rows yet. Those of `free` are above free texts, of which a narrow terminal shows the beginning:
    /// what people read, not what they would copy into a command.
    pub fn new(titles: &[&str], free: &[&str]) -> Self {
        let is_free = titles.iter().map(|title| free.contains(title));
        let is_free = is_free.collect();
        let titles = titles.iter().map(|&title| title.to_owned());
        Self {
            rows: vec![titles.collect()],
            is_free,
            tones: BTreeMap::new(),
        }
    }

    /// A table of names and values. It has all of each value, as it is about one thing alone.
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let pairs = pairs.into_iter();
        let rows = pairs.map(|(name, value)| vec![name.to_owned(), printable(&value)]);
        Self {
            rows: rows.collect(),
            is_free: Vec::new(),
            tones: BTreeMap::new(),
        }
    }

    /// Adds a row. Cells without a value, and those that are missing at its end, get a dash.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        let cells = cells.into_iter();
        let cell =
            |cell: Option<String>| cell.map_or_else(|| NONE.to_owned(), |text| printable(&text));
        let mut row: Vec<_> = cells.map(cell).collect();
        row.resize(self.rows[0].len(), NONE.to_owned());
        self.rows.push(row);
    }

    /// Says what the cell of this column in the latest row says.
    pub fn tone(&mut self, title: &str, tone: Option<Tone>) {
        let column = self.rows[0].iter().position(|cell| cell == title);
        let at = column.map(|column| (self.rows.len() - 1, column));
        self.tones.extend(at.zip(tone));
    }

    /// As [`Table::for_stdout`], in colors if there are to be some.
    pub fn in_color(&self, color: Color) -> String {
        self.lines(terminal_width(), color.is_shown())
    }

    /// The lines, for stdout. If it is a terminal, and free texts make rows wider than it, their ends are cut off.
    pub fn for_stdout(&self) -> String {
        self.lines(terminal_width(), false)
    }

    /// The lines, in rows of `most` columns if that can be.
    fn lines(&self, most: Option<usize>, has_colors: bool) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widest = |column: usize| self.rows.iter().map(|row| width(&row[column])).max();
        let widths = (0..columns).map(|column| widest(column).unwrap_or_default());
        let mut widths: Vec<usize> = widths.collect();
        if let Some(most) = most {
            cut_to_fit(&mut widths, &self.is_free, most);
        }
        let mut lines = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| {
                let fitted = fitted(cell, *width);
                match self.tones.get(&(number, column)).filter(|_| has_colors) {
                    Some(tone) => format!("\x1b[{}m{fitted}\x1b[0m", tone.color()),
                    None => fitted,
                }
            });
            let cells: Vec<_> = cells.collect();
            lines += cells.join(GAP).trim_end();
            lines.push('\n');
        }
        lines
    }
}

/// Takes columns off the widest free texts, one by one, until a row has no more than `most`. If that leaves one too short to be read, none
/// is cut.
fn cut_to_fit(widths: &mut [usize], is_free: &[bool], most: usize) {
    let mut cut = widths.to_vec();
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while cut.iter().sum::<usize>() + gaps > most {
        let free = cut.iter_mut().zip(is_free).filter(|(_, free)| **free);
        match free.map(|(width, _)| width).max() {
            Some(widest) if *widest > SHORTEST => *widest -= 1,
            _ => return,
        }
    }
    widths.copy_from_slice(&cut);
}

/// A cell in so many columns: cut with `…`, or padded.
fn fitted(cell: &str, columns: usize) -> String {
    let mut fitted = String::with_capacity(cell.len());
    let mut used = width(cell);
    if used <= columns {
        fitted.push_str(cell);
    } else {
        used = 1;
        for c in cell.chars() {
            if used + width_of(c) > columns {
                break;
            }
            used += width_of(c);
            fitted.push(c);
        }
        fitted.push('…');
    }
    fitted.extend(repeat_n(' ', columns - used));
    fitted
}

/// A moment, to the second.
pub fn to_the_second(at: SystemTime) -> String {
    moment(at)
        .chars()
        .take(19)
        .collect::<String>()
        .replace('T', " ")
}

/// How a run ended: its signal, its exit code, or its outcome, a word of the history.
pub fn result(outcome: &str, signal: Option<&str>, exit_code: Option<u32>) -> String {
    match (outcome, signal, exit_code) {
        ("ran", Some(signal), _) => signal.to_owned(),
        ("ran", None, Some(code)) => format!("exit {code}"),
        (word, _, _) => word.replace('_', " "),
    }
}

/// What such a result says: only a command that succeeded is good, and what goes on, was released or skipped is nothing to worry about.
pub fn tone_of(outcome: &str, signal: Option<&str>, exit_code: Option<u32>) -> Option<Tone> {
    match (outcome, signal, exit_code) {
        ("ran", None, Some(0)) => Some(Tone::Good),
        ("ran" | "timed_out" | "lost" | "failed", _, _) => Some(Tone::Bad),
        ("unknown" | "interrupted", _, _) => Some(Tone::Doubtful),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, Tone};

    /// A name, a free text and a number.
    fn table(name: &str, text: &str) -> Table {
        let mut table = Table::new(&["NAME", "WHY", "N"], &["WHY"]);
        table.row([name, text, "7"].map(|cell| Some(cell.to_owned())));
        table
    }

    #[test]
    fn the_widest_free_texts_are_cut_and_nothing_else() {
        let mut table = Table::new(&["NAME", "WHY", "HOST"], &["WHY", "HOST"]);
        table.row(
            ["a-long-name", "because it was so", "web1.example.net"]
                .map(|cell| Some(cell.to_owned())),
        );
        let whole = "NAME         WHY                HOST\na-long-name  because it was so  web1.example.net\n";
        for most in [None, Some(48), Some(1000)] {
            assert_eq!(table.lines(most, false), whole);
        }
        let cut =
            "NAME         WHY               HOST\na-long-name  because it was …  web1.example.n…\n";
        assert_eq!(table.lines(Some(46), false), cut);
        let shortest = "NAME         WHY       HOST\na-long-name  because…  web1.ex…\n";
        assert_eq!(table.lines(Some(31), false), shortest);
        assert_eq!(table.lines(Some(30), false), whole, "it would not help");
    }

    #[test]
    fn wide_characters_are_cut_and_aligned_as_they_are_shown() {
        let whole = "NAME  WHY         N\n日本  日本日本日  7\n";
        assert_eq!(table("日本", "日本日本日").lines(None, false), whole);
        let cut = "NAME  WHY        N\n日本  日本日本…  7\n";
        assert_eq!(table("日本", "日本日本日").lines(Some(18), false), cut);
        // Half a character is none.
        let cut = "NAME  WHY       N\n日本  日本日…   7\n";
        assert_eq!(table("日本", "日本日本日").lines(Some(17), false), cut);
    }

    #[test]
    fn a_color_takes_no_column_and_changes_no_word() {
        let mut table = table("a", "failed");
        table.tone("WHY", Some(Tone::Bad));
        table.tone("N", None);
        assert_eq!(
            table.lines(None, false),
            "NAME  WHY     N\na     failed  7\n"
        );
        let colored = "NAME  WHY     N\na     \x1b[31mfailed\x1b[0m  7\n";
        assert_eq!(table.lines(None, true), colored);
    }

    #[test]
    fn a_table_about_one_thing_has_all_of_it() {
        let pairs = Table::of_pairs([("last error", "because it was so".to_owned())]);
        assert_eq!(
            pairs.lines(Some(20), false),
            "last error  because it was so\n"
        );
    }
}
