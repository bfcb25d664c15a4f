//! A session with a MySQL or MariaDB server (the `mysql` crate): the hosts to try, login, TLS, statements out, typed answers and faults
//! in. Knows nothing of locks.

pub mod cluster;
mod connect;
mod fault;
mod peer;
pub mod server_facts;
mod session;
mod statement;
mod target;
mod tls;
mod tls_error;

pub use connect::{Connector, PassedOver};
pub use fault::{Fault, NO_PRIVILEGE, NO_TABLE, may_pass};
pub use peer::{
    ALL_ATTRIBUTES, Claims, Client, OWN_ATTRIBUTES, PROGRAM, claims, client, read_address,
};
pub use server_facts::{AskSessionInfo, SessionInfo};
pub use session::Session;
pub use statement::{
    Batch, LIST, Plain, Reply, Row, Statement, first_value, quoted_identifier, text_literal,
};
pub use target::{
    ConnectOptions, DeferredPassword, Identity, Password, Protocol, SslMode, Target, TlsOptions,
};
