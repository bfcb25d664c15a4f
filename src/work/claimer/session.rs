//! The session, and statements on it.

use std::thread::sleep;
use std::time::Duration;

use super::super::message::{FromClaimer, Trouble};
use super::{Claimer, LONGEST_WAIT, Stop};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::{Fault, REFUSED_PAUSE, Session, may_pass};
use crate::isolated::link::cut;
use crate::keeper::{Duty, LONGEST_PAUSE, NoAnswer, SHORTEST_PAUSE, capped, sleep_longer};
use crate::queue;

/// Refusals further apart than this do not count as one.
const REFUSALS_APART: Duration = Duration::from_secs(5);

/// What is known of refusals that may pass, and the pause where the server has no room.
pub(super) struct Refusals {
    latest: Option<Refused>,
    /// The next pause when the server has no room.
    room_pause: Duration,
    /// Whether any turn of this worker was carried out. Before that a refusal is not one that passes: a privilege is missing, say.
    has_worked: bool,
}

/// Refusals that may pass, one soon after the other.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// When they began, or the last turn that was carried out since.
    since: Moment,
    /// When the pause after the last one was over.
    last: Moment,
}

impl Refusals {
    pub fn new(has_worked: bool) -> Self {
        Self {
            latest: None,
            room_pause: LONGEST_PAUSE,
            has_worked,
        }
    }

    /// Notes that a turn was carried out: refusals of other statements have not ended the work.
    pub fn note_none(&mut self) {
        self.has_worked = true;
        if let Some(refused) = &mut self.latest {
            refused.since = Moment::now();
        }
    }

    /// Notes that the server has room.
    pub fn note_room(&mut self) {
        self.room_pause = LONGEST_PAUSE;
    }

    /// How long to wait for room. The pause after it is longer.
    fn next_room_pause(&mut self) -> Duration {
        let longer = (2 * self.room_pause).min(LONGEST_WAIT);
        std::mem::replace(&mut self.room_pause, longer)
    }
}

impl Claimer<'_> {
    /// Opens a session if there is none. It retries without limit: the coordinator sets the limits.
    pub(super) fn ensure_session(&mut self) -> Result<(), Stop> {
        if self.connection.session().is_some() {
            return Ok(());
        }
        self.head.forget();
        self.claiming.marks.forget();
        let begun = Moment::now();
        loop {
            self.end_late_commands();
            self.check_coordinator()?;
            let (tables, name) = (self.tables, &self.spec.queue);
            let opened = self.connection.open(self.answer_limit(), |session| {
                queue::open_for_work(tables, name, session)
            });
            match opened {
                Ok(opened) => {
                    self.say_session();
                    self.opened = Some(opened);
                    return Ok(());
                }
                // A server that is still starting may not know the account yet. That must not end commands before the lease does.
                Err(Fault::Final(failure))
                    if may_pass(&failure)
                        && self.workers.ttl().is_some_and(|ttl| begun.elapsed() < ttl) =>
                {
                    self.say_fault(&failure.line);
                    sleep(self.capped(REFUSED_PAUSE));
                }
                Err(Fault::Final(failure)) => return Err(Stop::Failed(failure)),
                Err(fault) => {
                    self.report_read_only(&fault);
                    if let Some(last) = self.connection.connector.passed_over().pop() {
                        self.say_fault(&last.line);
                    }
                    sleep(self.capped(self.connection.connector.pause()));
                }
            }
        }
    }

    /// How long to wait for an answer, with time for an idle worker's wait.
    fn answer_limit(&self) -> Duration {
        self.capped(self.connection.connector.attempt_limit() + LONGEST_WAIT)
    }

    /// Shortens a limit to the moment when the running commands must have ended, since the coordinator may be stopped by then, or hang.
    pub(super) fn capped(&self, limit: Duration) -> Duration {
        let runs = self.coordinator.board.has(|_| true);
        let looks = runs.then(|| self.workers.looks());
        capped(limit, looks.into_iter().flatten())
    }

    /// Tells the coordinator whether a round of all servers came to nothing because they are read-only.
    fn report_read_only(&self, fault: &Fault) {
        let read_only = fault.read_only().map(cut);
        self.coordinator
            .say_if_heard(&FromClaimer::OnlyReadOnly(read_only));
    }

    /// Runs a statement on the session. `None`: its effect is unknown, or it was rolled back. A lost session is dropped.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Stop> {
        self.end_late_commands();
        self.check_coordinator()?;
        self.ensure_session()?;
        self.connection.limit_answer(self.answer_limit());
        match self.connection.ask(ask) {
            Ok(answer) => return Ok(Some(answer)),
            Err(NoAnswer::Refused(failure)) => self.endure(failure)?,
            Err(NoAnswer::NoSession) => {}
            Err(NoAnswer::Lost(line)) => self.say_fault(&line),
            Err(NoAnswer::RolledBack(fault)) => self.on_rollback(&fault),
        }
        Ok(None)
    }

    fn on_rollback(&mut self, fault: &Fault) {
        let Some(session) = self.connection.session() else {
            return;
        };
        match fault {
            Fault::NoRoom(cause) => {
                let line = format!("{session} has no room: {cause}");
                session.tell(Level::Info, &format!("{line}; trying again"));
                self.set_fault(Some(Trouble {
                    line: cut(&line),
                    answers: true,
                }));
                self.wait_for_room();
            }
            Fault::Conflict(_) => session.tell(Level::Info, &format!("{fault}; trying again")),
            _ => {}
        }
    }

    /// After a refusal that may pass, drops the session, and waits before another try. A proxy may have passed an error of one of its
    /// servers on, which must not end commands before the lease does.
    fn endure(&mut self, failure: Failure) -> Result<(), Stop> {
        let ttl = self.workers.ttl();
        let now = Moment::now();
        let refused = self
            .refusals
            .latest
            .filter(|refused| now.since(refused.last) < REFUSALS_APART);
        let since = refused.map_or(now, |refused| refused.since);
        let passes = may_pass(&failure) && self.refusals.has_worked;
        if !passes || ttl.is_none_or(|ttl| now.since(since) >= ttl) {
            return Err(Stop::Failed(failure));
        }
        if refused.is_none() {
            let line = cut(&format!("{failure}; trying again"));
            self.coordinator
                .say_if_heard(&FromClaimer::Note(Level::Warning, line));
        }
        self.connection.give_up(&failure.line);
        self.say_fault(&failure.line);
        sleep(self.capped(REFUSED_PAUSE));
        let last = Moment::now();
        self.refusals.latest = Some(Refused { since, last });
        Ok(())
    }

    /// Whether claims can use `SKIP LOCKED`, as far as is known.
    pub(super) fn skips_locked(&self) -> bool {
        let opened = self.opened.as_ref();
        opened.is_some_and(|opened| opened.skips_locked)
    }

    /// Waits longer each time, but not beyond the next renewal.
    fn wait_for_room(&mut self) {
        let due = self.workers.renewal_due();
        let left = due.map(|due| due.since(Moment::now()));
        let left = left.map_or(LONGEST_WAIT, |left| left.max(LONGEST_PAUSE));
        sleep(self.refusals.next_room_pause().min(left));
    }

    /// Repeats a statement until it is answered, and renews the lease meanwhile. Only for statements that may run twice.
    pub(super) fn ask_until_answered<T>(
        &mut self,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, Stop> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            self.keep_lease()?;
            if let Some(answer) = self.ask(&mut ask)? {
                return Ok(answer);
            }
            pause = sleep_longer(pause);
        }
    }
}
