//! When a job of the fleet's crontab is due. Pure: the current time is an argument. All hosts with the same tz database get the same ticks.
//! `expression` reads the five fields, `zone` finds time zones, `schedule` joins both, and `crontab` reads whole files.
//!
//! The rules are those of cronie 1.7 (`src/entry.c`, and the clocks of `src/cron.c`), with these differences:
//!
//! - The clock changes of the zone in `CRON_TZ` count. cronie only follows the changes of the host's own zone. A job in another zone runs
//!   twice in the overlap, and not at all in the gap.
//! - Every change of the offset counts. cronie misses a change that is not daylight saving until it is restarted. It mistakes a change of
//!   five minutes or less for waking up late, and a gap of exactly three hours for setting the clock.
//! - If several times of one line fall into a gap, there is one run after it. cronie runs the line for each of them.
//! - `~` has the same value on every host and after every start. An open range of days ends on the 28th, which every month has.
//! - Lines that cronie accepts but never runs are refused: reversed ranges, and days that no month has. So is `@reboot`.
//! - `fri-sun/2` includes Sunday, as `fri-sun` does.

mod crontab;
mod expression;
mod once;
mod rules;
mod schedule;
mod spread;
mod store;
mod zone;

#[cfg(test)]
mod cronie;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod simulation;

pub use crontab::{Job, Overlap, load, program};
pub use once::{AlreadyRan, EARLY, Once};
pub use rules::taken::{
    CommandState, Further, OUTAGE, Rescue, SILENCE, end_of_dead, further, is_for, is_gone,
    is_missed, is_renewed, made_up_from, may_rescue, rescue, search_limit, unsettled,
};
pub use rules::{
    AttemptEnd, Decision, FRESH, Fate, LARGEST_LAG, Now, RunState, Settlement, UnderWay, decide,
    next_after, retry,
};
pub use schedule::{Schedule, Tick, tick_in_micros};
pub use spread::hash;
pub use store::{
    DaemonFacts, Definition, Finish, JobRow, LastRun, Listed, ListedDaemon, ListedJob, ListedTick,
    Look, NextAttempt, Publish, Register, Settle, SettleStep, TickRow, ask_file_before, ask_jobs,
    ask_run, confirm, goes_on_after, in_transaction, is_unseen, latest_next, leave, list, open,
    pause, prune, reach, renew, resume, retire, stop_taking, touch, trigger,
};
pub use zone::Zone;
