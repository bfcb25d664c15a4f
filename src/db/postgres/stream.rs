//! The bytes to and from a server: a socket, with TLS or without it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use rustls::{ClientConnection, StreamOwned};

use crate::db::wire::limit_reading;

/// A connected socket.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects by TCP.
    ///
    /// # Errors
    /// As `connect(2)`; no answer within the limit.
    pub fn tcp(ip: IpAddr, port: u16, limit: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(ip, port), limit)?;
        refuse_itself(&stream)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Connects to a local socket. A server whose queue of connections is full is waited for within the limit.
    ///
    /// # Errors
    /// Likewise.
    pub fn unix(path: &Path, limit: Duration) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let socket: OwnedFd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        let limit = TimeVal::from(libc_time(limit));
        setsockopt(&socket, sockopt::SendTimeout, &limit)?;
        connect(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            &UnixAddr::new(path)?,
        )?;
        Ok(Self::Unix(UnixStream::from(socket)))
    }

    /// Limits the wait for each answer, and for room to send.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn limit(&self, limit: Duration) -> io::Result<()> {
        limit_reading(self.as_fd(), limit)?;
        let limit = TimeVal::from(libc_time(limit));
        Ok(setsockopt(&self.as_fd(), sockopt::SendTimeout, &limit)?)
    }
}

/// Refuses a connection with itself. On a port where nobody listens, and which is in the range for outgoing connections, the system may take
/// the same port for this end; then TCP connects it with itself, and it would read what it has sent.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok(())
}

fn libc_time(span: Duration) -> libc::timeval {
    libc::timeval {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_usec: i64::from(span.subsec_micros()),
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A socket, with TLS or without it.
pub enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.sock,
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
        self.socket().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{SockaddrIn, bind, getsockname};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_connection_with_itself_is_refused() {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        let own: SockaddrIn = getsockname(socket.as_raw_fd()).unwrap();
        connect(socket.as_raw_fd(), &own).unwrap();
        let refused = refuse_itself(&TcpStream::from(socket)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(Socket::tcp(address.ip(), address.port(), Duration::from_secs(9)).is_ok());
    }
}
