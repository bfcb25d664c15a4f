//! A file system whose server answers nothing. A process that waits for such an answer cannot be ended, not even by SIGKILL: it is in the
//! state D, as where a disk or a file server hangs.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{SOON, eventually, stat_field};

/// The kernel gives no request to a reader without room for the longest one.
const LONGEST_REQUEST: usize = 64 * 1024;

/// `struct fuse_init_out`: version 7.31, nothing special, and 4096 bytes at most in a write.
const INITIALIZED: [u32; 16] = [7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// `struct fuse_out_header`: a length, an error, and the number of the request.
const HEADER: usize = 16;

/// The file system, until this is dropped: then whoever waits for it gets an error.
#[derive(Debug)]
pub struct Unkillable {
    /// The requests of the kernel. When this is closed, they fail.
    device: File,
    folder: TempDir,
}

impl Unkillable {
    /// Only root can mount it.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let device = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/fuse")
            .expect("root opens /dev/fuse");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = CString::new(options).expect("no NUL");
        let place = c_path(folder.path());
        // SAFETY: all of these are strings that end in NUL.
        let mounted = unsafe {
            libc::mount(
                c"unkillable".as_ptr(),
                place.as_ptr(),
                c"fuse".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(mounted, 0, "{}", io::Error::last_os_error());
        let mut new = Self { device, folder };
        // The kernel asks no more before this is answered.
        let first = new.request();
        let length = HEADER + size_of_val(&INITIALIZED);
        let mut answer = u32::try_from(length).expect("short").to_ne_bytes().to_vec();
        answer.extend([0; 4]);
        answer.extend(&first[8..HEADER]);
        answer.extend(INITIALIZED.iter().flat_map(|number| number.to_ne_bytes()));
        new.device.write_all(&answer).expect("the kernel takes it");
        new
    }

    /// A file. Whoever opens it waits for it.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// Waits until somebody waits for the file, whom no signal ends from then on.
    #[track_caller]
    pub fn eventually_opened(&mut self) {
        self.request();
    }

    /// The next request of the kernel.
    #[track_caller]
    fn request(&mut self) -> Vec<u8> {
        let mut request = vec![0; LONGEST_REQUEST];
        eventually("the kernel asks the file system", SOON, || {
            self.device
                .read(&mut request)
                .is_ok_and(|length| length >= HEADER)
        });
        request
    }
}

/// Waits until a process that was killed waits for such a file all the same.
#[track_caller]
pub fn eventually_unkillable(pid: i32) {
    eventually("it was killed, and is still there", SOON, || {
        stat_field(pid, 0).as_deref() == Some("D")
    });
}

impl Drop for Unkillable {
    fn drop(&mut self) {
        let place = c_path(self.folder.path());
        // SAFETY: a string that ends in NUL.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}
