//! The messages between the keeper and its supervisor. They carry data; whoever prints them words them.

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::AlreadyRan;
use crate::db::Client;
use crate::history::{OutputPart, RunEnd};
use crate::lock::{Grant, Holders, Lease, Refusal};

/// What the server has answered to the request for the lock, while its holders are looked up, or the history is still read or written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// It is granted.
    Granted,
    /// Others hold it: these, as far as that is known by now.
    Taken(Holders),
}

/// From the keeper to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromKeeper {
    /// What is being done or has just failed; the last one says what was under way when a deadline passes.
    Note(Level, String),
    /// Others hold the lock; the wait begins.
    Waiting(Holders),
    /// The server that was asked for the lock.
    Reached(String),
    /// Asks whether the supervisor is alive and not stopped. It answers [`ToKeeper::Here`].
    AreYouThere,
    /// The latest round found only read-only servers; the text names one. `None`: that is over.
    OnlyReadOnly(Option<String>),
    /// Whether another session keeps the lock's row or its table locked. Such a server does not count as unreachable.
    RowLocked(bool),
    /// Whether the server may grant the lock at any moment without the keeper's knowledge. A supervisor that gives up meanwhile has the
    /// keeper release it.
    Claiming(bool),
    /// The server has answered, and only the holders' names or the history are left. From here on the server does not count as unreachable.
    Answered(Answer),
    /// The lock is acquired, or reacquired. The session's descriptor comes with it: while the supervisor has it open, too, the keeper's
    /// death alone does not end the session.
    Held(Grant, Lease),
    /// A renewal that was sent at this moment has succeeded.
    Confirmed(Moment),
    /// The lock was acquired, and released again: the run is not due.
    AlreadyRan(AlreadyRan),
    /// The tick that the run is for, as text.
    Tick(String),
    /// The lock was not acquired in time: these hold it.
    Taken(Holders),
    /// The session is gone, and with it the lock. The text is the cause.
    Lost(String),
    /// Somebody kills this holder (`dblock kill`): the command must end, and the lock is not reacquired. After [`ToKeeper::Release`] the
    /// keeper reports the end to this client.
    Killed(Box<Client>),
    /// A lock that was lost cannot be reacquired.
    Abandoned(Refusal),
    /// Whether the end of the run is recorded. If not, the reason was reported before.
    Recorded(bool),
    /// The lock is free, or the killer knows that the command has ended.
    Released,
    /// The output is kept, or this is why not. It comes after the end of the lock.
    OutputKept(Option<String>),
    /// The keeper ends without the lock.
    Failed(Failure),
}

impl From<Failure> for FromKeeper {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// To the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The answer to [`FromKeeper::AreYouThere`].
    Here,
    /// dblock is stopped, as by Ctrl-Z. While its command is stopped, too, the keeper renews nothing until [`ToKeeper::Check`].
    Pause,
    /// Renew now.
    Check,
    /// The command has ended like this; hold the lock on, and reacquire it if it is lost.
    Hold(Option<Box<RunEnd>>),
    /// A part of the output that is to be kept. All parts come before the end.
    Output(OutputPart),
    /// Release the lock. The command has ended like this, if it was started.
    Release(Option<Box<RunEnd>>),
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};

    use nix::sys::socket::{MsgFlags, send};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::text::cut_to_bytes;
    use crate::isolated::link::{LONGEST_TEXT, Link, cut};

    proptest! {
        #[test]
        fn any_packet_is_a_message_or_refused(
            packet in prop_oneof![vec(any::<u8>(), 1..300), vec(0..20u8, 1..300)],
        ) {
            let (one, other) = Link::pair().unwrap();
            send(one.as_fd().as_raw_fd(), &packet, MsgFlags::empty()).unwrap();
            if let Err(error) = other.receive::<FromKeeper>() {
                prop_assert!(error.raw_os_error().is_none(), "{}", error);
            }
            send(one.as_fd().as_raw_fd(), &packet, MsgFlags::empty()).unwrap();
            prop_assert!(!matches!(other.receive::<ToKeeper>(), Ok(None)));
        }

        #[test]
        fn any_text_crosses_cut_to_its_limit(text in ".{0,3000}") {
            let (one, other) = Link::pair().unwrap();
            one.send(&FromKeeper::Lost(cut(&text))).unwrap();
            let Some((FromKeeper::Lost(crossed), None)) = other.receive().unwrap() else {
                panic!("another message");
            };
            prop_assert_eq!(crossed, cut_to_bytes(&text, LONGEST_TEXT));
        }
    }

    #[test]
    fn a_packet_that_is_too_long_is_refused() {
        let (one, other) = Link::pair().unwrap();
        one.send(&FromKeeper::Lost("x".repeat(100_000))).unwrap();
        assert!(other.receive::<FromKeeper>().is_err());
    }

    #[test]
    fn the_longest_texts_fit_into_a_packet() {
        let (one, other) = Link::pair().unwrap();
        let text = cut(&"\u{1}".repeat(100_000));
        assert_eq!(text.len(), LONGEST_TEXT);
        one.send(&[&text; 7]).unwrap();
        let (texts, _) = other.receive::<[String; 7]>().unwrap().unwrap();
        assert!(texts.iter().all(|crossed| *crossed == text));
    }

    #[test]
    fn a_packet_with_more_than_a_message_is_refused() {
        let (one, other) = Link::pair().unwrap();
        one.send(&(ToKeeper::Check, ToKeeper::Check)).unwrap();
        let error = other.receive::<ToKeeper>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_descriptor_that_comes_with_a_message_is_open_after_its_sender_is_gone() {
        let (one, other) = Link::pair().unwrap();
        let (mut pipe, writer) = io::pipe().unwrap();
        one.send_with(&ToKeeper::Hold(None), writer.as_fd())
            .unwrap();
        drop((one, writer));
        let (_, descriptor) = other.receive::<ToKeeper>().unwrap().unwrap();
        let mut through = std::fs::File::from(descriptor.unwrap());
        io::Write::write_all(&mut through, b"x").unwrap();
        drop(through);
        let mut read = String::new();
        io::Read::read_to_string(&mut pipe, &mut read).unwrap();
        assert_eq!(read, "x");
    }

    #[test]
    fn the_end_of_the_other_side_is_told() {
        let (one, other) = Link::pair().unwrap();
        drop(other);
        assert!(one.receive::<FromKeeper>().unwrap().is_none());
        assert!(one.send(&ToKeeper::Release(None)).is_err());
    }
}
