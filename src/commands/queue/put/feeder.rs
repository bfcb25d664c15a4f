//! The process with the session. It reads the payloads, and puts them, even if the server is lost meanwhile.

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;

use super::Fed;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::{argument_for_shell, shown};
use crate::commands::question::{CONFLICT_PAUSE, listener_of};
use crate::commands::queue::records::{NextPayloads, Records};
use crate::db::{Connector, Fault, Session, none_takes_writes};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach_with_descriptors, harden};
use crate::isolated::query::{Message, send_item};
use crate::lock::{DEFAULT_TTL, Introduction};
use crate::queue::{
    For, Outcome, Putter, ask_packet, find_queue, missing_queue, no_such_queue, open,
};
use crate::schema::Tables;
use crate::settings::Common;
use crate::settings::queue::QueuePut;

/// Pause before another try if the server has no room.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);

/// After so long without a statement, a session is not used again: the server ends it two seconds later.
const IDLE_LIMIT: Duration = Duration::from_secs(8);

/// Every server takes packets of this size in bytes.
const SMALL_PACKET: usize = 16 * 1024;

/// The main function of the process with the session.
pub(super) fn feed(
    put: &QueuePut,
    common: &Common,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    harden(parent)?;
    let command = "dblock queue put";
    let attributes = Introduction::of_command(command, parent, DEFAULT_TTL).attributes();
    let listener = listener_of(link, common.log.shown);
    let connector = Connector::new(&common.connection, attributes, DEFAULT_TTL, listener)?;
    // The payload files may be named by descriptors, such as /dev/fd/63.
    detach_with_descriptors(c"dblock-put")?;
    let tables = Tables::of_connection(&common.connection);
    let mut feeder = Feeder {
        put,
        connector,
        tables: &tables,
        session: None,
        used: Moment::now(),
        link,
        limit: common.connection.connect_timeout,
        packet: None,
    };
    let begun = Moment::now();
    let (queue, server) = loop {
        let session = feeder.session(begun)?;
        let server = session.to_string();
        match session.run(&find_queue(&tables, &put.queue)) {
            Ok(Some(queue)) => break (queue, server),
            Ok(None) => return Err(feeder.missing_queue()),
            Err(fault) => feeder.failed(fault, begun)?,
        }
    };
    let _ = link.send(&Message::Reached(cut(&server)));
    feeder.used = Moment::now();
    let mut putter = Putter::new(&tables, queue, &put.traits)?;
    feeder.feed(&mut putter)?;
    drop(feeder);
    let _ = link.send(&Message::Done);
    Ok(())
}

/// The reading of payloads, and the session that puts them.
struct Feeder<'a> {
    put: &'a QueuePut,
    connector: Connector,
    tables: &'a Tables,
    session: Option<Session>,
    /// When the session was last used.
    used: Moment,
    link: &'a Rc<Link>,
    /// How long to look for a lost server.
    limit: Duration,
    /// The server's largest packet in bytes, once it is known.
    packet: Option<usize>,
}

impl Feeder<'_> {
    fn feed(&mut self, putter: &mut Putter) -> Result<(), Failure> {
        let mut records = Records::of(&self.put.source);
        loop {
            match records.advance(self.link)? {
                NextPayloads::Some => {}
                NextPayloads::End => {
                    self.tell(Fed::All);
                    return Ok(());
                }
                NextPayloads::Stopped => return Ok(()),
            }
            // Payloads may come with long gaps, and then the server is not to blame.
            if self.used.elapsed() > IDLE_LIMIT {
                self.session = None;
            }
            let payloads = records.payloads();
            let mut left = payloads.as_slice();
            while !left.is_empty() {
                let (now, later) = left.split_at(self.fitting(putter, left));
                left = later;
                // If this process dies now, the payloads are in doubt.
                self.tell_doubt(true, now);
                let outcome = match self.put_all(putter, now)? {
                    Some(Outcome::Put(put)) => Fed::Put(put),
                    Some(Outcome::HasKey(job)) => Fed::HasKey(job),
                    Some(Outcome::NoQueue) => {
                        self.tell_doubt(false, now);
                        return Err(self.missing_queue());
                    }
                    Some(Outcome::Forgotten) => {
                        self.tell(Fed::Forgotten);
                        let queue = argument_for_shell(&self.put.queue);
                        let line = format!(
                            "the server has lost what it had committed: jobs that were put may be missing; see dblock queue list {queue}"
                        );
                        return Err(Failure::new(Reason::LockLost, line));
                    }
                    None => return Ok(()),
                };
                self.tell(outcome);
                if !left.is_empty() && self.link.is_readable() {
                    return Ok(());
                }
            }
        }
    }

    /// How many of these payloads to put at once, so that no packet is too long for the server. It asks for the server's limit only if a
    /// packet may be too long.
    fn fitting(&mut self, putter: &mut Putter, payloads: &[&[u8]]) -> usize {
        if putter.fitting(payloads, SMALL_PACKET) == payloads.len()
            && payloads
                .iter()
                .all(|payload| payload.len() < SMALL_PACKET / 4)
        {
            return payloads.len();
        }
        if self.packet.is_none() {
            // If the session fails here, the put reports the fault.
            let session = self.session.as_mut();
            self.packet = session.and_then(|session| session.run(&ask_packet()).ok().flatten());
            if let Some(packet) = self.packet {
                putter.limit_packets(packet);
            }
        }
        putter.fitting(payloads, self.packet.unwrap_or(usize::MAX))
    }

    /// Puts these payloads, with repeated tries within the time limit. `None`: stopped by the process that prints.
    fn put_all(
        &mut self,
        putter: &mut Putter,
        payloads: &[&[u8]],
    ) -> Result<Option<Outcome>, Failure> {
        let mut begun = None;
        let mut in_doubt = false;
        loop {
            let since = begun.unwrap_or_else(Moment::now);
            let tried = match self.session(since) {
                Ok(session) => try_put(putter, session, payloads, &mut in_doubt),
                Err(failure) => {
                    self.tell_doubt(in_doubt, payloads);
                    return Err(failure);
                }
            };
            self.used = Moment::now();
            let fault = match tried {
                Ok(outcome) => {
                    if begun.is_some() {
                        self.tell(Fed::Found);
                    }
                    return Ok(Some(outcome));
                }
                Err(fault) => fault,
            };
            if begun.is_none() {
                begun = Some(Moment::now());
                self.tell(Fed::Seeking);
            }
            if let Err(failure) = self.failed(fault, since) {
                self.tell_doubt(in_doubt, payloads);
                return Err(failure);
            }
            if self.link.is_readable() {
                self.tell_doubt(in_doubt, payloads);
                return Ok(None);
            }
        }
    }

    /// Why the queue is missing, as the server without it says.
    fn missing_queue(&mut self) -> Failure {
        let name = &self.put.queue;
        let asked = self
            .session
            .as_mut()
            .map(|session| missing_queue(name, self.tables, session));
        match asked {
            Some(Ok(failure)) => failure,
            _ => no_such_queue(name),
        }
    }

    fn tell(&self, fed: Fed) {
        let _ = send_item(self.link, fed);
    }

    fn tell_doubt(&self, in_doubt: bool, payloads: &[&[u8]]) {
        let jobs = if in_doubt { payloads.len() } else { 0 };
        self.tell(Fed::InDoubt(jobs as u64));
    }

    /// The session, or a new one.
    fn session(&mut self, since: Moment) -> Result<&mut Session, Failure> {
        if self.session.is_none() {
            self.session = Some(self.connect(since)?);
        }
        Ok(self.session.as_mut().expect("it is there"))
    }

    fn connect(&self, since: Moment) -> Result<Session, Failure> {
        let servers = self.connector.targets().len();
        loop {
            let opened = self.connector.connect(|session| {
                open(session, self.tables, For::Writing, servers)?;
                // No statement waits for a lock for longer than two seconds.
                session.answer_within(self.limit.max(Duration::from_secs(5)))
            });
            match opened {
                Ok((session, ())) => return Ok(session),
                Err(Fault::Final(failure)) => return Err(failure),
                Err(fault) if since.elapsed() >= self.limit.mul_f64(0.9) => {
                    if let Fault::ReadOnly(line) = fault {
                        return Err(Failure::new(Reason::Configuration, line));
                    }
                    let servers = self.connector.passed_over();
                    let cause = servers.last().map(|server| server.line.clone());
                    let cause = cause.unwrap_or(fault.to_string());
                    return Err(Failure::unreachable(self.limit, &cause));
                }
                Err(_) => sleep(self.connector.pause()),
            }
        }
    }

    /// Handles a fault before the next try.
    ///
    /// # Errors
    /// There must be no further try.
    fn failed(&mut self, fault: Fault, since: Moment) -> Result<(), Failure> {
        let server = self.session.as_ref().map(ToString::to_string);
        let server = server.unwrap_or_default();
        let is_late = since.elapsed() >= self.limit.mul_f64(0.9);
        match self.tables.explain(fault) {
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_)) if !is_late => {
                let line = format!("{fault}; trying again");
                (listener_of(self.link, Level::Info))(Level::Info, &line);
                sleep(CONFLICT_PAUSE);
                Ok(())
            }
            Fault::NoRoom(cause) if !is_late => {
                let line = format!("{server} has no room: {cause}; trying again");
                (listener_of(self.link, Level::Info))(Level::Info, &line);
                sleep(NO_ROOM_PAUSE);
                Ok(())
            }
            fault @ (Fault::Gone(_) | Fault::Full(_) | Fault::ReadOnly(_)) if !is_late => {
                let line = format!("lost {server}: {fault}");
                if let Some(session) = self.session.take() {
                    session.tell(Level::Info, &line);
                    self.connector.try_last(&session);
                }
                sleep(self.connector.pause());
                Ok(())
            }
            Fault::ReadOnly(cause) => Err(none_takes_writes(format!("{server} {cause}"))),
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_)) => {
                let line = format!(
                    "{server} did not answer within {}: {fault}",
                    shown(self.limit)
                );
                Err(Failure::new(Reason::Unreachable, line))
            }
            fault => Err(fault.into_failure(&server)),
        }
    }
}

/// Tries to put the payloads. If an earlier try is in doubt, it first looks up whether that has put them. If not, the server may still
/// carry it out: a further try that fails ends no doubt.
fn try_put(
    putter: &mut Putter,
    session: &mut Session,
    payloads: &[&[u8]],
    in_doubt: &mut bool,
) -> Result<Outcome, Fault> {
    // The job with the key may be that of the earlier try, so it is read first.
    let holder = putter.job_with_key(session)?;
    if *in_doubt && let Some(put) = putter.look_up(session, payloads)? {
        return Ok(Outcome::Put(put));
    }
    if let Some(job) = holder {
        return Ok(Outcome::HasKey(job));
    }
    let tried = putter.try_put(session, payloads);
    *in_doubt |= matches!(
        tried,
        Err(Fault::Gone(_) | Fault::Interrupted(_) | Fault::Full(_))
    );
    tried
}
