//! What `dblock cron check` takes for a crontab, beside Debian's cron.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::pages::ROOT;
use crate::harness::{Dblock, missing};

const CONFIGURATION: i32 = 78;

/// Lines that Debian's cron takes as dblock does.
const TAKEN: &str = "\
* * * * * x
*/5 * * * * x
0-59/5 * * * * x
0,30 * * * * x
*/60 * * * * x
*/99 * * * * x
1-10/3 * * * * x
1,* * * * * x
*,1 * * * * x
5~ * * * * x
5~9 * * * * x
5~5 * * * * x
5~9,20 * * * * x
00 007 * * * x
0000000005 * * * * x
* * * * 7 x
* * * * 0-7 x
* * * Jan,FEB * x
* * * * Mon-FRI x
* * * * fri-sun x
* * * * sat-7 x
* * * * 1-fri x
* * * * mon-5 x
0 0 31 2 1 x
@hourly x
@daily x
@midnight x
@weekly x
@monthly x
@yearly x
@annually x
*\t*\t*\t*\t*\tx
  * * * * * x
* * * * * x%y
* * * * * é
* * * * * x \\
A=b
A = b
 A=b
A=\"\"
A=''
A=b # c
\"A\"=b
'A B'=b
A-B=c
5=6
# x
   # x
#x
";

/// Lines that Debian's cron refuses as dblock does.
const REFUSED: &str = "\
60 * * * * x
* 24 * * * x
* * 0 * * x
* * 32 * * x
* * * 0 * x
* * * 13 * x
* * * * 8 x
* * * jan x x
* * * january * x
* * * * monday x
mon * * * * x
* * mon * * x
*/0 * * * * x
1-10/0 * * * * x
5/10 * * * * x
0/5 * * * * x
1,,2 * * * * x
,1 * * * * x
1, * * * * x
+5 * * * * x
-5 * * * * x
5- * * * * x
0x5 * * * * x
99999999999999999999 * * * * x
? * * * * x
H * * * * x
* * L * * x
* * 15W * * x
* * * * 5L x
@Daily x
@every 5m x
@ daily x
* * * *
* * * * * * x
* * * * * *
- * * * * x
-* * * * * x
A=\"b
A='b\"
A=\"b\" c
A=\"b\" # c
\"A=b
A
A b
export A=b
set A=b
foo bar
";

/// Lines that only one of the two takes, by what the reason is.
const DIFFERENCES: [(&str, bool, &str); 9] = [
    (
        "cronie takes it, and dblock follows cronie: crontab(5) of cronie has open ranges and empty values",
        true,
        "~ * * * * x\n~5 * * * * x\nA=\nA = \n",
    ),
    (
        "Debian takes a range that runs backwards; cronie takes some and never runs the job",
        false,
        "5-1 * * * * x\n* 22-2 * * * x\n* * * * fri-mon x\n9~5 * * * * x\n",
    ),
    (
        "Debian reads on behind a character that it does not know, and takes what stands there for the next field",
        false,
        "*-5 * * * * x\n** * * * * x\n*5 * * * * x\n1-2-3 * * * * x\n1.5 * * * * x\n* * * * 1#2 x\n",
    ),
    ("a random value has no step", false, "5~9/2 * * * * x\n"),
    (
        "a day that no year has: cron takes the line and never runs it",
        false,
        "0 0 30 2 * x\n0 0 31 4,6 * x\n",
    ),
    ("a fleet does not boot", false, "@reboot x\n"),
    (
        "cron has the shell run nothing",
        false,
        "@daily\n@daily \n* * * * *\n* * * * * %x\n",
    ),
    ("a variable without a name", false, "=b\n"),
    (
        "cronie takes -n for an option, and Debian for the command",
        false,
        "* * * * * -n x\n",
    ),
];

fn check() -> Dblock {
    Dblock::bare().args(["cron", "check"])
}

/// Whether Debian's cron takes a crontab.
fn is_taken_by_debian(file: &Path) -> bool {
    // A dry run: it installs nothing.
    let output = Command::new("crontab").arg("-n").arg(file).output();
    let output = output.unwrap_or_else(|error| missing("cron", &error));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("usage"), "crontab has no -n: {told}");
    output.status.success()
}

/// Whether each of the two takes a crontab that has this line, Debian's first.
fn are_taken(line: &str) -> (bool, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crontab");
    fs::write(&file, format!("{line}\n@daily another\n")).unwrap();
    let ours = check().arg(&file).output();
    if ours.code != Some(0) {
        ours.expect_code(CONFIGURATION)
            .expect_stdout("")
            .expect_one_line(":1: ");
    }
    (is_taken_by_debian(&file), ours.code == Some(0))
}

#[test]
fn a_line_is_taken_or_refused_as_by_debian_s_cron() {
    for (lines, taken) in [(TAKEN, true), (REFUSED, false)] {
        for line in lines.lines() {
            assert_eq!(are_taken(line), (taken, taken), "{line:?}");
        }
    }
    for (why, taken, lines) in DIFFERENCES {
        for line in lines.lines() {
            assert_eq!(are_taken(line), (!taken, taken), "{line:?}: {why}");
        }
    }
}

#[test]
fn crontabs_that_debian_s_cron_takes_run_unchanged() {
    let folder = Path::new(ROOT).join("tests/dblock/crontabs");
    let mut lines = 0;
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|end| end != "crontab") {
            continue;
        }
        assert!(is_taken_by_debian(&file), "{}", file.display());
        let output = check().args(["-n", "0"]).arg(&file).output();
        lines += output
            .expect_code(0)
            .expect_silence()
            .stdout
            .lines()
            .count();
    }
    assert_eq!(lines, 300);
}
