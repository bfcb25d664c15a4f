//! What dblock was started with, and what changes before `main`: by Rust's start-up code, and here. The command gets the original state.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::descriptors;

/// Whether descriptors 0 to 2 were closed. `std` opens /dev/null in their place.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// Whether SIGPIPE was ignored. `std` always ignores it.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether SIGCHLD was ignored. Then no child could be waited for.
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether SIGXFSZ was ignored. dblock always ignores it: a file that exceeds the limit (`ulimit -f`), such as a log, is an error of a
/// write, and not the end of the process that holds a lock.
static FILE_SIZE_IGNORED: AtomicBool = AtomicBool::new(false);

/// The C library runs what is in this section before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: asks about a descriptor, which need not be open.
        closed.store(
            unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1,
            Relaxed,
        );
    }
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Relaxed);
    CHILD_IGNORED.store(is_ignored(libc::SIGCHLD), Relaxed);
    // SAFETY: sets a disposition that has no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    FILE_SIZE_IGNORED.store(before == libc::SIG_IGN, Relaxed);
}

/// Whether a descriptor from 0 to 2 was closed when dblock started.
pub fn was_closed(descriptor: i32) -> bool {
    let descriptor = usize::try_from(descriptor).ok();
    descriptor
        .and_then(|descriptor| CLOSED.get(descriptor))
        .is_some_and(|closed| closed.load(Relaxed))
}

/// Whether a signal's disposition is "ignore".
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: reads the disposition into a structure that all-zero bytes are valid for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Makes children waitable, even if SIGCHLD was ignored.
pub fn make_children_waitable() {
    // SAFETY: sets a default disposition.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Restores the descriptor limit and the dispositions that dblock was started with, and closes the descriptors that were closed, except
/// those of the streams that are the command's own. For the command's process, between fork and exec.
pub fn restore(own_streams: [bool; 3]) {
    restore_limit_and_dispositions();
    for (descriptor, (closed, is_own)) in (0..).zip(CLOSED.iter().zip(own_streams)) {
        if closed.load(Relaxed) && !is_own {
            // SAFETY: this process becomes the command next; nothing here uses the descriptor again.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// As [`restore`], without the descriptors.
pub fn restore_limit_and_dispositions() {
    descriptors::restore_limit();
    for (signal, ignored) in [
        (libc::SIGPIPE, &PIPE_IGNORED),
        (libc::SIGCHLD, &CHILD_IGNORED),
        (libc::SIGXFSZ, &FILE_SIZE_IGNORED),
    ] {
        let disposition = if ignored.load(Relaxed) {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // SAFETY: sets a disposition that has no handler.
        unsafe { libc::signal(signal, disposition) };
    }
}
