//! How a server is asked: a statement with its name and the reader of its answer, and several of them in one packet.

use std::fmt::Display;

use super::fault::{Fault, READ_ONLY};
use super::row::{Row, Rows, Value, no_answer};
use super::sql::is_read_only;
use super::target::Kind;

/// The most rows of a list: ten for each of more sessions than a server has.
pub const LIST: usize = 200_000;

/// Reads the rows of an answer.
type Read<'a, T> = Box<dyn Fn(Rows) -> Result<T, Fault> + 'a>;

/// A statement, and how its answer is read. Its text begins with a comment that names it, such as `/* dblock renew */`, for readers of the
/// server's process list.
pub struct Ask<'a, T> {
    sql: String,
    most_rows: usize,
    read: Read<'a, T>,
}

/// A statement with this name, without `dblock`. Its answer has one row, unless it is [asked for more](Ask::up_to).
pub fn ask<'a, T>(
    name: impl Display,
    sql: impl Display,
    read: impl Fn(Rows) -> Result<T, Fault> + 'a,
) -> Ask<'a, T> {
    Ask {
        sql: named(name, sql),
        most_rows: 1,
        read: Box::new(read),
    }
}

/// A statement with this name that asks for one value; `None`: NULL, or no row.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is for rows of one lifetime"
)]
pub fn ask_value<T: Value>(name: impl Display, sql: impl Display) -> Ask<'static, Option<T>> {
    ask(name, sql, |rows| rows.value())
}

/// A statement with this name that asks for the values of one column, without NULL.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is for rows of one lifetime"
)]
pub fn ask_values<T: Value>(name: impl Display, sql: impl Display) -> Ask<'static, Vec<T>> {
    ask(name, sql, |rows| rows.values())
}

/// A statement with this name whose answer does not matter.
pub fn command(name: impl Display, sql: impl Display) -> Ask<'static, ()> {
    ask(name, sql, |_| Ok(()))
}

/// Rolls back the rest of a transaction.
pub fn roll_back() -> Ask<'static, ()> {
    command("roll back", "ROLLBACK")
}

/// The text of a statement with this name.
pub fn named(name: impl Display, sql: impl Display) -> String {
    format!("/* dblock {name} */ {sql}")
}

impl Ask<'static, ()> {
    /// A statement whose text has its name already, and whose answer does not matter.
    pub fn written(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            most_rows: 1,
            read: Box::new(|_| Ok(())),
        }
    }
}

impl<'a, T> Ask<'a, T> {
    /// Reads up to this many rows of the answer. The others are dropped.
    pub fn up_to(mut self, most_rows: usize) -> Self {
        self.most_rows = most_rows;
        self
    }

    /// Makes something else of the answer.
    pub fn map<U>(self, then: impl Fn(T) -> U + 'a) -> Ask<'a, U>
    where
        T: 'a,
    {
        let read = self.read;
        Ask {
            sql: self.sql,
            most_rows: self.most_rows,
            read: Box::new(move |rows| read(rows).map(&then)),
        }
    }

    /// The text, with the name.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The most rows that are read.
    pub(super) fn most_rows(&self) -> usize {
        self.most_rows
    }

    /// Reads the rows of the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of an unexpected type.
    pub fn read(&self, rows: Rows) -> Result<T, Fault> {
        (self.read)(rows)
    }
}

/// The server's answer to a statement.
#[derive(Debug, Default)]
pub struct Reply {
    pub(super) rows: Vec<Row>,
    /// How many rows it has changed.
    pub changed: u64,
    /// The `LAST_INSERT_ID` that it set; `None`: none.
    pub insert_id: Option<u64>,
}

impl Reply {
    /// Its rows.
    pub fn rows(&self) -> Rows<'_> {
        Rows(&self.rows)
    }
}

/// Reads the answers to several statements, with the fault of the first that failed.
type ReadAll<'a, T> = Box<dyn Fn(&[Reply], Option<Fault>) -> Result<T, Fault> + 'a>;

/// Several statements in one packet, or for a node of Galera [one by one](super::Session::send_one_by_one), and how their answers are
/// read. The server runs each only if the one before succeeded.
pub struct Batch<'a, T> {
    statements: Vec<String>,
    read: ReadAll<'a, T>,
}

/// Statements that must all succeed, and whose answers do not matter. The first gets this name, which is that of all.
pub fn batch(name: impl Display, mut statements: Vec<String>) -> Batch<'static, ()> {
    if let Some(first) = statements.first_mut() {
        *first = named(name, &first);
    }
    Batch::written(statements)
}

impl Batch<'static, ()> {
    /// As [`batch`], for texts that have their names already.
    pub fn written(statements: Vec<String>) -> Self {
        Self {
            statements,
            read: Box::new(|_, fault| fault.map_or(Ok(()), Err)),
        }
    }

    /// Statements that must all succeed: reads the answers, which are as many.
    pub fn read_all<'a, T>(self, read: impl Fn(&[Reply]) -> Result<T, Fault> + 'a) -> Batch<'a, T> {
        let number = self.statements.len();
        self.read(move |replies, fault| match fault {
            None if replies.len() == number => read(replies),
            fault => Err(fault.unwrap_or_else(no_answer)),
        })
    }

    /// Statements that must all succeed: reads the rows of the last one's answer.
    pub fn read_last<'a, T>(self, read: impl Fn(Rows) -> Result<T, Fault> + 'a) -> Batch<'a, T> {
        self.read_all(move |replies| read(replies.last().ok_or_else(no_answer)?.rows()))
    }

    /// Reads the answer of each statement that succeeded, in order, with the fault of the next one. It returns that fault, unless its
    /// answer does not need the statement.
    pub fn read<'a, T>(
        self,
        read: impl Fn(&[Reply], Option<Fault>) -> Result<T, Fault> + 'a,
    ) -> Batch<'a, T> {
        Batch {
            statements: self.statements,
            read: Box::new(read),
        }
    }
}

impl<'a, T: 'a> Batch<'a, T> {
    /// Asks after all of them whether the server takes no writes. If so, the answer is [`Fault::ReadOnly`], although they may have been
    /// carried out: the server does not refuse every account, and nothing that is written there counts on the one that takes writes.
    /// PostgreSQL refuses by itself.
    pub fn if_it_takes_writes(mut self, kind: Kind) -> Self {
        if kind == Kind::Postgres {
            return self;
        }
        let number = self.statements.len();
        let question = named("read-only", format!("SELECT {}", is_read_only()));
        self.statements.push(question);
        let read = self.read;
        self.read = Box::new(move |replies, fault| match replies.get(number) {
            Some(reply) => match reply.rows().value::<bool>()? {
                Some(false) => read(&replies[..number], fault),
                Some(true) => Err(Fault::ReadOnly(READ_ONLY.to_owned())),
                None => Err(no_answer()),
            },
            None if replies.len() == number => Err(match fault {
                // The others were carried out, and either fault would say that nothing was.
                Some(Fault::Conflict(cause) | Fault::Interrupted(cause)) => Fault::Gone(cause),
                fault => fault.unwrap_or_else(no_answer),
            }),
            None => read(replies, fault),
        });
        self
    }
}

impl<T> Batch<'_, T> {
    /// The texts.
    pub fn statements(&self) -> &[String] {
        &self.statements
    }

    /// Reads the answers, with the fault of the first statement that failed.
    pub(super) fn answer(&self, replies: &[Reply], fault: Option<Fault>) -> Result<T, Fault> {
        (self.read)(replies, fault)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn reply(value: &str) -> Reply {
        let row = Row {
            columns: Rc::from(["value".to_owned()]),
            values: vec![Some(value.into())],
        };
        Reply {
            rows: vec![row],
            ..Reply::default()
        }
    }

    /// Two statements, and how many answers to them are read.
    fn two(kind: Kind) -> Batch<'static, usize> {
        batch("two", vec!["SELECT 1".to_owned(); 2])
            .read_all(|replies| Ok(replies.len()))
            .if_it_takes_writes(kind)
    }

    #[test]
    fn what_a_server_answers_that_takes_no_writes_does_not_count() {
        let asked = two(Kind::MySql);
        assert_eq!(asked.statements().len(), 3);
        let answer = |read_only| asked.answer(&[reply("1"), reply("1"), reply(read_only)], None);
        assert!(matches!(answer("0"), Ok(2)));
        assert!(matches!(answer("1"), Err(Fault::ReadOnly(_))));
        // Nor where that is unknown.
        for fault in [Fault::Gone, Fault::Interrupted, Fault::Conflict] {
            let fault = Some(fault("it is over".to_owned()));
            let answer = asked.answer(&[reply("1"), reply("1")], fault);
            assert!(matches!(answer, Err(Fault::Gone(_))));
        }
        let conflict = Some(Fault::Conflict("a deadlock".to_owned()));
        let answer = asked.answer(&[reply("1")], conflict);
        assert!(matches!(answer, Err(Fault::Conflict(_))));
        assert_eq!(two(Kind::Postgres).statements().len(), 2);
    }
}
