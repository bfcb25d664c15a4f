//! Closes descriptors that dblock inherited: they belong to the command, and whoever reads a pipe would wait for dblock, too. Also sets
//! how many descriptors dblock may open.

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::log::Log;

/// The limit before dblock raised it.
static INHERITED: AtomicU64 = AtomicU64::new(UNCHANGED);
const UNCHANGED: u64 = u64::MAX;

/// Replaces stdin, stdout and stderr by /dev/null, and closes every other descriptor except `kept`. This closes descriptors that values
/// of this process own, too, so those must not be used again.
///
/// # Errors
/// As `open(2)` and `dup2(2)`.
pub fn close_all_except(kept: &[RawFd]) -> io::Result<()> {
    {
        let null = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    close_above_stderr(kept)
}

/// Raises the descriptor limit for this many commands, as far as the system allows. Returns for how many commands it is enough.
pub fn allow(commands: u32, [for_each, besides]: [u64; 2], log: Log) -> u32 {
    let wanted = u64::from(commands) * for_each + besides;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return commands;
    };
    let mut allowed = soft;
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).is_ok() {
        allowed = wanted.min(hard);
        INHERITED.store(soft, Relaxed);
    }
    let enough = allowed.saturating_sub(besides) / for_each;
    let at_once = u32::try_from(enough).unwrap_or(u32::MAX).clamp(1, commands);
    if at_once < commands {
        log.warning(format_args!(
            "-j {commands} needs {wanted} open files, and {allowed} are allowed (ulimit -n): running {at_once} at once"
        ));
    }
    at_once
}

/// Restores dblock's inherited limit. For the command's process: some programs break with more descriptors than `select(2)` can handle.
pub fn restore_limit() {
    let inherited = INHERITED.load(Relaxed);
    if inherited != UNCHANGED
        && let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, inherited, hard);
    }
}

fn close_range(first: RawFd, last: RawFd) -> bool {
    // SAFETY: the caller uses none of them again.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}

/// For Linux before 5.9, which has no `close_range(2)`.
fn close_one_by_one(kept: &[RawFd]) -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<RawFd> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open
        .into_iter()
        .filter(|descriptor| *descriptor > 2 && !kept.contains(descriptor))
    {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// As [`close_all_except`], but keeps stdin, stdout and stderr.
///
/// # Errors
/// As `open(2)`.
pub fn close_above_stderr(kept: &[RawFd]) -> io::Result<()> {
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut first = 3;
    for last in kept.iter().map(|kept| kept - 1).chain([RawFd::MAX]) {
        if first <= last && !close_range(first, last) {
            return close_one_by_one(&kept);
        }
        first = last.saturating_add(2);
    }
    Ok(())
}
