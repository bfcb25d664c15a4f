//! What a statically linked glibc needs to be told: it would otherwise behave as a shared one.

/// Has names of hosts and users looked up in the files and the DNS that glibc knows by itself, and keeps it from loading
/// whatever else `/etc/nsswitch.conf` names. Those modules are made for programs that are linked dynamically: sssd's and
/// systemd's crash any other.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn load_no_modules() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
        // SAFETY: both are C strings, which glibc only reads, and no other thread is there. It fails for want of memory alone.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

/// Nothing to do: no modules there, or they work.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn load_no_modules() {}

// The getrandom crate looks for that function of glibc's by name, which is not to be had here, and opens /dev/urandom instead,
// once. The keeper closes what it inherits, and would read its random bits from no file, or from another that has got the
// number since.
#[cfg(all(
    target_env = "gnu",
    target_feature = "crt-static",
    not(getrandom_backend = "linux_getrandom")
))]
compile_error!(
    "with glibc linked in, dblock needs RUSTFLAGS='-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"'; \
     script/package does that"
);
