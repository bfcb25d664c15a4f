//! The process of a command that asks a server. It has a session, and a link to the process that prints the answers.

use std::ffi::CStr;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;
use serde::Serialize;

use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::db::{ConnectOptions, Connector, Fault};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach, harden};
use crate::isolated::query::Message;
use crate::lock::named::{Inspector, reach};
use crate::lock::{DEFAULT_TTL, Introduction};

/// After this fraction of the connect timeout it reports that every server is read-only, which leaves time to print that.
const PATIENCE: f64 = 0.8;

/// How long to look for a server that takes writes.
fn patience(connect_timeout: Duration) -> Duration {
    connect_timeout.mul_f64(PATIENCE)
}

/// What the process that asks works with: a session, and a link to the process that prints.
pub struct Asker {
    /// The session.
    pub inspector: Inspector,
    link: Rc<Link>,
}

impl Asker {
    /// Sends one of the answers.
    pub fn report<T: Serialize>(&self, item: T) {
        let _ = self.link.send(&Message::Item(item));
    }

    /// The link, for answers that are sent while the session is in use.
    pub fn link(&self) -> Rc<Link> {
        Rc::clone(&self.link)
    }
}

/// The main function of a process that asks. It protects its secrets, reaches the server that takes writes, if there is one, asks, and ends
/// its session before its last message. The process has this `name`, of at most 15 bytes.
///
/// # Errors
/// Why it failed.
pub fn ask_server<T: Serialize>(
    (command, name): (&str, &CStr),
    options: &ConnectOptions,
    shown: Level,
    (link, parent): (Rc<Link>, Pid),
    work: impl FnOnce(&mut Asker) -> Result<(), Fault>,
) -> Result<(), Failure> {
    ask_server_reached_by::<T>((command, name), options, shown, (link, parent), reach, work)
}

/// As [`ask_server`], but `reach` connects to the server, within the given time.
///
/// # Errors
/// As [`ask_server`].
pub fn ask_server_reached_by<T: Serialize>(
    (command, name): (&str, &CStr),
    options: &ConnectOptions,
    shown: Level,
    (link, parent): (Rc<Link>, Pid),
    reach: impl FnOnce(&Connector, Duration) -> Result<Inspector, Failure>,
    work: impl FnOnce(&mut Asker) -> Result<(), Fault>,
) -> Result<(), Failure> {
    harden(parent)?;
    // Read the options before the descriptors are closed: a password file may be named by an inherited descriptor.
    let attributes = Introduction::of_command(command, parent, DEFAULT_TTL).attributes();
    let listener = listener_of::<T>(&link, shown);
    let connector = Connector::new(options, attributes, DEFAULT_TTL, listener)?;
    detach(&link, name)?;
    let inspector = reach(&connector, patience(options.connect_timeout))?;
    let server = inspector.session.to_string();
    let _ = link.send(&Message::<T>::Reached(cut(&server)));
    let mut asker = Asker {
        inspector,
        link: Rc::clone(&link),
    };
    work(&mut asker).map_err(|fault| fault.into_failure(&server))?;
    drop(asker);
    let _ = link.send(&Message::<T>::Done);
    Ok(())
}

/// Sends each step to the process that prints, and statements too if they are shown.
pub fn listener_of<T: Serialize>(link: &Rc<Link>, shown: Level) -> Listener {
    let link = Rc::clone(link);
    Rc::new(move |level, text| {
        if level < Level::Statement || shown == Level::Statement {
            let _ = link.send(&Message::<T>::Note(level, cut(text)));
        }
    })
}
