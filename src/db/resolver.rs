//! The addresses of a name. The system's resolver asks name servers that may be away, and the library has no limit on that: with several
//! servers and a search list it takes the better part of a minute.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

use crate::base::children::reap_within;
use crate::base::clock::Moment;
use crate::base::descriptors::close_above_stderr;

/// How long a process that has answered may take to end, and one that was killed: a file system can keep that for ever.
const END_LIMIT: Duration = Duration::from_secs(1);
const DEATH_LIMIT: Duration = Duration::from_millis(50);

/// The addresses, or why there are none.
pub type Resolved = Result<Vec<IpAddr>, String>;

/// All addresses of a name, in the resolver's order, however long that takes.
pub fn resolve(host: &str) -> Resolved {
    let found = (host, 0).to_socket_addrs().map_err(|error| cause(&error))?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    Ok(addresses)
}

/// The resolver's message, without the standard library's prefix.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text)
        .to_owned()
}

/// Names that are being resolved, each in a process of its own, which nothing but its death can stop.
#[derive(Default)]
pub struct Resolvers(Vec<Resolver>);

impl Resolvers {
    /// As [`resolve`], but waits no longer than `limit`. The process of a name that takes longer goes on, and the next call waits for that:
    /// so a name is found in the end, however short the limits are.
    pub fn resolve_within(&mut self, host: &str, limit: Duration) -> Resolved {
        let at = self.0.iter().position(|resolver| resolver.host == host);
        let resolver = match at {
            Some(at) => Ok(self.0.swap_remove(at)),
            None => Resolver::start(host),
        };
        // Where the system has no room for another process, it has to be this one.
        let Ok(mut resolver) = resolver else {
            return resolve(host);
        };
        resolver.answer(limit).unwrap_or_else(|| {
            self.0.push(resolver);
            Err("the resolver has not answered yet".to_owned())
        })
    }

    /// Ends what nobody waits for any more.
    pub fn end(&mut self) {
        self.0.clear();
    }
}

/// The process that resolves one name.
struct Resolver {
    host: String,
    pid: Pid,
    /// It ends when all is said.
    pipe: PipeReader,
    bytes: Vec<u8>,
}

impl Resolver {
    fn start(host: &str) -> io::Result<Self> {
        let (ours, theirs) = io::pipe()?;
        let parent = getpid();
        // SAFETY: no thread was started, so the child may do whatever the parent may.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Self {
                host: host.to_owned(),
                pid: child,
                pipe: ours,
                bytes: Vec::new(),
            }),
            ForkResult::Child => {
                let _ = catch_unwind(AssertUnwindSafe(|| work(host, parent, &theirs)));
                // SAFETY: ends this process, and nothing else: what it owns is the parent's.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// The answer, if it comes within the limit.
    fn answer(&mut self, limit: Duration) -> Option<Resolved> {
        let until = Moment::now() + limit;
        loop {
            let left = until.since(Moment::now());
            // In pieces: poll(2) does not count the time that the machine sleeps.
            let piece = left.as_micros().div_ceil(1000).min(1000);
            let millis = u16::try_from(piece).unwrap_or_default();
            let mut pipe = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
            match poll(&mut pipe, PollTimeout::from(millis)) {
                Ok(0) if left.is_zero() => return None,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    let mut part = [0; 4096];
                    match self.pipe.read(&mut part) {
                        Ok(length @ 1..) => self.bytes.extend_from_slice(&part[..length]),
                        _ => return Some(self.found()),
                    }
                }
                Err(_) => return None,
            }
        }
    }

    fn found(&self) -> Resolved {
        postcard::from_bytes(&self.bytes)
            .unwrap_or_else(|_| Err("the resolver has ended without an answer".to_owned()))
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        // Where dblock inherited SIGCHLD as ignored, the number of one that has ended may be another's by now.
        let limit = if self.answer(Duration::ZERO).is_some() {
            END_LIMIT
        } else {
            let _ = kill(self.pid, Signal::SIGKILL);
            DEATH_LIMIT
        };
        reap_within(self.pid.as_raw(), limit);
    }
}

/// The process of a resolver, from its start to its end. It dies with its parent, and keeps nothing of it open, such as its link.
fn work(host: &str, parent: Pid, mut pipe: &PipeWriter) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Ok(());
    }
    close_above_stderr(&[pipe.as_raw_fd()])?;
    prctl::set_name(c"dblock-resolver")?;
    let found = postcard::to_allocvec(&resolve(host)).map_err(|_| ErrorKind::InvalidData)?;
    pipe.write_all(&found)
}
