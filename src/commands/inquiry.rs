//! The process of a command that asks a server questions: a session, and a link to the process that prints the answers.

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

/// How much of the connect timeout goes by before it is said that every server is read-only: then there is time to say it.
const PATIENCE: f64 = 0.8;

/// How long a server that takes writes is sought, by the connect timeout.
fn patience(connect_timeout: Duration) -> Duration {
    connect_timeout.mul_f64(PATIENCE)
}

/// What the process that asks has: a session, and a link to the process that prints.
pub struct Asker {
    /// The session.
    pub inspector: Inspector,
    link: Rc<Link>,
}

impl Asker {
    /// Reports one of the things that were asked for.
    pub fn report<T: Serialize>(&self, item: T) {
        let _ = self.link.send(&Message::Item(item));
    }

    /// The link, for what is reported while the session is asked.
    pub fn link(&self) -> Rc<Link> {
        Rc::clone(&self.link)
    }
}

/// The life of a process that asks: it keeps its secrets to itself, reaches the server that takes writes, if there is one,
/// asks, and says good-bye to the server before its last message. It has this `name`, of at most 15 bytes.
///
/// # Errors
/// What it failed of.
pub fn ask_server<T: Serialize>(
    (command, name): (&str, &CStr),
    options: &ConnectOptions,
    shown: Level,
    (link, parent): (Rc<Link>, Pid),
    work: impl FnOnce(&mut Asker) -> Result<(), Fault>,
) -> Result<(), Failure> {
    ask_server_reached_by::<T>((command, name), options, shown, (link, parent), reach, work)
}

/// As [`ask_server`], on the server that `reach` reaches within the time that it is given.
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
    // Before the descriptors are closed, for a password's file may be named by a descriptor that dblock inherited.
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

/// Reports each step to the process that prints, and of statements where they are shown.
pub fn listener_of<T: Serialize>(link: &Rc<Link>, shown: Level) -> Listener {
    let link = Rc::clone(link);
    Rc::new(move |level, text| {
        if level < Level::Statement || shown == Level::Statement {
            let _ = link.send(&Message::<T>::Note(level, cut(text)));
        }
    })
}
