//! A session with a server: the hosts to try, login, TLS, statements out, typed answers and faults in. What is written for one
//! driver is in a folder of its own. Knows nothing of locks.

mod address;
#[cfg(test)]
mod any_bytes;
mod ask;
pub mod cluster;
mod connect;
mod fault;
mod keep_alive;
mod mysql;
mod password;
mod peer;
mod postgres;
mod resolver;
mod row;
pub mod server_facts;
mod session;
pub mod sql;
mod target;
mod tls;
mod tls_error;
mod wire;
mod words;

pub use ask::{
    Ask, Batch, LIST, Reply, ask, ask_value, ask_values, batch, command, named, roll_back,
};
pub use connect::{Connector, PassedOver};
pub use fault::{
    Fault, READ_ONLY, READ_ONLY_BY_DEFAULT, REFUSED_PAUSE, may_pass, none_takes_writes,
};
pub use peer::{
    ALL_ATTRIBUTES, Claims, Client, OWN_ATTRIBUTES, PROGRAM, claims, client, short_address,
};
pub use postgres::sql as postgres_sql;
pub use postgres::{
    Facts, LatestTimeline, TIMELINE, Timeline, ask_facts, ask_sessions, ask_timeline,
};
pub use row::{Row, Rows, no_answer};
pub use server_facts::{SessionInfo, ask_session_info, ask_time};
pub use session::Session;
pub use sql::{quoted_identifier, text_literal};
pub use target::{
    ChannelBinding, ConnectOptions, DeferredPassword, Identity, Kind, Password, PostgresOptions,
    Protocol, SslMode, Target, TlsFiles, TlsOptions,
};
pub use tls::SYSTEM_CAS;
pub use wire::Code;
