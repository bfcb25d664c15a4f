//! The processes that a signal for the command goes to: its whole group, or with a controlling terminal itself alone.

use std::fs;

/// The command's processes, as both the supervisor and the keeper address them. Whoever signals them must know that the
/// command's own process has not been reaped: a reaped number may be another program's.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    /// The command's own process.
    pub pid: i32,
    /// Whether it leads a process group of its own; then the whole group is meant.
    pub own_group: bool,
}

impl Processes {
    /// Sends a signal. Nobody to send it to, or nobody who may be sent it, is no error: who ends somebody asks
    /// [`Self::alive`] afterwards.
    pub fn signal(self, signal: i32) {
        let target = if self.own_group { -self.pid } else { self.pid };
        // SAFETY: kill(2) touches no memory.
        unsafe { libc::kill(target, signal) };
    }

    /// Whether one of them still runs. One that is dead but not yet reaped does not: its parent may never do so.
    /// Without `/proc` nobody is seen.
    pub fn alive(self) -> bool {
        if !self.own_group {
            return fs::read_to_string(format!("/proc/{}/stat", self.pid))
                .is_ok_and(|stat| State::of(&stat).runs());
        }
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        processes.flatten().any(|process| {
            let is_process = process.file_name().as_encoded_bytes()[0].is_ascii_digit();
            is_process
                && fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| {
                    let state = State::of(&stat);
                    state.group == Some(self.pid) && state.runs()
                })
        })
    }

    /// Whether the command's own process is stopped, as by Ctrl-Z.
    pub fn is_stopped(self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .is_ok_and(|stat| State::of(&stat).letter == Some('T'))
    }
}

/// What proc(5) says of a process in its `stat` file.
struct State {
    letter: Option<char>,
    group: Option<i32>,
}

impl State {
    /// The fields behind the program's name, which stands in parentheses and may hold anything.
    fn of(stat: &str) -> Self {
        let mut fields = stat
            .rsplit_once(')')
            .map_or("", |(_, fields)| fields)
            .split_whitespace();
        Self {
            letter: fields.next().and_then(|letter| letter.chars().next()),
            group: fields.nth(1).and_then(|group| group.parse().ok()),
        }
    }

    fn runs(&self) -> bool {
        !matches!(self.letter, None | Some('Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn a_program_with_a_parenthesis_in_its_name_does_not_confuse() {
        let state = State::of("12 (a) Z 1 9) S 1 77 77 0 -1");
        assert_eq!((state.letter, state.group), (Some('S'), Some(77)));
        assert!(state.runs() && !State::of("12 (a) Z 1 77 0").runs() && !State::of("").runs());
    }
}
