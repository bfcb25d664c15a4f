//! Closing the descriptors that dblock inherited: they are the command's, and whoever reads a pipe would wait for
//! dblock, too.

use std::fs;
use std::io;
use std::os::fd::RawFd;

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Puts /dev/null in the place of stdin, stdout and stderr, and closes every other descriptor but `kept`. What values of
/// this process own besides is closed with the rest, so they must not be used again.
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
