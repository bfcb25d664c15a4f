//! A socket pair between two of dblock's processes. Each packet is one message.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType,
    getsockopt, recv, recvmsg, sendmsg, shutdown, socketpair, sockopt::SndBuf,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::poll::is_ready_within;
use crate::base::text::cut_to_bytes;

/// The most bytes of a text: a server's error message may have any length.
pub const LONGEST_TEXT: usize = 4 * 1024;

/// The most bytes of a packet. It holds several texts, or three clients with long introductions.
const LONGEST_PACKET: usize = 32 * 1024;

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
        self.send_packet(&Packet::of(message)?, &[], MsgFlags::empty())
    }

    /// Shuts down sending: the other end sees this end as closed.
    pub fn close_for_sending(&self) {
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Write);
    }

    /// Whether the other end is gone, or has sent something.
    pub fn is_readable(&self) -> bool {
        let mut link = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        let found = poll(&mut link, PollTimeout::ZERO);
        // Where the system refuses that, a look at the next byte says it, too.
        found.map_or_else(|_| self.has_next_byte(), |ready| ready > 0)
    }

    /// Whether the other end is gone, or has sent something, by a look at what is there.
    fn has_next_byte(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.0.as_raw_fd(), &mut [0], flags) != Err(Errno::EAGAIN)
    }

    /// Sends one message, unless the other end has read so little that half of the buffer is used. The other half is for messages that
    /// must arrive, whose senders wait for room.
    pub fn send_if_heard(&self, message: &impl Serialize) {
        if !self.is_half_full()
            && let Ok(packet) = Packet::of(message)
        {
            let _ = self.send_packet(&packet, &[], MsgFlags::MSG_DONTWAIT);
        }
    }

    fn is_half_full(&self) -> bool {
        let mut used: libc::c_int = 0;
        // SAFETY: writes one number.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut used) };
        let room = getsockopt(&self.0, SndBuf).unwrap_or_default();
        asked == 0 && usize::try_from(used).is_ok_and(|used| used > room / 2)
    }

    /// Sends one message, and with it a descriptor.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send_with(&self, message: &impl Serialize, descriptor: BorrowedFd) -> io::Result<()> {
        let descriptors = [descriptor.as_raw_fd()];
        let descriptors = [ControlMessage::ScmRights(&descriptors)];
        self.send_packet(&Packet::of(message)?, &descriptors, MsgFlags::empty())
    }

    /// Sends one message, and with it a descriptor if there is one, unless the buffer is full or the system has no room at the moment.
    /// Returns whether it was sent.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn try_send(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd>,
    ) -> io::Result<bool> {
        self.try_send_packet(&Packet::of(message)?, descriptor)
    }

    fn try_send_packet(&self, packet: &Packet, descriptor: Option<BorrowedFd>) -> io::Result<bool> {
        let descriptors: Vec<_> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
        let besides = descriptor.map(|_| ControlMessage::ScmRights(&descriptors));
        match self.send_packet(packet, besides.as_slice(), MsgFlags::MSG_DONTWAIT) {
            Ok(()) => Ok(true),
            Err(error) if passes(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until there is room for a message, or the other end is closed, for a minute at most.
    pub fn await_room(&self, limit: Duration) {
        is_ready_within(self.as_fd(), PollFlags::POLLOUT, limit);
    }

    fn send_packet(
        &self,
        packet: &Packet,
        besides: &[ControlMessage],
        flags: MsgFlags,
    ) -> io::Result<()> {
        // An empty packet would look like the end of the link.
        debug_assert!(!packet.0.is_empty());
        let parts = [IoSlice::new(&packet.0)];
        sendmsg::<()>(
            self.0.as_raw_fd(),
            &parts,
            besides,
            flags | MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }

    /// Waits for a message, and the descriptor that may come with it; `None`: the other end is closed.
    ///
    /// # Errors
    /// `InvalidData` for a packet that is no message. `EMFILE` if this process has too many open descriptors; then the message is lost.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        let Some((packet, descriptor)) = self.receive_packet()? else {
            return Ok(None);
        };
        let message = packet.message().ok_or(ErrorKind::InvalidData)?;
        Ok(Some((message, descriptor)))
    }

    fn receive_packet(&self) -> io::Result<Option<(Packet, Option<OwnedFd>)>> {
        let mut packet = vec![0; LONGEST_PACKET];
        let mut parts = [IoSliceMut::new(&mut packet)];
        let mut space = cmsg_space!(RawFd);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let mut attempt = || {
            let received = recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
            let mut besides = received.cmsgs().map_err(|_| Errno::EMFILE)?;
            let descriptor = besides.find_map(|besides| match besides {
                // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
                ControlMessageOwned::ScmRights(descriptors) => descriptors
                    .first()
                    .map(|&descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }),
                _ => None,
            });
            Ok((received.bytes, descriptor))
        };
        let (length, descriptor) = match attempt() {
            // The other end closed before it had read everything. This error comes once, before the messages that it sent.
            Err(Errno::ECONNRESET) => attempt()?,
            received => received?,
        };
        packet.truncate(length);
        Ok((length > 0).then_some((Packet(packet), descriptor)))
    }

    /// Waits until a message, or the end of the link, is there.
    fn await_packet(&self, deadline: Option<Moment>) -> Arrival<()> {
        loop {
            let left = deadline.map(|deadline| deadline.since(Moment::now()));
            // In pieces: poll(2) does not count the time that the machine sleeps.
            let piece = left.map_or(1000, |left| left.as_micros().div_ceil(1000).min(1000));
            let millis = u16::try_from(piece).unwrap_or_default();
            let mut descriptors = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            match poll(&mut descriptors, PollTimeout::from(millis)) {
                Ok(0) if left == Some(Duration::ZERO) => return Arrival::Late,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Arrival::Message(()),
                Err(_) => return Arrival::Gone,
            }
        }
    }
}

/// A message in bytes. Within another message it is a part whose type only its receiver knows.
#[derive(Debug)]
pub struct Packet(Vec<u8>);

impl Packet {
    /// The bytes of a message.
    ///
    /// # Errors
    /// `InvalidData`.
    pub fn of(message: &impl Serialize) -> io::Result<Self> {
        let bytes = postcard::to_allocvec(message).map_err(|_| ErrorKind::InvalidData)?;
        Ok(Self(bytes))
    }

    /// The message; `None`: it is none of this type.
    pub fn message<M: DeserializeOwned>(&self) -> Option<M> {
        match postcard::take_from_bytes(&self.0) {
            Ok((message, [])) => Some(message),
            _ => None,
        }
    }
}

impl Serialize for Packet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Packet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        Ok(Self(bytes.to_vec()))
    }
}

/// Whether the same message may be sent later: the buffer is full, memory is short, or too many descriptors of this user are under way.
fn passes(error: &io::Error) -> bool {
    let for_now = [
        libc::EAGAIN,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::ETOOMANYREFS,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| for_now.contains(&code))
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The failure that an error of [`Link::receive`] means when the other end is open, and this process has no descriptor left for the
/// session.
pub fn refusal(error: &io::Error) -> Option<Failure> {
    (error.raw_os_error() == Some(libc::EMFILE)).then(|| cannot_pass_on(error))
}

/// The failure of passing on a session.
pub fn cannot_pass_on(error: &io::Error) -> Failure {
    Failure::refused("pass the session on", error)
}

/// The text, cut to what a packet holds.
pub fn cut(text: &str) -> String {
    cut_to_bytes(text, LONGEST_TEXT).to_owned()
}

/// The failure, with its line [`cut`].
pub fn with_cut_line(failure: &Failure) -> Failure {
    Failure {
        line: cut(&failure.line),
        ..failure.clone()
    }
}

/// The result of waiting at a link.
pub enum Arrival<M> {
    /// A message.
    Message(M),
    /// The other end is closed.
    Gone,
    /// Nothing arrived in time.
    Late,
}

/// Waits for the next message until the deadline; `None` waits for ever. A message that is already there is never late.
pub fn next<M: DeserializeOwned>(link: &Link, deadline: Option<Moment>) -> Arrival<M> {
    match link.await_packet(deadline) {
        Arrival::Message(()) => match link.receive() {
            Ok(Some((message, _))) => Arrival::Message(message),
            Ok(None) | Err(_) => Arrival::Gone,
        },
        Arrival::Gone => Arrival::Gone,
        Arrival::Late => Arrival::Late,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_need_not_be_heard_leaves_room_for_what_must() {
        let (one, other) = Link::pair().unwrap();
        for _ in 0..10_000 {
            one.send_if_heard(&"again");
        }
        let mut must = 0;
        while one.try_send(&"must", None).unwrap() {
            must += 1;
        }
        assert!(must > 50, "{must}");
        let mut again = 0;
        while other.receive::<String>().unwrap().unwrap().0 == "again" {
            again += 1;
        }
        assert!(again > 50, "{again}");
    }

    #[test]
    fn a_message_that_the_system_refuses_for_now_is_sent_later() {
        // SAFETY: the child calls what works in a copy of one thread, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (one, _other) = Link::pair().unwrap();
            // As another user, who has a limit on descriptors under way.
            // SAFETY: these read numbers only.
            unsafe {
                let few = libc::rlimit {
                    rlim_cur: 16,
                    rlim_max: 16,
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few);
                libc::setuid(65534);
            }
            let mut sent = 0;
            let refused = loop {
                match one.try_send(&"with a descriptor", Some(one.as_fd())) {
                    Ok(true) => sent += 1,
                    Ok(false) => break 0,
                    Err(_) => break 1,
                }
            };
            // SAFETY: nothing of the parent's is touched.
            unsafe { libc::_exit(if sent > 64 { 2 } else { refused }) };
        }
        let ended = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None).unwrap();
        assert!(
            matches!(ended, nix::sys::wait::WaitStatus::Exited(_, 0)),
            "{ended:?}"
        );
    }

    #[test]
    fn what_has_arrived_is_seen_where_the_system_does_not_let_a_process_wait_for_it() {
        // SAFETY: the child calls what works in a copy of one thread, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (one, other) = Link::pair().unwrap();
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: reads numbers only.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
            let before = one.is_readable();
            let arrived = other.send(&"word").is_ok() && one.is_readable();
            let is_read = one.receive::<String>().is_ok() && !one.is_readable();
            drop(other);
            let is_right = !before && arrived && is_read && one.is_readable();
            // SAFETY: nothing of the parent's is touched.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let ended = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None).unwrap();
        assert!(
            matches!(ended, nix::sys::wait::WaitStatus::Exited(_, 0)),
            "{ended:?}"
        );
    }

    #[test]
    fn the_last_words_arrive_of_an_end_that_has_not_read_everything() {
        let (one, other) = Link::pair().unwrap();
        one.send(&"unread").unwrap();
        other.send(&"the last").unwrap();
        other.send(&"words").unwrap();
        drop(other);
        let receive = || one.receive::<String>().unwrap().map(|(word, _)| word);
        assert_eq!(
            [receive(), receive(), receive()],
            [Some("the last".to_owned()), Some("words".to_owned()), None]
        );
        assert_eq!(receive(), None);
    }
}
