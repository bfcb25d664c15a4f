//! The ends of this process's children: seen, reaped, and put into words.

use std::fmt::{self, Display, Formatter};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::getpid;

use super::clock::Moment;
use super::exit::Ending;
use super::processes::children_of;

/// What is known of the end of a child that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has ended like this, and is reaped.
    Ended(Ending),
    /// It is gone. If dblock inherited SIGCHLD as ignored, the status is lost.
    Unknown,
    /// It has not ended in time. A process in an uninterruptible call dies only after the call, and is reaped as an orphan then.
    Pending,
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Ended(ending) => ending.fmt(f),
            Self::Unknown => f.write_str("is gone"),
            Self::Pending => f.write_str("does not end although it was killed"),
        }
    }
}

/// How a child ended, if it has. It stays a zombie, so its pid is not reused.
pub fn ended(pid: i32) -> Option<Ending> {
    peek(libc::P_PID, pid).ok().flatten().map(|(_, end)| end)
}

/// Waits for the end of a child, which must be near, and reaps it. Returns how it ended.
pub fn reap(pid: i32) -> Option<Ending> {
    let ended = wait(libc::P_PID, pid, libc::WEXITED).ok().flatten();
    ended.map(|(_, ending)| ending)
}

/// As [`reap`], but waits no longer than `limit`. With zero it does not wait.
pub fn reap_within(pid: i32, limit: Duration) -> End {
    let begun = Moment::now();
    loop {
        match peek(libc::P_PID, pid) {
            Ok(None) if begun.elapsed() < limit => sleep(Duration::from_millis(1)),
            Ok(None) => return End::Pending,
            Ok(Some(_)) => return reap(pid).map_or(End::Unknown, End::Ended),
            Err(_) => return End::Unknown,
        }
    }
}

/// Reaps the ended children that are not dblock's `own`. As process 1 of a container dblock inherits every orphan.
pub fn reap_orphans(own: &[Option<i32>]) {
    while let Ok(Some((pid, _))) = peek(libc::P_ALL, 0) {
        if own.contains(&Some(pid)) {
            // waitid(2) returns this one first, and hides those behind it, for as long as dblock does not reap it.
            let mut others = children_of(getpid().as_raw());
            others.retain(|pid| !own.contains(&Some(*pid)) && ended(*pid).is_some());
            for pid in others {
                reap(pid);
            }
            return;
        }
        reap(pid);
    }
}

/// An ended child among those meant, and how it ended. Does not reap it.
fn peek(kind: libc::idtype_t, id: i32) -> nix::Result<Option<(i32, Ending)>> {
    wait(kind, id, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
}

/// waitid(2), with raw signal numbers: a command may die of a real-time signal, which has no name. `None`: none has ended yet.
fn wait(kind: libc::idtype_t, id: i32, options: i32) -> nix::Result<Option<(i32, Ending)>> {
    let id = libc::id_t::try_from(id).map_err(|_| Errno::ECHILD)?;
    // SAFETY: all-zero bytes are a valid siginfo_t, and waitid fills it for a child's end.
    let (pid, code, status) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(kind, id, &raw mut info, options) != 0 {
            if Errno::last() != Errno::EINTR {
                return Err(Errno::last());
            }
        }
        (info.si_pid(), info.si_code, info.si_status())
    };
    if pid == 0 {
        return Ok(None);
    }
    let ending = match code {
        libc::CLD_EXITED => Ending::Code(u8::try_from(status & 0xff).expect("eight bits")),
        _ => Ending::Signal(status),
    };
    Ok(Some((pid, ending)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it is reaped by its number")]
    fn one_that_does_not_end_is_not_waited_for_without_limit() {
        let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = sleep.id().cast_signed();
        assert_eq!(reap_within(pid, Duration::from_millis(20)), End::Pending);
        sleep.kill().unwrap();
        let end = reap_within(pid, Duration::from_secs(20));
        assert_eq!(end, End::Ended(Ending::Signal(libc::SIGKILL)));
        assert_eq!(reap_within(pid, Duration::from_secs(20)), End::Unknown);
    }
}
