//! The terminal while something is watched: its other screen, without a cursor, and keys that come at once. It is as before when this is
//! dropped.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::termios::{
    FlowArg, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcflow, tcgetattr, tcsetattr,
};

use super::frame::Size;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{write_at_once, write_what_fits};
use crate::base::poll::has_hung_up;
use crate::base::terminal::{is_in_background, is_plain, size_of};
use crate::base::text::width;
use crate::supervise::Inherited;

/// Saves the cursor, and shows the other screen.
const ENTER: &str = "\x1b[?1049h";

/// Hides the cursor.
const HIDE: &str = "\x1b[?25l";

/// Undoes both, and any color.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The size of a terminal that knows none.
const USUAL: Size = Size {
    rows: 24,
    columns: 80,
};

/// How often to try to write the end, each time for a tenth of a second: a terminal may be slow.
const TRIES: usize = 10;

/// The terminal.
pub struct Screen {
    /// Its modes, as they were before.
    before: Termios,
    /// Which signals end this process while it waits for the terminal.
    inherited: Inherited,
    is_entered: bool,
    /// The size that it had when it was drawn on; `None`: something else is on it.
    drawn: Option<Size>,
    /// What is still to be written.
    unwritten: Vec<u8>,
}

/// A key that was pressed.
#[derive(Debug, PartialEq, Eq)]
pub enum Key {
    /// A `q`.
    Quit,
    /// Nothing that has a meaning.
    Other,
    /// The terminal is gone.
    Gone,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// [`Reason::Usage`]: it is no terminal, or one without a cursor. [`Reason::OsRefused`].
    pub fn enter(inherited: Inherited) -> Result<Self, Failure> {
        let unusable = |why| Err(Failure::new(Reason::Usage, format!("--watch {why}")));
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return unusable("needs a terminal, as stdin and as stdout");
        }
        if is_plain() {
            return unusable("needs a terminal that moves its cursor, and not TERM=dumb");
        }
        let mut screen = Self {
            before: modes(inherited)?,
            inherited,
            is_entered: false,
            drawn: None,
            unwritten: Vec::new(),
        };
        screen.take(&[ENTER, HIDE])?;
        Ok(screen)
    }

    /// Takes it again, after [`Screen::leave`].
    ///
    /// # Errors
    /// As [`Screen::enter`].
    pub fn enter_again(&mut self) -> Result<(), Failure> {
        // Whoever had it meanwhile may have changed it.
        self.before = modes(self.inherited)?;
        self.take(&[ENTER, HIDE])
    }

    /// Takes it although it was not left: somebody else may have changed it since.
    ///
    /// # Errors
    /// As [`Screen::enter`].
    pub fn retake(&mut self) -> Result<(), Failure> {
        wait_for_foreground(self.inherited).map_err(refused)?;
        // Perhaps it was stopped before it could write the first of these.
        let is_to_be_entered = self.unwritten.starts_with(ENTER.as_bytes());
        let begin = if is_to_be_entered { ENTER } else { "" };
        self.take(&[begin, HIDE])
    }

    fn take(&mut self, sequences: &[&str]) -> Result<(), Failure> {
        let mut modes = self.before.clone();
        modes
            .local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        modes.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        modes.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(io::stdin(), SetArg::TCSANOW, &modes).map_err(refused)?;
        self.is_entered = true;
        self.drawn = None;
        self.unwritten = sequences.concat().into();
        Ok(())
    }

    /// Gives it back. In the background others have it already, and the kernel would stop this process.
    pub fn leave(&mut self) {
        if !std::mem::take(&mut self.is_entered) || is_in_background(io::stdin().as_fd()) {
            return;
        }
        // The end of a frame is not missed, for the first of these ends any other sequence.
        self.unwritten = LEAVE.into();
        for _ in 0..TRIES {
            match write_at_once(io::stdout().as_fd(), &self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(_) => go_on(),
            }
            if self.unwritten.is_empty() {
                break;
            }
        }
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }

    /// Its size now.
    pub fn size() -> Size {
        let (rows, columns) = size_of(io::stdout().as_fd()).unwrap_or_default();
        let known = |size, usual| if size > 0 { size } else { usual };
        Size {
            rows: known(rows, USUAL.rows),
            columns: known(columns, USUAL.columns),
        }
    }

    /// Draws these lines over what is there, unless it has not taken all of the last ones. Returns whether it did.
    pub fn draw(&mut self, lines: &[String], size: Size) -> bool {
        if !self.unwritten.is_empty() && self.drawn.is_some() {
            return false;
        }
        let mut text = String::new();
        if self.drawn.replace(size) != Some(size) {
            text += "\x1b[2J";
        }
        for (row, line) in (1..).zip(lines) {
            // What is behind a full line was overwritten; to clear from there would clear its last column.
            let clears = if width_without_colors(line) < size.columns {
                "\x1b[K"
            } else {
                ""
            };
            let _ = write!(text, "\x1b[{row};1H{line}{clears}");
        }
        if lines.len() < size.rows {
            let _ = write!(text, "\x1b[{};1H\x1b[J", lines.len() + 1);
        }
        self.unwritten.extend(text.into_bytes());
        true
    }

    /// Whether something is to be written as soon as there is room.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn write(&mut self) -> Result<(), Failure> {
        match write_what_fits(io::stdout().as_fd(), &self.unwritten) {
            Ok(written) => drop(self.unwritten.drain(..written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(crate::commands::output::cannot_write(&error)),
        }
        Ok(())
    }

    /// The next key that was pressed. What is typed after the one that ends this is for the shell.
    pub fn key() -> Key {
        let mut key = [0];
        match nix::unistd::read(io::stdin(), &mut key) {
            Ok(0) if has_hung_up(io::stdin().as_fd()) => Key::Gone,
            Ok(1) if b"qQ".contains(&key[0]) => Key::Quit,
            Ok(_) | Err(Errno::EINTR | Errno::EAGAIN) => Key::Other,
            Err(_) => Key::Gone,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The terminal's modes. In the background they are those of a shell that reads a line.
fn modes(inherited: Inherited) -> Result<Termios, Failure> {
    let modes = wait_for_foreground(inherited).and_then(|()| tcgetattr(io::stdin()));
    modes.map_err(refused)
}

/// Waits in the background as whoever changes a terminal's modes: the kernel stops this process until it is in the foreground. It stops it
/// again after each SIGCONT, so that no signal would be read.
fn wait_for_foreground(inherited: Inherited) -> nix::Result<()> {
    let change_nothing = || tcflow(io::stdin(), FlowArg::TCOON);
    if is_in_background(io::stdin().as_fd()) {
        inherited.may_end_during(change_nothing)
    } else {
        change_nothing()
    }
}

/// Has the terminal show what is written, if Ctrl-S has stopped that. TCOON alone ends only what TCOOFF began.
fn go_on() {
    for flow in [FlowArg::TCOOFF, FlowArg::TCOON] {
        let _ = tcflow(io::stdin(), flow);
    }
}

fn refused(error: Errno) -> Failure {
    Failure::refused("use the terminal", &error.into())
}

/// How many columns a line takes, of which the sequences that color it take none.
fn width_without_colors(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().map_or(0, width);
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| width(text)));
    first + rest.sum::<usize>()
}
