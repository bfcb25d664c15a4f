//! When a job of the fleet's crontab is due. Pure: the current time is an argument, and every host whose tz database says the same
//! gets the same ticks. `expression` reads the five fields, `zone` finds time zones, `schedule` joins the two, and `crontab` reads whole
//! files.
//!
//! The rules are those of cronie 1.7 (`src/entry.c`, and the clocks of `src/cron.c`), with these differences:
//!
//! - `CRON_TZ` names the zone whose changes count. cronie follows the changes of the host's own zone alone; a job of another zone
//!   it runs twice in the overlap and not at all in the gap.
//! - Every change of the offset counts. cronie misses one that is not daylight saving until it is started again, takes one of five
//!   minutes or less for having woken up late, and a gap of exactly three hours for the clock being set.
//! - Several times of one line that fall into a gap are one run after it. cronie runs the line for each of them.
//! - `~` means the same on every host and after every start. An open range of days ends on the 28th, which every month has.
//! - What cronie accepts and never runs is refused: ranges that run backwards, and days that no month has. So is `@reboot`.
//! - `fri-sun/2` has the Sunday that `fri-sun` has.

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
pub use rules::{
    AttemptEnd, Decision, FRESH, Fate, HEAD_START, LONGEST_SPREAD, Now, Settlement, UnderWay, Why,
    decide, is_attempt_too_late, next_after, pause_of_unstarted, reckoned, retry,
};
pub use schedule::{Schedule, Tick, tick_in_micros};
pub use spread::{fraction, hash, preferred};
pub use store::{
    AskFileBefore, AskJobs, AskRun, Claim, DIED, DaemonFacts, Definition, Finish, Forsake, GiveUp,
    JobRow, LastRun, Listed, ListedDaemon, ListedJob, ListedTick, Look, Publish, Register, Retake,
    RunState, Settle, Step, TickRow, UNSEEN, goes_on_after, leave, list, open, pause, prune, reach,
    renew, resume, stop_taking, touch, trigger,
};
pub use zone::Zone;
