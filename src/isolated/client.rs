//! The beginning of a forked process that has sessions with servers.

use std::ffi::CStr;
use std::rc::Rc;

use super::link::{Link, cut};
use super::process::{detach, harden};
use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::db::{ConnectOptions, Connector};
use crate::lock::Introduction;

/// Has each step sent over the link, and statements too if they are shown. The other process needs the steps for its own messages even if
/// they are not shown; statements are only for showing.
pub fn notes(
    link: &Rc<Link>,
    shown: Level,
    send: impl Fn(&Link, Level, String) + 'static,
) -> Listener {
    let link = Rc::clone(link);
    Rc::new(move |level, text| {
        if level != Level::Statement || shown == Level::Statement {
            send(&link, level, cut(text));
        }
    })
}

/// Begins the process: it protects its secrets, and gives up what belongs to the process that has forked it, which is that of the
/// introduction. Takes a `name` of at most 15 bytes.
///
/// # Errors
/// [`Reason::OsRefused`](crate::base::exit::Reason::OsRefused); [`Reason::Configuration`](crate::base::exit::Reason::Configuration) when a
/// file cannot be used.
pub fn begin(
    introduction: &Introduction,
    connection: &ConnectOptions,
    listener: Listener,
    name: &CStr,
    link: &Link,
) -> Result<Connector, Failure> {
    harden(introduction.pid)?;
    // Read the options before the descriptors are closed: a password file may be named by an inherited descriptor.
    let attributes = introduction.attributes();
    let connector = Connector::new(connection, attributes, introduction.ttl, listener)?;
    detach(link, name)?;
    Ok(connector)
}
