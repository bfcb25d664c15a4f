//! What was measured, as a table for people and as JSON.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::Result;
use super::setup::Setup;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
    /// A part of one.
    Share,
}

/// A line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub part: &'static str,
    pub what: String,
    pub unit: Unit,
    /// In order.
    pub samples: Vec<f64>,
    /// How many times the figure of another line it is, and which.
    pub ratio: Option<(f64, String)>,
    /// What it should be, and whether it is.
    pub aim: Option<(String, bool)>,
}

impl Row {
    pub fn new(
        part: &'static str,
        what: impl Into<String>,
        unit: Unit,
        mut samples: Vec<f64>,
    ) -> Self {
        samples.sort_by(f64::total_cmp);
        Self {
            part,
            what: what.into(),
            unit,
            samples,
            ratio: None,
            aim: None,
        }
    }

    pub fn one(part: &'static str, what: impl Into<String>, unit: Unit, figure: f64) -> Self {
        Self::new(part, what, unit, vec![figure])
    }

    /// Compares it with another line.
    pub fn against(mut self, other: &Self, name: &str) -> Self {
        self.ratio = Some((self.median() / other.median(), name.to_owned()));
        self
    }

    /// Says what the figure should be at most.
    pub fn at_most(mut self, limit: f64) -> Self {
        let aim = format!("≤ {}", figure(self.unit, limit));
        self.aim = Some((aim, self.median() <= limit));
        self
    }

    /// Says what the figure should be at least.
    pub fn at_least(mut self, limit: f64) -> Self {
        let aim = format!("≥ {}", figure(self.unit, limit));
        self.aim = Some((aim, self.median() >= limit));
        self
    }

    /// Says what the ratio should be at least.
    pub fn ratio_at_least(mut self, limit: f64) -> Self {
        if let Some((ratio, _)) = self.ratio {
            self.aim = Some((format!("≥ {limit} ×"), ratio >= limit));
        }
        self
    }

    /// Says what the ratio should be at most.
    pub fn ratio_at_most(mut self, limit: f64) -> Self {
        if let Some((ratio, _)) = self.ratio {
            self.aim = Some((format!("≤ {limit} ×"), ratio <= limit));
        }
        self
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The median and the spread.
    pub fn summary(&self) -> String {
        let median = figure(self.unit, self.median());
        if self.samples.len() == 1 {
            return median;
        }
        let [low, high] = [0.1, 0.9].map(|share| figure(self.unit, self.quantile(share)));
        format!("{median} ({low} to {high})")
    }

    /// What it should be, and that it is not.
    pub fn aim(&self) -> String {
        let aim = self.aim.as_ref().map_or("", |(aim, _)| aim);
        format!("{aim}{}", self.missed())
    }

    /// What stands behind a figure that is not as it should be.
    pub fn missed(&self) -> &'static str {
        match self.aim {
            Some((_, false)) => " **missed**",
            _ => "",
        }
    }

    /// The sample below which so much of all lies.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are some thousands at most"
    )]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.samples.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.samples.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// All lines, and where they come from.
pub struct Table {
    pub rows: Vec<Row>,
    origin: Value,
}

impl Table {
    pub fn of_this_machine(setup: &Setup) -> Result<Self> {
        let first_line = |program: &str, argument: &str| -> Result<String> {
            let output = Command::new(program).arg(argument).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.lines().next().unwrap_or_default().to_owned())
        };
        let processor = fs::read_to_string("/proc/cpuinfo")?;
        let models: Vec<&str> = processor
            .lines()
            .filter(|line| line.starts_with("model name"))
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Self {
            rows: Vec::new(),
            origin: json!({
                "date": first_line("date", "+%Y-%m-%d")?,
                "machine": format!("{} × {}, Linux {}", models.len(), models.first().unwrap_or(&"processor"), kernel.trim()),
                "dblock": first_line(&setup.dblock, "--version")?,
                "MariaDB": setup.mariadb.version,
                "MySQL": setup.mysql.version,
                "PostgreSQL": setup.postgres.as_ref().map(|server| &server.version),
                "flock": first_line("flock", "--version")?,
                "etcd": first_line("etcd", "--version")?,
                "redis": first_line("redis-server", "--version")?,
                "parallel": first_line("parallel", "--version")?,
            }),
        })
    }

    pub fn add(&mut self, row: Row) {
        eprintln!("  {}: {}", row.what, figure(row.unit, row.median()));
        self.rows.push(row);
    }

    /// Adds several, each but the first compared with that.
    pub fn add_against_first(&mut self, rows: Vec<Row>, name: &str) {
        let first = rows.first().cloned();
        for (at, row) in rows.into_iter().enumerate() {
            self.add(match &first {
                Some(first) if at > 0 => row.against(first, name),
                _ => row,
            });
        }
    }

    /// The last line of this name.
    pub fn row(&self, what: &str) -> Option<&Row> {
        self.rows.iter().rev().find(|row| row.what == what)
    }

    /// Where the figures come from.
    pub fn head(&self) -> String {
        let of = |key| {
            let value = self.origin.get(key).and_then(Value::as_str);
            value.unwrap_or_default()
        };
        let postgres = match of("PostgreSQL") {
            "" => String::new(),
            version => format!(", PostgreSQL {version}"),
        };
        format!(
            "{}, {}; MariaDB {}, MySQL {}{postgres}. Medians; in brackets from the 10th to the 90th of 100.\n\n",
            of("date"),
            of("machine"),
            of("MariaDB"),
            of("MySQL")
        )
    }

    pub fn markdown(&self) -> String {
        let mut text = self.head();
        add_lines(self.rows.iter(), "", "", &mut text);
        text
    }

    pub fn json(&self) -> String {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let quantiles: Vec<f64> = (0..=20u8)
                    .map(|at| row.quantile(f64::from(at) / 20.0))
                    .collect();
                json!({
                    "part": row.part,
                    "what": row.what,
                    "unit": match row.unit {
                        Unit::Seconds => "seconds",
                        Unit::Bytes => "bytes",
                        Unit::Count => "count",
                        Unit::Share => "share",
                    },
                    "samples": row.samples.len(),
                    "median": row.median(),
                    "quantiles": quantiles,
                    "ratio": row.ratio.as_ref().map(|(ratio, _)| ratio),
                    "against": row.ratio.as_ref().map(|(_, other)| other),
                    "aim": row.aim.as_ref().map(|(aim, _)| aim),
                    "met": row.aim.as_ref().map(|(_, met)| met),
                })
            })
            .collect();
        let whole = json!({ "origin": self.origin, "rows": rows });
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }
}

/// A line for each figure, with its spread. `usual`: what most of them are compared with, or nothing.
pub fn add_lines<'a>(
    rows: impl Iterator<Item = &'a Row>,
    heading: &str,
    usual: &str,
    text: &mut String,
) {
    let [heading, against] = [format!("| {heading}"), format!("| against {usual}")];
    let [heading, against] = [heading.trim_end(), against.trim_end()];
    let _ = writeln!(
        text,
        "{heading} | median {against} | aim |\n|---|---|---|---|"
    );
    for row in rows {
        let ratio = match &row.ratio {
            Some((ratio, other)) if other == usual => format!("{ratio:.2} ×"),
            Some((ratio, other)) => format!("{ratio:.2} × {other}"),
            None => String::new(),
        };
        let (what, summary, aim) = (&row.what, row.summary(), row.aim());
        let _ = writeln!(text, "| {what} | {summary} | {ratio} | {aim} |");
    }
}

/// A figure with its unit, in three digits.
pub fn figure(unit: Unit, figure: f64) -> String {
    match unit {
        Unit::Seconds if figure >= 1.0 => format!("{} s", digits(figure)),
        Unit::Seconds => format!("{} ms", digits(figure * 1000.0)),
        Unit::Bytes if figure >= 1e6 => format!("{} MB", digits(figure / 1e6)),
        Unit::Bytes if figure >= 1e3 => format!("{} kB", digits(figure / 1e3)),
        Unit::Bytes => format!("{figure:.0} B"),
        Unit::Count if figure >= 1e6 => format!("{} million", digits(figure / 1e6)),
        Unit::Count if figure.fract() == 0.0 => format!("{figure:.0}"),
        Unit::Count => digits(figure),
        Unit::Share => format!("{} %", digits(figure * 100.0)),
    }
}

fn digits(figure: f64) -> String {
    match figure {
        100.0.. => format!("{figure:.0}"),
        10.0..100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
