//! The account that dblock logs in with on PostgreSQL.

use std::collections::HashMap;
use std::time::Duration;

use zeroize::Zeroizing;

use super::introduction;

use crate::base::exit::Failure;
use crate::base::log::Listener;
use crate::base::user::os_user;
use crate::db::keep_alive::KeepAlive;
use crate::db::password;
use crate::db::target::{ChannelBinding, ConnectOptions, PostgresOptions, Target};
use crate::db::tls::Tls;

/// The account that dblock logs in with.
pub struct Account {
    pub(super) user: String,
    /// The password for each server.
    passwords: Vec<(Target, Option<Zeroizing<String>>)>,
    pub(super) database: String,
    /// What the server shows of the session to everybody, at most 63 bytes.
    pub(super) application_name: String,
    /// What a comment in each statement says besides.
    pub(super) comment: String,
    pub(super) settings: PostgresOptions,
    pub(super) tls: Tls,
    pub(super) keep_alive: KeepAlive,
}

impl Account {
    /// Reads what is still missing: the files of the password and of TLS, and the OS user's name. Each session says
    /// these `attributes` of itself, and ends after the `idle_limit` without a statement.
    ///
    /// # Errors
    /// [`Reason::Configuration`](crate::base::exit::Reason) when a file cannot be used.
    pub fn new(
        settings: &ConnectOptions,
        attributes: &HashMap<&'static str, String>,
        idle_limit: Duration,
        listener: &Listener,
    ) -> Result<Self, Failure> {
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => os_user()?,
        };
        let targets = &settings.targets;
        let binds_logins = settings.postgres.channel_binding != ChannelBinding::Disable;
        let passwords = password::read_all(&settings.password, targets, listener)?;
        Ok(Self {
            user,
            passwords: targets.iter().cloned().zip(passwords).collect(),
            database: settings.database.clone(),
            application_name: introduction::application_name(attributes),
            comment: introduction::comment(attributes),
            settings: settings.postgres.clone(),
            tls: Tls::new(&settings.tls, &settings.targets, binds_logins, listener)?,
            keep_alive: KeepAlive::new(idle_limit),
        })
    }

    /// The password for this server; `None`: there is none.
    pub(super) fn password(&self, target: &Target) -> Option<&[u8]> {
        let mut passwords = self.passwords.iter();
        let (_, password) = passwords.find(|(server, _)| server == target)?;
        password.as_ref().map(|password| password.as_bytes())
    }
}
