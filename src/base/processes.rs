//! The processes that a signal for the command goes to: its whole group, or, with a controlling terminal, only the
//! command itself.

use std::fs;

use nix::errno::Errno;

/// The command's processes, as both the supervisor and the keeper address them. A reaped number may be another program's:
/// the supervisor signals them only before it reaps the command, and tells the keeper of the end before that, too.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    /// The command's own process.
    pub pid: i32,
    /// Whether it leads a process group of its own; then the whole group is meant.
    pub own_group: bool,
}

impl Processes {
    /// Sends a signal. `false` if this user may not signal any of them.
    pub fn signal(self, signal: i32) -> bool {
        let target = if self.own_group { -self.pid } else { self.pid };
        // SAFETY: kill(2) touches no memory.
        unsafe { libc::kill(target, signal) == 0 || Errno::last() != Errno::EPERM }
    }

    /// Whether one of them still runs. One that is dead but not yet reaped does not: its parent may never do so.
    /// Without `/proc` nobody is seen.
    pub fn alive(self) -> bool {
        if !self.own_group {
            return State::of(self.pid).is_some_and(|state| state.runs());
        }
        all().any(|(_, state)| state.group == Some(self.pid) && state.runs())
    }

    /// Whether the command's own process is stopped, as by Ctrl-Z.
    pub fn is_stopped(self) -> bool {
        State::of(self.pid).is_some_and(|state| state.letter == Some('T'))
    }
}

/// The children of a process of one thread, those that have ended included. Without `/proc` there is none.
pub fn children_of(parent: i32) -> Vec<i32> {
    // A kernel may be built without this list. To look through all processes takes long where they are many.
    if let Ok(list) = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        let pids = list.split_whitespace();
        return pids.filter_map(|pid| pid.parse().ok()).collect();
    }
    let children = all().filter(|(_, state)| state.parent == Some(parent));
    children.map(|(pid, _)| pid).collect()
}

/// All processes that are seen.
fn all() -> impl Iterator<Item = (i32, State)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, State::of(pid)?)))
}

/// What proc(5) says of a process in its `stat` file.
struct State {
    letter: Option<char>,
    parent: Option<i32>,
    group: Option<i32>,
}

impl State {
    fn of(pid: i32) -> Option<Self> {
        // Bytes, for the program's name in it is cut after the fifteenth, in the middle of a character if need be.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&stat)))
    }

    /// The fields behind the program's name, which stands in parentheses and may hold anything.
    fn parse(stat: &str) -> Self {
        let mut fields = stat
            .rsplit_once(')')
            .map_or("", |(_, fields)| fields)
            .split_whitespace();
        Self {
            letter: fields.next().and_then(|letter| letter.chars().next()),
            parent: fields.next().and_then(|parent| parent.parse().ok()),
            group: fields.next().and_then(|group| group.parse().ok()),
        }
    }

    fn runs(&self) -> bool {
        !matches!(self.letter, None | Some('Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::{Processes, State};

    #[test]
    fn a_program_whose_name_is_cut_in_the_middle_of_a_character_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("abcdefghijklmn\u{e9}");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut sleep = std::process::Command::new(&program)
            .arg("60")
            .spawn()
            .unwrap();
        let pid = sleep.id().cast_signed();
        let [alone, group] = [false, true].map(|own_group| Processes { pid, own_group });
        assert!(alone.alive() && !group.alive(), "it leads no group");
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(!alone.alive());
    }

    #[test]
    fn a_program_with_a_parenthesis_in_its_name_does_not_confuse() {
        let state = State::parse("12 (a) Z 1 9) S 1 77 77 0 -1");
        let State {
            letter,
            parent,
            group,
        } = state;
        assert_eq!((letter, parent, group), (Some('S'), Some(1), Some(77)));
        assert!(
            state.runs() && !State::parse("12 (a) Z 1 77 0").runs() && !State::parse("").runs()
        );
    }
}
