//! What a scheduler does where its coordinator cannot: it kills the commands of one that is stopped before others may have their ticks, and
//! those of one that has died at once.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::prctl;
use nix::unistd::{Pid, getppid};

use super::Scheduler;
use super::holding::State;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::cron::AttemptEnd;
use crate::history::{Outcome, RunEnd};
use crate::isolated::process::die_with;

/// The pauses between two looks at commands that are being killed: the first, and the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long the server may take to hear of the ends of all of them. After that the others find out by themselves.
const LONGEST_END: Duration = Duration::from_secs(30);

impl Scheduler<'_> {
    /// From here on commands may run. If the coordinator dies, this process must hold their locks until they are gone.
    pub(super) fn outlive(&mut self) {
        if !std::mem::replace(&mut self.is_outliving, true) {
            let _ = prctl::set_pdeathsig(None);
        }
    }

    /// No command runs: the kernel ends this process with the coordinator.
    pub(super) fn die_with_coordinator(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_outliving) {
            die_with(Pid::from_raw(self.coordinator.pid))?;
        }
        Ok(())
    }

    fn is_orphan(&self) -> bool {
        getppid().as_raw() != self.coordinator.pid
    }

    /// Kills the commands that must be gone by now, if the coordinator is stopped. One that runs ends them itself, and may reap them at any
    /// moment. When a command is gone that somebody has ended, so is its tick.
    pub(super) fn end_commands_of_the_stopped(&mut self) {
        let now = Moment::now();
        let over = self.mine.values().filter(|mine| {
            let until = mine.command_until();
            until.is_some_and(|until| until <= now)
        });
        let over: Vec<u64> = over.map(|mine| mine.attempt.lease_number()).collect();
        let is_over = |lease| over.contains(&lease);
        if over.is_empty() || !self.board.has(is_over) || !self.coordinator.is_stopped() {
            return;
        }
        self.board.kill(is_over);
        let killed = self.mine.values().filter_map(|mine| match &mine.state {
            State::Killed(who, until) if *until <= now => {
                let lease = mine.attempt.lease_number();
                let is_gone = !self.board.is_alive(|other| other == lease);
                let line = format!(
                    "{} was lost, and the command was ended for it: ended by {who}",
                    mine.job.name
                );
                is_gone.then(|| mine.ended(AttemptEnd::Over, "", Some(ended(Outcome::Lost, line))))
            }
            _ => None,
        });
        let killed: Vec<_> = killed.collect();
        for ended in killed {
            if !self.ended.iter().any(|known| known.run == ended.run) {
                self.take_in(ended);
            }
        }
    }

    /// The coordinator has died: kills its commands, holds their locks until they are gone, and then gives all of its ticks to the other
    /// daemons. A command of another user may not be killed, and nobody gets its tick while it runs.
    pub(super) fn outlive_coordinator(&mut self) {
        let mut pause = SHORTEST_PAUSE;
        // A dying process closes its descriptors first.
        while !self.is_orphan() || self.board.kill_all() {
            sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
            if self.renew_at <= Moment::now() && (self.connect().is_err() || self.renew().is_err())
            {
                return;
            }
        }
        for run in self.mine.keys().cloned().collect::<Vec<_>>() {
            if !self.ended.iter().any(|known| known.run == run) {
                self.end_of_the_dead(&run);
            }
        }
        let begun = Moment::now();
        while begun.elapsed() < LONGEST_END {
            let connected = self.connect();
            if connected.is_err() || self.record_ends().is_err() {
                return;
            }
            if self.ended.is_empty() {
                let _ = self.take_leave();
                return;
            }
            sleep(self.connector.pause());
        }
    }

    /// Notes how the attempt of a run has ended whose coordinator has died.
    fn end_of_the_dead(&mut self, run: &str) {
        let Some(mine) = self.mine.get(run) else {
            return;
        };
        let ended = match &mine.state {
            State::Killed(who, _) => {
                let line = format!("dblock was killed, and its command with it; ended by {who}");
                mine.ended(AttemptEnd::Over, "", Some(ended(Outcome::Lost, line)))
            }
            State::Sought(_) | State::Released => {
                mine.ended(AttemptEnd::Returned, "its dblock was killed", None)
            }
            State::Held(_) | State::Lost(_) if self.is_stopped => {
                let line =
                    "dblock was asked to end, and killed with its command before that had ended";
                let run_end = ended(Outcome::Interrupted, line.to_owned());
                mine.ended(AttemptEnd::Returned, "", Some(run_end))
            }
            State::Held(_) | State::Lost(_) => {
                let line = "dblock was killed, and its command with it".to_owned();
                mine.ended(AttemptEnd::Lost, "", Some(ended(Outcome::Failed, line)))
            }
        };
        self.take_in(ended);
    }
}

/// The end of a run whose command this process has killed.
fn ended(outcome: Outcome, message: String) -> RunEnd {
    RunEnd {
        outcome,
        exit_code: None,
        signal: None,
        ran: None,
        ended_ago: Duration::ZERO,
        message: Some(message),
        succeeded: false,
    }
}
