//! Has the unwinder linked into dblock. Rust takes it from `libgcc_s`; to load that library, and to run its constructor, which
//! asks the processor what it can do, is a fifteenth of a whole run of dblock (docs/speed.md).

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return;
    }
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let found = Command::new(compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // A compiler that has no such archive answers with the name alone: then it is libgcc_s.
    if found.is_ok_and(|output| output.stdout.contains(&b'/')) {
        // Rust names libgcc_s after it, and asks the linker to leave out a library that nothing needs.
        println!("cargo::rustc-link-lib=static=gcc_eh");
    }
}
