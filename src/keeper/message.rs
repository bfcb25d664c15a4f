//! What crosses between the keeper and its supervisor: data, which is put into words where it is printed.

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::AlreadyRan;
use crate::db::Client;
use crate::history::RunEnd;
use crate::lock::{Grant, Holders, Lease, Refusal};

/// From the keeper to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromKeeper {
    /// What is being done or has just failed; the last one says what was under way when a deadline passes.
    Note(Level, String),
    /// Others have the lock; the wait begins.
    Waiting(Holders),
    /// On which server the lock is asked for.
    Reached(String),
    /// Is the supervisor there, and not stopped? It answers [`ToKeeper::Here`].
    AreYouThere,
    /// Every server is read-only, as the latest round showed; the text names one. `None`: that is over.
    OnlyReadOnly(Option<String>),
    /// Whether the lock may be held from now on without anybody's knowing: who gives up then has the keeper release it.
    Claiming(bool),
    /// The lock is held, or held again. The session's descriptor comes with it: as long as the supervisor has that open, too, the server
    /// sees the session live, and the keeper's death alone frees nothing.
    Held(Grant, Lease),
    /// A renewal that was sent then was answered: the lock is held.
    Confirmed(Moment),
    /// The lock was acquired, and released again: the run is not due.
    AlreadyRan(AlreadyRan),
    /// The tick that the run is for, as text.
    Tick(String),
    /// The lock was not acquired in time: these have it.
    Taken(Holders),
    /// The session is gone, and with it the lock. The text is the cause.
    Lost(String),
    /// Somebody ends the holder of the slot, which is us (`dblock kill`): the command must end, and the lock is not taken
    /// again. After [`ToKeeper::Release`] this client learns that it has ended.
    Killed(Box<Client>),
    /// A lock that was lost cannot be reacquired.
    Abandoned(Refusal),
    /// The command is killed for the lost lock, for the supervisor, which is stopped, has not ended it in time.
    EndsCommand,
    /// The lock is free, or whoever ended its holder knows of the end.
    Released,
    /// The keeper ends without the lock.
    Failed(Failure),
}

/// To the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The answer to [`FromKeeper::AreYouThere`].
    Here,
    /// Sent by the command's own process just before it becomes the command, so that no command runs unknown.
    Started {
        /// Its process.
        pid: i32,
        /// Whether it leads a process group of its own.
        own_group: bool,
    },
    /// dblock is stopped together with its command, as by Ctrl-Z: it is not renewed until [`ToKeeper::Check`].
    Pause,
    /// Renew now.
    Check,
    /// The daemon of the run is about to end the command: the run has not failed, however that ends.
    Interrupt,
    /// The command has ended, so; hold the lock all the same. A lock that is lost now is reacquired.
    Hold(Option<Box<RunEnd>>),
    /// The command has ended, so, if it was started: give the lock back.
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
    use crate::isolated::link::{LONGEST_TEXT, Link, cut};

    proptest! {
        #[test]
        fn any_packet_is_a_message_or_refused(
            packet in prop_oneof![vec(any::<u8>(), 1..300), "[\\[\\]{}\",:0-9a-zA-Z]{1,300}".prop_map(String::into_bytes)],
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
            prop_assert_eq!(crossed, text.chars().take(LONGEST_TEXT).collect::<String>());
        }
    }

    #[test]
    fn a_packet_that_is_too_long_is_refused() {
        let (one, other) = Link::pair().unwrap();
        send(
            one.as_fd().as_raw_fd(),
            &vec![b'"'; 100_000],
            MsgFlags::empty(),
        )
        .unwrap();
        assert!(other.receive::<FromKeeper>().is_err());
    }

    #[test]
    fn the_longest_text_of_the_worst_characters_fits_into_a_packet() {
        let (one, other) = Link::pair().unwrap();
        one.send(&FromKeeper::Lost(cut(&"\u{1}".repeat(100_000))))
            .unwrap();
        assert!(
            matches!(other.receive().unwrap(), Some((FromKeeper::Lost(text), None)) if text.len() == 1024)
        );
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
