//! One clock for keeper and supervisor. It continues while the machine sleeps, because a server takes a sleeping host for gone.

use std::io;
use std::ops::{Add, Sub};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment of `CLOCK_BOOTTIME`, which all processes of a machine share: the time since the boot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(Duration);

impl Moment {
    /// The boot.
    pub const START: Self = Self(Duration::ZERO);

    /// The current moment.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock");
        Self(now.into())
    }

    /// The time since this moment; zero if it is in the future.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time from an `earlier` moment to this one; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Whether a deadline has passed; `None` never does.
pub fn is_over(deadline: Option<Moment>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Moment::now())
}

/// A span in microseconds, as servers count moments. One that is too long becomes the longest.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A span that was doubled so many times. One that is too long becomes the longest.
pub fn doubled(span: Duration, times: u32) -> Duration {
    span.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX))
}

/// A random number from 0 to below `limit`.
pub fn chance_below(limit: u16) -> u16 {
    let chance = getrandom::u32().unwrap_or_default();
    u16::try_from(chance % u32::from(limit.max(1))).unwrap_or_default()
}

/// A random span, at least half of this one: so clients that wait for the same thing do not all return at once.
pub fn by_chance(span: Duration) -> Duration {
    let chance = getrandom::u32().unwrap_or(u32::MAX);
    span.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Later by this span; saturates at the latest moment.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    /// Earlier by this span.
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

/// A descriptor that becomes readable at a moment, even if the machine slept through it.
pub struct Alarm(TimerFd);

/// The latest moment that a timer accepts.
const LATEST: Duration = Duration::from_secs(1 << 40);

impl Alarm {
    /// A new alarm that is not set.
    ///
    /// # Errors
    /// As `timerfd_create(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(
            nix::sys::timerfd::ClockId::CLOCK_BOOTTIME,
            flags,
        )?))
    }

    /// Sets the alarm to a new moment; `None`: never.
    ///
    /// # Errors
    /// As `timerfd_settime(2)`.
    pub fn set(&self, at: Option<Moment>) -> io::Result<()> {
        match at {
            // Zero would unset the timer.
            Some(Moment(at)) => {
                let at = at.clamp(Duration::from_nanos(1), LATEST);
                let at = Expiration::OneShot(TimeSpec::from_duration(at));
                Ok(self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
            }
            None => Ok(self.0.unset()?),
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
