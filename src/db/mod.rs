//! A session with a MySQL or MariaDB server (the `mysql` crate): the hosts to try, login, TLS, statements out, typed answers and faults
//! in. Knows nothing of locks.

mod ask;
pub mod cluster;
mod connect;
mod fault;
mod peer;
mod row;
pub mod server_facts;
mod session;
pub mod sql;
mod target;
mod tls;
mod tls_error;

pub use ask::{
    Ask, Batch, LIST, Reply, ask, ask_value, ask_values, batch, command, named, roll_back,
};
pub use connect::{Connector, PassedOver};
pub use fault::{Fault, NO_PRIVILEGE, NO_TABLE, may_pass};
pub use peer::{
    ALL_ATTRIBUTES, Claims, Client, OWN_ATTRIBUTES, PROGRAM, claims, client, short_address,
};
pub use row::{Row, Rows, no_answer};
pub use server_facts::{SessionInfo, ask_session_info};
pub use session::Session;
pub use sql::{quoted_identifier, text_literal};
pub use target::{
    ConnectOptions, DeferredPassword, Identity, Password, Protocol, SslMode, Target, TlsOptions,
};
