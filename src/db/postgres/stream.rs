//! The bytes to and from a server: a socket, with TLS or without it. Each read of a login may wait for what is left of its time.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use rustls::{ClientConnection, StreamOwned};

use crate::base::clock::Moment;
use crate::db::wire::{LoginLimit, limit_reading, time_limit};

/// Connects by TCP. The limit is for this, for each answer, and for room to send.
///
/// # Errors
/// As `connect(2)` and `setsockopt(2)`; no answer within the limit.
pub fn tcp(ip: IpAddr, port: u16, limit: LoginLimit) -> io::Result<Socket> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(ip, port), limit.each)?;
    refuse_itself(&stream)?;
    stream.set_nodelay(true)?;
    limit_both(&stream, limit.each)?;
    let until = limit.until;
    Ok(Socket { stream, until })
}

/// Connects to a local socket, which is read and written as one of TCP. A server whose queue of connections is full is waited for within
/// the limit.
///
/// # Errors
/// Likewise.
pub fn unix(path: &Path, limit: LoginLimit) -> io::Result<Socket> {
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let socket: OwnedFd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    limit_both(&socket, limit.each)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let (stream, until) = (TcpStream::from(socket), limit.until);
    Ok(Socket { stream, until })
}

fn limit_both(socket: &impl AsFd, limit: Duration) -> io::Result<()> {
    limit_reading(socket.as_fd(), limit)?;
    Ok(setsockopt(
        socket,
        sockopt::SendTimeout,
        &time_limit(limit),
    )?)
}

/// Refuses a connection with itself. On a port where nobody listens, and which is in the range for outgoing connections, the system may
/// take the same port for this end; then TCP connects it with itself, and it would read what it has sent.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok(())
}

/// A connection.
pub struct Socket {
    stream: TcpStream,
    /// Until when all that is read must be there: a server may send one byte at a time. `None`: only each read is limited.
    until: Option<Moment>,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.since(Moment::now());
            if left.is_zero() {
                // As of a read that has waited too long.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            limit_reading(self.as_fd(), left)?;
        }
        self.stream.read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A socket, with TLS or without it.
pub enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    /// From now on each read is limited by itself, as it was set last.
    pub fn end_login(&mut self) {
        match self {
            Self::Plain(socket) => socket.until = None,
            Self::Tls(tls) => tls.sock.until = None,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Tls(tls) => tls.sock.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use nix::sys::socket::{SockaddrIn, bind, getsockname};

    use super::*;

    const LONG: Duration = Duration::from_secs(9);

    /// A connection to a server that sends a byte every twentieth of a second, with this limit on all of them.
    fn to_one_that_trickles(until: Option<Moment>) -> Socket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let limit = LoginLimit { each: LONG, until };
        tcp(address.ip(), address.port(), limit).unwrap()
    }

    #[test]
    fn a_login_that_trickles_is_over_at_its_end_and_afterwards_each_read_is_limited_alone() {
        let begun = Moment::now();
        let mut socket = to_one_that_trickles(Some(begun + Duration::from_millis(300)));
        let mut byte = [0];
        let error = loop {
            match socket.read(&mut byte) {
                Ok(read) => assert_eq!(read, 1),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // The system may be a tick early.
        assert!((Duration::from_millis(200)..LONG).contains(&begun.elapsed()));
        let mut stream = Stream::Plain(socket);
        stream.end_login();
        limit_reading(stream.as_fd(), LONG).unwrap();
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
    }

    #[test]
    fn a_connection_with_itself_is_refused() {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        let own: SockaddrIn = getsockname(socket.as_raw_fd()).unwrap();
        connect(socket.as_raw_fd(), &own).unwrap();
        let refused = refuse_itself(&TcpStream::from(socket)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (each, until) = (LONG, None);
        assert!(tcp(address.ip(), address.port(), LoginLimit { each, until }).is_ok());
    }
}
