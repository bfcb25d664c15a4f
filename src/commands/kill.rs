//! `dblock kill`: end the holder of a lock, and with it its command, so that its slot is free. Who ends a holder takes a marker
//! first: no dblock takes the slot meanwhile, and the holder's own learns by it that it is not to come back.

use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;

use super::inquiry::ask_server;
use super::print;
use crate::base::exit::{CONFLICT, Ending, Failure};
use crate::base::log::Level;
use crate::base::text::printable;
use crate::isolated::link::Link;
use crate::isolated::query::{self, Limits};
use crate::lock::Wait;
use crate::lock::named::{Done, Killing};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Kill};

/// For all that is not waiting for the command's end, the marker of another included.
const BESIDES: Duration = Duration::from_secs(20);

/// Ends a holder, says what was done, and returns how dblock is to end.
///
/// # Errors
/// What kept it from being done.
pub fn kill(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (kill, log) = settings::kill(command_line)?;
    let connect = kill.connection.connect_timeout;
    let whole = match kill.wait {
        Wait::For(wait) => Some(
            connect
                .saturating_mul(2)
                .saturating_add(wait)
                .saturating_add(BESIDES),
        ),
        Wait::Forever => None,
    };
    let mut done = None;
    query::ask(
        "the kill",
        |link, parent| end_holder(&kill, log.shown, link, parent),
        Limits { connect, whole },
        log,
        |told: Done| done = Some(told),
        |_| "what was told last".to_owned(),
    )?;
    let Some(Done { line, unheard }) = done else {
        return Ok(Ending::Code(0));
    };
    if unheard {
        log.error(line);
        return Ok(Ending::Code(CONFLICT));
    }
    if log.shown > Level::Error {
        print(&format!("{}\n", printable(&line)))?;
    }
    Ok(Ending::Code(0))
}

fn end_holder(kill: &Kill, shown: Level, link: Rc<Link>, parent: Pid) -> Result<(), Failure> {
    ask_server::<Done>(
        ("dblock kill", c"dblock-kill"),
        &kill.connection,
        shown,
        (link, parent),
        |asker| {
            let mut killing = Killing {
                inspector: &mut asker.inspector,
                name: &kill.name,
                slot: kill.slot,
                wait: kill.wait,
                dry_run: kill.dry_run,
                connect_timeout: kill.connection.connect_timeout,
            };
            let done = killing.end()?;
            asker.tell(done);
            Ok(())
        },
    )
}
