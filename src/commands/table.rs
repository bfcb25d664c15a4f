//! A table for people.

use std::fmt::{self, Display, Write};
use std::time::SystemTime;

use crate::base::text::{moment, printable};

/// What stands in a cell without a value.
const NONE: &str = "-";

/// Rows of cells, aligned in columns. All cells are printable.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles, and no rows yet.
    pub fn new(titles: &[&str]) -> Self {
        let titles = titles.iter().map(|&title| title.to_owned());
        Self {
            rows: vec![titles.collect()],
        }
    }

    /// A table of names and values.
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let pairs = pairs.into_iter();
        let rows = pairs.map(|(name, value)| vec![name.to_owned(), printable(&value)]);
        Self {
            rows: rows.collect(),
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
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
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
