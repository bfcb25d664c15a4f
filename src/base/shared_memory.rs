//! Memory that this process shares with those that it forks.

use std::io;

/// New memory for so many values, all of whose bytes are zero. It lives as long as any of the processes.
///
/// # Errors
/// As `mmap(2)`.
///
/// # Safety
/// Zero bytes are a valid `T`, which is changed only through atomics.
pub unsafe fn share<T: Sync>(number: usize) -> io::Result<&'static [T]> {
    // SAFETY: new pages, at no particular address.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            number * size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the memory has this size, is page-aligned, is never unmapped, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(memory.cast::<T>(), number) })
}
