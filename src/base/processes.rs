//! The processes that get the command's signals: its whole group, or, with a controlling terminal, only the command itself.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::getpid;

/// `PIDFD_SIGNAL_PROCESS_GROUP` of `pidfd_send_signal(2)`, which the libc crate does not have.
const PROCESS_GROUP: libc::c_uint = 1 << 2;

/// The command's processes, for signals from the supervisor and the keeper. After the reap the pid may belong to another program. So the
/// supervisor signals them only before it reaps the command, and takes them off the keeper's board before that, too.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    /// The command's own process.
    pub pid: i32,
    /// Whether it leads a process group of its own; then signals go to the whole group.
    pub own_group: bool,
}

impl Processes {
    /// Sends a signal. `false` if this user may not signal any of them.
    pub fn signal(self, signal: i32) -> bool {
        kill(self.target(), signal) != Err(Errno::EPERM)
    }

    /// Kills them; `opened` is a descriptor of the command's own process. That means no other process, also after the reap, where Linux
    /// signals a whole group by it: 6.9 and newer.
    pub fn kill_opened(self, opened: BorrowedFd) {
        let flags = if self.own_group { PROCESS_GROUP } else { 0 };
        let nothing_more = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: this call reads no memory if it is told nothing more.
        let sent = Errno::result(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                opened.as_raw_fd(),
                libc::SIGKILL,
                nothing_more,
                flags,
            )
        });
        if !matches!(sent, Ok(_) | Err(Errno::ESRCH)) {
            self.signal(libc::SIGKILL);
        }
    }

    /// Whether any of them still runs. A zombie does not, as its parent may never reap it. But if `/proc` does not show all processes,
    /// zombies count, as nothing distinguishes them there.
    pub fn alive(self) -> bool {
        self.is_seen() || !sees_everybody() && exists(self.target())
    }

    /// Whether the group still exists after its command was reaped. If another process has the pid by now, the group is gone: nobody gets
    /// the number while the group exists.
    pub fn group_lives_on(self) -> bool {
        self.own_group && exists(self.target()) && !exists(self.pid)
    }

    /// The target of kill(2).
    fn target(self) -> i32 {
        if self.own_group { -self.pid } else { self.pid }
    }

    /// Whether `/proc` shows that any of them runs.
    pub fn is_seen(self) -> bool {
        if !self.own_group {
            return Stat::of(self.pid).is_some_and(|state| state.runs());
        }
        all().any(|(_, state)| state.group == Some(self.pid) && state.runs())
    }

    /// Whether the command's own process is stopped, as by Ctrl-Z. One that has started a program by vfork(2), as shells do, cannot be
    /// stopped before that program begins: until then it counts as stopped if the child is.
    pub fn is_stopped(self) -> bool {
        let letter = |pid| Stat::of(pid).and_then(|state| state.letter);
        match letter(self.pid) {
            Some('T') => true,
            Some('D') => {
                let mut children = children_of(self.pid).into_iter();
                children.any(|child| letter(child) == Some('T'))
            }
            _ => false,
        }
    }
}

fn kill(target: i32, signal: i32) -> nix::Result<()> {
    // SAFETY: kill(2) touches no memory.
    Errno::result(unsafe { libc::kill(target, signal) }).map(drop)
}

/// Whether kill(2) finds a process, even a zombie, or one that it may not signal.
fn exists(target: i32) -> bool {
    kill(target, 0) != Err(Errno::ESRCH)
}

/// Whether `/proc` belongs to this process's namespace, and shows the processes of all users. With `hidepid` it does not.
pub fn sees_everybody() -> bool {
    let own = fs::read_link("/proc/self");
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    own.is_ok_and(|own| own == Path::new(&getpid().to_string()))
        && shows_everybody(&String::from_utf8_lossy(&mounts))
}

/// Reads the mounts, as in proc(5): the places, and after a dash the types and options. The last mount at a place hides those before.
fn shows_everybody(mounts: &str) -> bool {
    let mounts = mounts.lines().filter_map(|line| line.split_once(" - "));
    let mut proc = mounts.filter(|(place, _)| place.split(' ').nth(4) == Some("/proc"));
    let last = proc.next_back();
    last.is_some_and(|(_, kind)| kind.starts_with("proc ") && !kind.contains("hidepid="))
}

/// The children of a process with one thread, zombies included. Empty without `/proc`.
pub fn children_of(parent: i32) -> Vec<i32> {
    // Some kernels are built without this list. Searching all processes takes long if there are many.
    if let Ok(list) = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        let pids = list.split_whitespace();
        return pids.filter_map(|pid| pid.parse().ok()).collect();
    }
    let children = all().filter(|(_, state)| state.parent == Some(parent));
    children.map(|(pid, _)| pid).collect()
}

/// All visible processes.
fn all() -> impl Iterator<Item = (i32, Stat)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Stat::of(pid)?)))
}

/// A process's `stat` file, as in proc(5).
struct Stat {
    /// The state of its first thread, which may have ended before the others.
    letter: Option<char>,
    parent: Option<i32>,
    group: Option<i32>,
    /// How many threads it has. The first one counts until all have ended.
    threads: u32,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        // Read as bytes: the program's name in it is cut after 15 bytes, maybe in the middle of a character.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&stat)))
    }

    /// The fields after the program's name, which stands in parentheses and may contain anything.
    fn parse(stat: &str) -> Self {
        let mut fields = stat
            .rsplit_once(')')
            .map_or("", |(_, fields)| fields)
            .split_whitespace();
        Self {
            letter: fields.next().and_then(|letter| letter.chars().next()),
            parent: fields.next().and_then(|parent| parent.parse().ok()),
            group: fields.next().and_then(|group| group.parse().ok()),
            threads: fields
                .nth(14)
                .and_then(|threads| threads.parse().ok())
                .unwrap_or(1),
        }
    }

    fn runs(&self) -> bool {
        match self.letter {
            None | Some('X') => false,
            Some('Z') => self.threads > 1,
            Some(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{Processes, Stat, children_of, kill, shows_everybody};

    #[test]
    fn a_program_whose_name_is_cut_in_the_middle_of_a_character_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("abcdefghijklmn\u{e9}");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut sleep = Command::new(&program).arg("60").spawn().unwrap();
        let pid = sleep.id().cast_signed();
        let [alone, group] = [false, true].map(|own_group| Processes { pid, own_group });
        assert!(alone.alive() && !group.alive(), "it leads no group");
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(!alone.alive());
    }

    #[test]
    fn who_waits_for_a_stopped_child_by_vfork_is_stopped_too() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The child opens the fifo before it becomes a program.
        let script = "import os, sys; from_fifo = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)\n\
                      os.posix_spawn('/bin/true', ['true'], {}, file_actions=[from_fifo])";
        let mut python = Command::new("python3");
        let python = python.args(["-c", script]).arg(&fifo);
        let mut python = python.process_group(0).spawn().unwrap();
        let pid = python.id().cast_signed();
        let letter = |pid| Stat::of(pid).and_then(|state| state.letter);
        let until = |condition: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !condition() {
                assert!(begun.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        until(&|| letter(pid) == Some('D') && !children_of(pid).is_empty());
        let processes = Processes {
            pid,
            own_group: true,
        };
        assert!(!processes.is_stopped());
        kill(-pid, libc::SIGSTOP).unwrap();
        until(&|| processes.is_stopped());
        assert_eq!(letter(pid), Some('D'));
        kill(-pid, libc::SIGKILL).unwrap();
        python.wait().unwrap();
    }

    #[test]
    fn a_proc_that_hides_processes_is_known() {
        let proc =
            |options| format!("25 30 0:23 / /proc rw,nosuid shared:13 - proc proc {options}\n");
        let sys = "24 30 0:22 / /sys rw - sysfs sysfs rw,hidepid=9\n";
        let tmpfs = "99 25 0:60 / /proc rw - tmpfs none rw\n";
        assert!(shows_everybody(&(sys.to_owned() + &proc("rw"))));
        for mounts in [
            proc("rw,gid=4,hidepid=invisible"),
            proc("rw,hidepid=1"),
            proc("rw") + &proc("rw,hidepid=ptraceable"),
            proc("rw") + tmpfs,
            sys.to_owned(),
            String::new(),
        ] {
            assert!(!shows_everybody(&mounts), "{mounts}");
        }
    }

    #[test]
    fn a_program_with_a_parenthesis_in_its_name_does_not_confuse() {
        let state = Stat::parse("12 (a) Z 1 9) S 1 77 77 0 -1");
        let Stat {
            letter,
            parent,
            group,
            ..
        } = state;
        assert_eq!((letter, parent, group), (Some('S'), Some(1), Some(77)));
        assert!(state.runs() && !Stat::parse("12 (a) Z 1 77 0").runs() && !Stat::parse("").runs());
    }

    #[test]
    fn a_process_runs_until_the_last_of_its_threads_has_ended() {
        let of = |threads: u32| {
            let rest = "0 -1 4194560 1 0 0 0 7 8 0 0 20 0";
            Stat::parse(&format!("12 (a) Z 1 77 77 {rest} {threads} 0 99 4096 5"))
        };
        assert!(of(2).runs() && !of(1).runs());
    }
}
