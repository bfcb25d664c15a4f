//! The scripts that people and continuous integration run: where they look, what they say, and what they leave behind.

use std::fs;
use std::process::Command;

use crate::harness::pages::ROOT;

#[test]
fn what_cargo_builds_is_found_where_variables_and_settings_have_it() {
    let home = tempfile::tempdir().unwrap();
    let settings = "[build]\ntarget-dir = \"/of/the/settings\"\n";
    fs::write(home.path().join("config.toml"), settings).unwrap();
    let found = |variable: &str, value: &str| {
        let output = Command::new("bash")
            .args(["-c", ". script/lib/servers.sh; find_builds"])
            .current_dir(ROOT)
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_BUILD_TARGET_DIR")
            .env(variable, value)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"] {
        assert_eq!(found(variable, "/elsewhere"), "/elsewhere\n", "{variable}");
    }
    let home = home.path().to_str().unwrap();
    assert_eq!(found("CARGO_HOME", home), "/of/the/settings\n");
}
