//! What crosses the socket pair between keeper and supervisor, one packet a message.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::report::Level;

/// From the keeper to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromKeeper {
    /// What is being done or has just failed; the last one says what was under way when a deadline passes.
    Note(Level, String),
    /// Somebody has the lock; the waiting begins. The text says who.
    Waiting(String),
    /// The lock was had.
    Held {
        /// The server's number of the session.
        connection_id: u64,
    },
    /// The lock was not had in time. The text says who has it.
    Taken(String),
    /// The session is gone, and with it the lock. The text is the cause.
    Lost(String),
    /// The lock has been given back.
    Released,
    /// The keeper ends without the lock.
    Failed(Failure),
}

/// To the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// Sent by the command's own process just before it becomes the command, so that no command runs unknown.
    Started {
        /// Its process.
        pid: i32,
        /// Whether it leads a process group of its own.
        own_group: bool,
    },
    /// The command has ended: give the lock back.
    Release,
}

/// Characters of a text at most: a server's error message may be of any length.
const LONGEST_TEXT: usize = 1024;

/// Bytes of a packet at most: six for the escape of a control character, and what is around the text.
const LONGEST_PACKET: usize = 8 * LONGEST_TEXT;

/// One end of the pair.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Both ends; no other program inherits them.
    ///
    /// # Errors
    /// As `socketpair(2)`.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// Sends one message.
    ///
    /// # Errors
    /// `EPIPE` when the other end is gone.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let packet = serde_json::to_vec(message)?;
        send(self.0.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message; `None` when the other end is gone.
    ///
    /// # Errors
    /// `InvalidData` for a packet that is no message.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<M>> {
        let mut packet = vec![0; LONGEST_PACKET];
        match recv(self.0.as_raw_fd(), &mut packet, MsgFlags::empty()) {
            Ok(0) | Err(nix::Error::ECONNRESET) => Ok(None),
            Ok(length) => Ok(Some(serde_json::from_slice(&packet[..length])?)),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A text cut to what a packet holds.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text_of_the_worst_characters_fits_into_a_packet() {
        let (one, other) = Link::pair().unwrap();
        one.send(&FromKeeper::Lost(cut(&"\u{1}".repeat(100_000))))
            .unwrap();
        assert!(
            matches!(other.receive().unwrap(), Some(FromKeeper::Lost(text)) if text.len() == 1024)
        );
    }

    #[test]
    fn the_end_of_the_other_side_is_told() {
        let (one, other) = Link::pair().unwrap();
        drop(other);
        assert!(one.receive::<FromKeeper>().unwrap().is_none());
        assert!(one.send(&ToKeeper::Release).is_err());
    }
}
