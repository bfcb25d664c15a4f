//! Where clients come in: a TCP port, or a socket that only this user can connect to.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::refused;
use super::write_timeout::Stream;
use crate::base::exit::Failure;
use crate::options::{Listen, Options};

/// What is listened on.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener, SocketAddr),
    /// A socket, which goes with the listener.
    Unix(UnixListener, OwnSocket),
}

impl Listener {
    /// Listens. Nothing else may run meanwhile that makes files.
    ///
    /// # Errors
    /// It cannot: the port or the socket is another's, for example.
    pub async fn bind(listen: &Listen) -> Result<Self, Failure> {
        let (shown, bound) = match listen {
            Listen::Tcp(address) => (address.to_string(), Self::tcp(*address).await),
            Listen::Unix(path) => {
                let bound = remove_dead(path).await.and_then(|()| bind(path));
                (path.display().to_string(), bound)
            }
        };
        bound.map_err(|error| refused(&format!("listen on {shown}"), &error))
    }

    async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self::Tcp(listener, address))
    }

    /// Where it is opened: by the first of its names, if others reach it by that.
    pub fn url(&self, options: &Options) -> String {
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        match (self, options.host_names.first()) {
            // The proxy has a port of its own.
            (_, Some(name)) if options.behind_proxy => format!("https://{name}/"),
            (Self::Tcp(_, address), Some(name)) if !address.ip().is_loopback() => {
                format!("{scheme}://{name}:{}/", address.port())
            }
            (Self::Tcp(_, address), _) => format!("{scheme}://{address}/"),
            (Self::Unix(_, socket), _) => format!("unix:{}", socket.path.display()),
        }
    }

    /// The next client, and its address; None: it is of this host.
    ///
    /// # Errors
    /// As `accept(2)`.
    pub async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                // An answer is written at once: waiting for more to send with it only delays it.
                stream.set_nodelay(true)?;
                let peer = Some(peer.ip().to_canonical()).filter(|ip| !ip.is_loopback());
                Ok((Box::new(stream), peer))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), None))
            }
        }
    }
}

/// A socket that one who was killed has left goes; one that somebody listens on stays.
async fn remove_dead(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::other("there is something else of that name"))
        }
        Ok(_) => match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            // It would block where the listener accepts nobody, and no more can wait for that.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Err(io::Error::other("another process listens there")),
        },
    }
}

/// The socket has these rights from its first moment on.
fn bind(path: &Path) -> io::Result<Listener> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener?;
    let metadata = fs::symlink_metadata(path)?;
    let socket = OwnSocket {
        path: path.to_owned(),
        file: (metadata.dev(), metadata.ino()),
    };
    Ok(Listener::Unix(listener, socket))
}

/// A socket that is removed at the end, unless another one has taken its place.
#[derive(Debug)]
pub struct OwnSocket {
    path: PathBuf,
    file: (u64, u64),
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }
}
