//! The errors of PostgreSQL by their SQLSTATE, as faults.

use std::fmt;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;

use crate::base::exit::{Failure, Reason};
use crate::base::text::printable;
use crate::db::fault::Fault;
use crate::db::wire::Code;

/// A server's timeline, in the place of a variable.
pub const TIMELINE: &str = "timeline";

/// The functions that tell it: see [`super::sql::TIMELINE`].
const OF_TIMELINE: [&str; 4] = [
    "pg_control_system",
    "pg_control_checkpoint",
    "pg_walfile_name",
    "pg_current_wal_lsn",
];

/// No such table, schema, column or database.
pub const NO_TABLE: [&[u8; 5]; 4] = [b"42P01", b"3F000", b"42703", b"3D000"];

/// The role lacks a privilege.
pub const NO_PRIVILEGE: &[u8; 5] = b"42501";

/// What a server says when it refuses something.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whether the server ends the session with it.
    pub is_fatal: bool,
    /// The SQLSTATE, five characters.
    pub state: String,
    /// What happened, in the server's language.
    pub message: String,
}

impl Refusal {
    /// Reads the message of a server. What it leaves out is empty; what is no UTF-8 is replaced.
    pub fn read(body: &ErrorResponseBody) -> Self {
        let mut refusal = Self::default();
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // The severity that is not translated. The other one, `S`, may be in any language; PgBouncer sends nothing but that, in
                // English.
                b'V' | b'S' => {
                    refusal.is_fatal |= matches!(field.value_bytes(), b"FATAL" | b"PANIC");
                }
                b'C' => refusal.state = text(),
                b'M' => refusal.message = printable(&text()),
                _ => {}
            }
        }
        refusal
    }

    /// The SQLSTATE as a code; one of another length is cut, or filled up with zeros.
    pub fn code(&self) -> Code {
        let mut state = *b"00000";
        state
            .iter_mut()
            .zip(self.state.bytes())
            .for_each(|(place, byte)| *place = byte);
        Code::State(state)
    }

    /// Whether the SQLSTATE is of this class, two characters.
    fn is_of(&self, class: &str) -> bool {
        self.state.starts_with(class)
    }

    fn is_about_the_account(&self) -> bool {
        // Invalid authorization; no privilege.
        self.is_of("28") || self.state.as_bytes() == NO_PRIVILEGE
    }

    /// Not every server has a timeline, or lets everybody ask. Amazon Aurora tells none unless its log is one for logical replication.
    fn is_about_the_timeline(&self) -> bool {
        OF_TIMELINE.iter().any(|name| self.message.contains(name))
            || self.state == "55000" && self.message.contains("wal_level")
    }

    /// The fault of a login to `server` as `user`.
    pub fn of_login(&self, server: &str, user: &str) -> Fault {
        match &*self.state {
            // Too many connections, of the server, a role or a database; or no memory for another one.
            _ if self.is_of("53") => Fault::Full(self.to_string()),
            _ if self.is_about_the_account() => {
                let line = format!("{server} refused the account {user}: {self}");
                Fault::Final(Failure::new(Reason::AccountRefused, line))
            }
            // There is no such database, or it takes no connections; a setting of the login is wrong, or cannot be set so.
            state
                if ["3D000", "55000", "55P02"].contains(&state)
                    || self.is_of("22")
                    || self.is_of("42") =>
            {
                let line = format!("{server} refused the session: {self}");
                Fault::Final(Failure::new(Reason::Configuration, line))
            }
            // PgBouncer takes only few of them.
            "08P01" if self.message.contains("startup parameter") => {
                let line = format!(
                    "{server} is a pooler that does not take the settings of a session: {self}; connect to the server itself, \
                     or, if the pooler is in session mode, add pooler=session to the URL, and leave options out"
                );
                Fault::Final(Failure::new(Reason::Configuration, line))
            }
            // The server is starting or shutting down, or a pooler has no server: all of them pass.
            _ => Fault::Gone(self.to_string()),
        }
    }

    /// The fault of a statement in a session with `server`.
    pub fn of_statement(&self, server: &str) -> Fault {
        if self.is_fatal {
            return Fault::Gone(self.to_string());
        }
        if self.is_about_the_timeline() {
            return Fault::NoSuchVariable(TIMELINE.to_owned());
        }
        match &*self.state {
            // Cancelled, or a time limit of the statement.
            "57014" => Fault::Interrupted(self.to_string()),
            // Serialization failure, deadlock, lock not available; the object is in use.
            "40001" | "40P01" | "55P03" | "55006" => Fault::Conflict(self.to_string()),
            // A commit whose outcome is unknown.
            "40003" => Fault::Gone(self.to_string()),
            "25006" => Fault::ReadOnly(format!("takes no writes: {self}")),
            state if NO_TABLE.iter().any(|one| *one == state.as_bytes()) => {
                Fault::NoSuchTable(self.to_string())
            }
            // The table, schema, column, index or row exists already.
            "42P07" | "42P06" | "42701" | "42710" | "23505" => Fault::Exists(self.to_string()),
            // A subquery returned two rows where one is allowed: that is how a conditional statement fails.
            "21000" => Fault::Unmet(self.to_string()),
            // The disk is full; out of memory, also of the memory that sessions share for their locks; another limit is reached.
            _ if self.is_of("53") => Fault::NoRoom(self.to_string()),
            // The server ends the session, or a pooler has lost its server.
            _ if self.is_of("08") || self.is_of("57P") => Fault::Gone(self.to_string()),
            _ if self.is_about_the_account() => {
                let line = format!("{server} refused the account: {self}");
                Fault::Final(Failure::new(Reason::AccountRefused, line))
            }
            _ => {
                let line = format!("{server} refused a statement: {self}");
                Fault::Final(Failure::new(Reason::Internal, line))
            }
        }
    }
}

impl fmt::Display for Refusal {
    /// The server's message, with the SQLSTATE.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.state)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use postgres_protocol::message::backend::Message;

    use super::*;

    #[test]
    fn the_end_of_a_session_is_told_by_servers_in_any_language_and_by_poolers() {
        let read = |fields: &[u8]| {
            let length = u32::try_from(fields.len() + 4).unwrap();
            let message = [&b"E"[..], &length.to_be_bytes(), fields].concat();
            match Message::parse(&mut BytesMut::from(&message[..])) {
                Ok(Some(Message::ErrorResponse(body))) => Refusal::read(&body),
                _ => panic!("it is an error"),
            }
        };
        for (fields, is_fatal) in [
            (&b"SFATALE\0VFATAL\0C57P01\0Mfine\0\0"[..], true),
            (&b"SERREUR\0VERROR\0C42P01\0Mnon\0\0"[..], false),
            (&b"SFATAL\0C08P01\0Mquery_wait_timeout\0\0"[..], true),
            (&b"SERROR\0C08P01\0Mno\0\0"[..], false),
        ] {
            let refusal = read(fields);
            assert_eq!(refusal.is_fatal, is_fatal, "{refusal}");
        }
    }

    #[test]
    fn an_error_says_what_may_follow() {
        let fault = |state: &str| {
            let refusal = Refusal {
                state: state.to_owned(),
                ..Refusal::default()
            };
            refusal.of_statement("the server")
        };
        assert!(matches!(fault("57014"), Fault::Interrupted(_)));
        for state in ["40001", "40P01", "55P03"] {
            assert!(matches!(fault(state), Fault::Conflict(_)), "{state}");
        }
        for state in ["57P01", "57P02", "57P03", "57P05", "08006", "40003"] {
            assert!(matches!(fault(state), Fault::Gone(_)), "{state}");
        }
        for state in ["53000", "53100", "53200", "53300", "53400"] {
            assert!(matches!(fault(state), Fault::NoRoom(_)), "{state}");
        }
        assert!(matches!(fault("25006"), Fault::ReadOnly(_)));
        assert!(matches!(fault("42P01"), Fault::NoSuchTable(_)));
    }
}
