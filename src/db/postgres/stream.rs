//! The bytes to and from a server: a socket, with TLS or without it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use rustls::{ClientConnection, StreamOwned};

use crate::db::wire::{limit_reading, time_limit};

/// Connects by TCP. `limit` is for this, for each answer, and for room to send.
///
/// # Errors
/// As `connect(2)` and `setsockopt(2)`; no answer within the limit.
pub fn tcp(ip: IpAddr, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(ip, port), limit)?;
    refuse_itself(&stream)?;
    stream.set_nodelay(true)?;
    limit_both(&stream, limit)?;
    Ok(stream)
}

/// Connects to a local socket, which is read and written as one of TCP. A server whose queue of connections is full is waited for within
/// the limit.
///
/// # Errors
/// Likewise.
pub fn unix(path: &Path, limit: Duration) -> io::Result<TcpStream> {
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let socket: OwnedFd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    limit_both(&socket, limit)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(TcpStream::from(socket))
}

fn limit_both(socket: &impl AsFd, limit: Duration) -> io::Result<()> {
    limit_reading(socket.as_fd(), limit)?;
    Ok(setsockopt(
        socket,
        sockopt::SendTimeout,
        &time_limit(limit),
    )?)
}

/// Refuses a connection with itself. On a port where nobody listens, and which is in the range for outgoing connections, the system may take
/// the same port for this end; then TCP connects it with itself, and it would read what it has sent.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok(())
}

/// A socket, with TLS or without it.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
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
    use nix::sys::socket::{SockaddrIn, bind, getsockname};

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
        assert!(tcp(address.ip(), address.port(), Duration::from_secs(9)).is_ok());
    }
}
