//! The words in which the kinds of servers differ, for statements that are the same otherwise. Where more than words differs, each kind has
//! a statement of its own.

use std::fmt::Display;
use std::time::Duration;

use super::target::Kind;
use super::{postgres_sql, sql};

/// Of MySQL an interval is a signed number, and dates begin with the year 0; those of PostgreSQL end with the year 294276.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

impl Kind {
    /// The server's time.
    pub fn now(self) -> &'static str {
        match self {
            Self::MySql => sql::NOW,
            Self::Postgres => postgres_sql::NOW,
        }
    }

    /// The column `user`, which is a word of PostgreSQL's language if it is not quoted.
    pub fn user(self) -> &'static str {
        match self {
            Self::MySql => "user",
            Self::Postgres => "\"user\"",
        }
    }

    /// A text as a literal that no setting of the server changes.
    pub fn literal(self, text: &str) -> String {
        match self {
            Self::MySql => sql::text_literal(text),
            Self::Postgres => postgres_sql::text_literal(text),
        }
    }

    /// As [`Kind::literal`]; `None`: NULL.
    pub fn optional_literal(self, text: Option<&str>) -> String {
        text.map_or_else(|| "NULL".to_owned(), |text| self.literal(text))
    }

    /// Literals of texts, separated by commas.
    pub fn literals<T: AsRef<str>>(self, texts: impl IntoIterator<Item = T>) -> String {
        let literals = texts.into_iter().map(|text| self.literal(text.as_ref()));
        literals.collect::<Vec<_>>().join(", ")
    }

    /// Bytes as a literal.
    pub fn bytes(self, bytes: &[u8]) -> String {
        match self {
            Self::MySql => {
                let mut literal = String::new();
                sql::write_bytes(&mut literal, bytes);
                literal
            }
            Self::Postgres => postgres_sql::bytes_literal(bytes),
        }
    }

    /// The moment this many microseconds after the start of 1970.
    pub fn moment(self, micros: i64) -> String {
        match self {
            Self::MySql => sql::moment(micros),
            Self::Postgres => postgres_sql::moment(micros),
        }
    }

    /// As [`Kind::moment`]; `None`: NULL.
    pub fn optional_moment(self, micros: Option<i64>) -> String {
        let null = match self {
            Self::MySql => "NULL",
            Self::Postgres => "NULL::timestamptz",
        };
        micros.map_or_else(|| null.to_owned(), |micros| self.moment(micros))
    }

    /// The microseconds from the start of 1970 to a moment.
    pub fn micros(self, moment: &str) -> String {
        match self {
            Self::MySql => sql::micros(moment),
            Self::Postgres => postgres_sql::micros(moment),
        }
    }

    /// The microseconds from one moment to another.
    pub fn micros_between(self, from: &str, to: &str) -> String {
        match self {
            Self::MySql => format!("TIMESTAMPDIFF(MICROSECOND, {from}, {to})"),
            Self::Postgres => format!("(extract(epoch FROM {to} - {from}) * 1000000)::bigint"),
        }
    }

    /// The moment this long before now, by the server's clock.
    pub fn ago(self, span: Duration) -> String {
        let (now, micros) = (self.now(), span.min(LONGEST).as_micros());
        match self {
            Self::MySql => format!("{now} - INTERVAL {micros} MICROSECOND"),
            Self::Postgres => format!("({now} - ({micros}) * interval '1 microsecond')"),
        }
    }

    /// The moment this long after now.
    pub fn after(self, span: Duration) -> String {
        match self {
            Self::MySql => sql::after(span),
            Self::Postgres => {
                let (now, micros) = (self.now(), span.min(LONGEST).as_micros());
                format!("({now} + ({micros}) * interval '1 microsecond')")
            }
        }
    }

    /// The moment this many seconds before now. The number may be an SQL expression, here and below.
    pub fn seconds_ago(self, seconds: impl Display) -> String {
        match self {
            Self::MySql => sql::seconds_ago(seconds),
            Self::Postgres => postgres_sql::seconds_ago(seconds),
        }
    }

    /// The moment this many seconds after now.
    pub fn after_seconds(self, seconds: impl Display) -> String {
        match self {
            Self::MySql => sql::after_seconds(seconds),
            Self::Postgres => postgres_sql::after_seconds(seconds),
        }
    }

    /// A moment that is computed once, so that rows are found by a key: PostgreSQL would read its clock anew for each row.
    pub fn once(self, moment: String) -> String {
        match self {
            Self::MySql => moment,
            Self::Postgres => format!("(SELECT {moment})"),
        }
    }

    /// The condition that two values are the same, or both NULL.
    pub fn is_same(self, one: &str, other: &str) -> String {
        match self {
            Self::MySql => format!("{one} <=> {other}"),
            Self::Postgres => format!("{one} IS NOT DISTINCT FROM {other}"),
        }
    }

    /// What begins the changes of an INSERT to a row that is there with this key.
    pub fn if_there(self, key: &str) -> String {
        match self {
            Self::MySql => "ON DUPLICATE KEY UPDATE".to_owned(),
            Self::Postgres => format!("ON CONFLICT ({key}) DO UPDATE SET"),
        }
    }

    /// In such a change: the value that was to be inserted.
    pub fn inserted(self, column: &str) -> String {
        match self {
            Self::MySql => format!("VALUES({column})"),
            Self::Postgres => format!("excluded.{column}"),
        }
    }

    /// A further condition of a write: that the server takes writes. PostgreSQL itself refuses it otherwise; the others do not refuse every
    /// account.
    pub fn and_takes_writes(self) -> String {
        match self {
            Self::MySql => format!(" AND NOT {}", sql::is_read_only()),
            Self::Postgres => String::new(),
        }
    }

    /// Something of one kind alone, such as the key that a server is to use.
    pub fn only_mysql(self, words: &'static str) -> &'static str {
        match self {
            Self::MySql => words,
            Self::Postgres => "",
        }
    }
}
