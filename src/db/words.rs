//! The words in which the kinds of servers differ, for statements that are otherwise the same.

use std::time::Duration;

use super::target::Kind;
use super::{postgres_sql as postgres, sql as mysql};

/// The words of servers of this kind. A moment is an SQL expression.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub Kind);

impl Words {
    fn choose<T>(self, of_mysql: T, of_postgres: T) -> T {
        match self.0 {
            Kind::MySql => of_mysql,
            Kind::Postgres => of_postgres,
        }
    }

    /// The server's time.
    pub fn now(self) -> &'static str {
        self.choose("UTC_TIMESTAMP(6)", postgres::NOW)
    }

    /// A column `user`.
    pub fn user(self) -> &'static str {
        self.choose("user", "\"user\"")
    }

    /// A text.
    pub fn literal(self, text: &str) -> String {
        self.choose::<fn(&str) -> String>(mysql::text_literal, postgres::text_literal)(text)
    }

    /// The moment so many microseconds after the start of 1970.
    pub fn moment(self, micros: i64) -> String {
        self.choose::<fn(i64) -> String>(mysql::moment, postgres::moment)(micros)
    }

    /// As [`Words::moment`]; `None`: NULL.
    pub fn optional_moment(self, micros: Option<i64>) -> String {
        self.choose::<fn(Option<i64>) -> String>(mysql::optional_moment, postgres::optional_moment)(
            micros,
        )
    }

    /// The microseconds from the start of 1970 to a moment.
    pub fn micros(self, moment: &str) -> String {
        self.choose::<fn(&str) -> String>(mysql::micros, postgres::micros)(moment)
    }

    /// The moment so many seconds ago.
    pub fn seconds_ago(self, seconds: u64) -> String {
        self.choose::<fn(u64) -> String>(mysql::seconds_ago, postgres::seconds_ago)(seconds)
    }

    /// The moment in so many seconds.
    pub fn after_seconds(self, seconds: u64) -> String {
        self.choose::<fn(u64) -> String>(mysql::after_seconds, postgres::after_seconds)(seconds)
    }

    /// The moment this long from now.
    pub fn after(self, span: Duration) -> String {
        self.choose::<fn(Duration) -> String>(mysql::after, postgres::after)(span)
    }

    /// The condition that a column is this value, or NULL if that is.
    pub fn is_same(self, column: &str, value: &str) -> String {
        let is = self.choose("<=>", "IS NOT DISTINCT FROM");
        format!("{column} {is} {value}")
    }

    /// What in an INSERT stands before the assignments for a row whose `key` is there already.
    pub fn or_update(self, key: &str) -> String {
        let conflict = format!("ON CONFLICT ({key}) DO UPDATE SET");
        self.choose("ON DUPLICATE KEY UPDATE".to_owned(), conflict)
    }
}
