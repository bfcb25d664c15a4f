//! The account that dblock logs in with, and how the crate connects.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use mysql::{LocalInfileHandler, OptsBuilder};

use crate::base::exit::Failure;
use crate::base::log::Listener;
use crate::base::user::os_user;
use crate::db::keep_alive::{KeepAlive, PROBES};
use crate::db::password;
use crate::db::target::ConnectOptions;
use crate::db::tls::{Tls, check_public_key};

/// The most bytes of a packet. It is set here so that the crate does not ask the server; dblock's own statements are far shorter.
const PACKET_LIMIT: usize = 1024 * 1024;

/// The account that dblock logs in with, and how the crate connects.
pub struct Account {
    pub(super) user: String,
    pub(super) options: OptsBuilder,
    pub(super) has_password: bool,
    pub(super) tls: Tls,
}

impl Account {
    /// Reads what is still missing: the files of the password and of TLS, and the OS user's name. Each session has these connection
    /// `attributes`, and ends after the `idle_limit` without a statement.
    ///
    /// # Errors
    /// [`Reason::Configuration`](crate::base::exit::Reason) when a file cannot be used.
    pub fn new(
        settings: &ConnectOptions,
        attributes: HashMap<&'static str, String>,
        idle_limit: Duration,
        listener: &Listener,
    ) -> Result<Self, Failure> {
        // One for all servers.
        let password = password::read(&settings.password, &settings.targets[0], listener)?;
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => os_user()?,
        };
        if let Some(key) = &settings.tls.server_public_key {
            check_public_key(key)?;
        }
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        let KeepAlive { idle, user_timeout } = KeepAlive::new(idle_limit);
        let has_password = password
            .as_deref()
            .is_some_and(|password| !password.is_empty());
        let options = OptsBuilder::new()
            .user(Some(user.clone()))
            .pass(password.as_deref())
            // By default the crate would switch from a loopback address to the socket that the server names. Through a tunnel that is the
            // socket of another server.
            .prefer_socket(false)
            .connect_attrs(Some(attributes))
            .server_key_path(settings.tls.server_public_key.clone())
            .max_allowed_packet(Some(PACKET_LIMIT))
            .stmt_cache_size(0)
            // A server may answer any statement with a request for a local file. If that is refused, the session is not used any more.
            .local_infile_handler(Some(LocalInfileHandler::new(|_, _| {
                Err(io::Error::other("it asks for a file of this host's"))
            })))
            .tcp_keepalive_time_ms(Some(millis(idle)))
            .tcp_keepalive_probe_interval_secs(u32::try_from(idle.as_secs()).ok())
            .tcp_keepalive_probe_count(Some(PROBES))
            .tcp_user_timeout_ms(Some(millis(user_timeout)));
        Ok(Self {
            user,
            options,
            has_password,
            tls: Tls::new(&settings.tls, &settings.targets, false, listener)?,
        })
    }
}
