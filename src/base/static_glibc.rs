//! Settings for a statically linked glibc, which would otherwise behave as a shared one.

/// Has glibc look up hosts and users only in the files and the DNS, and not load other modules that `/etc/nsswitch.conf` names. Those are
/// made for dynamically linked programs: sssd's and systemd's crash any other.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn load_no_modules() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
        // SAFETY: both are C strings that glibc only reads, and there is no other thread. It fails only without memory.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

/// Nothing to do: there are no modules, or they work.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn load_no_modules() {}

// The getrandom crate looks for that glibc function by its name, which does not work here, and then opens /dev/urandom once. But the
// keeper closes inherited descriptors: it would read random bits from a closed descriptor, or from another file with its number.
#[cfg(all(
    target_env = "gnu",
    target_feature = "crt-static",
    not(getrandom_backend = "linux_getrandom")
))]
compile_error!(
    "with glibc linked in, dblock needs --cfg getrandom_backend=\"linux_getrandom\", which .cargo/config.toml has and a RUSTFLAGS of \
     one's own takes away; script/package adds it"
);
