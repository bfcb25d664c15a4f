//! Commands that change something: a success says what it did in one line on stdout. With `--quiet` it says nothing, and is done all the
//! same. It is done, and a success, also if that line cannot be written.

use std::fs::File;

use crate::harness::{Crontab, Kind, SOON, Server, eventually};
use crate::queue_admin::bury;

/// What becomes of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Printed,
    Quiet,
    FullDisk,
}

/// The command succeeds, says this line, and does what the condition is about, which does not hold before.
fn succeeds(crontab: &Crontab, how: How, args: &[&str], line: &str, condition: &str) {
    let holds = || crontab.count(&format!("(SELECT 1) x WHERE {condition}")) == 1;
    assert!(!holds(), "before {args:?}: {condition}");
    let dblock = crontab.tables.at(args[0]).args(&args[1..]);
    let dblock = match how {
        How::Printed => dblock,
        How::Quiet => dblock.arg("-q"),
        How::FullDisk => dblock.stdout(File::options().write(true).open("/dev/full").unwrap()),
    };
    let output = dblock.output();
    let why = "cannot write this to stdout: No space left on device";
    let (printed, said) = match how {
        How::Printed => (format!("{line}\n"), String::new()),
        How::Quiet => (String::new(), String::new()),
        How::FullDisk => (String::new(), format!("dblock: {line}; {why}\n")),
    };
    output.expect_code(0).expect_stdout(&printed);
    assert_eq!(output.stderr, said, "{args:?}");
    eventually(condition, SOON, holds);
}

#[test]
fn a_success_is_one_line_which_quiet_silences_and_a_full_disk_does_not_change() {
    let server = Server::shared(Kind::MariaDb);
    let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
    let _host = crontab.start(&[]);
    let (tables, job) = (&crontab.tables, crontab.name("job"));
    for (round, how) in (1..).zip([How::Printed, How::Quiet, How::FullDisk]) {
        let queue = format!("q{round}");
        let does = |args: &[&str], line: &str, condition: &str| {
            succeeds(&crontab, how, args, line, condition);
        };
        let of_queue = |rest: &str| {
            format!("EXISTS (SELECT 1 FROM dblock_queues WHERE name = '{queue}'{rest})")
        };
        does(
            &["queue", "create", &queue],
            &format!("created the queue {queue}"),
            &of_queue(""),
        );
        does(
            &["queue", "pause", &queue],
            &format!("paused the queue {queue}"),
            &of_queue(" AND paused_at IS NOT NULL"),
        );
        does(
            &["queue", "resume", &queue],
            &format!("resumed the queue {queue}"),
            &of_queue(" AND paused_at IS NULL"),
        );
        let put = || {
            tables
                .at("queue")
                .args(["put", &queue, "x"])
                .output()
                .stdout
                .trim()
                .to_owned()
        };
        let id = put();
        bury(tables, id.parse().unwrap());
        does(
            &["queue", "retry", &queue, &id],
            "1 job due again",
            &format!("EXISTS (SELECT 1 FROM dblock_due WHERE job = {id})"),
        );
        bury(tables, id.parse().unwrap());
        does(
            &["queue", "retry", &queue, "--dead"],
            "1 job due again",
            &format!("EXISTS (SELECT 1 FROM dblock_due WHERE job = {id})"),
        );
        does(
            &["queue", "cancel", &queue, &id],
            "deleted 1 job",
            &format!("NOT EXISTS (SELECT 1 FROM dblock_jobs WHERE id = {id})"),
        );
        put();
        does(
            &["queue", "delete", &queue],
            &format!("deleted the queue {queue} with 1 job"),
            &format!("NOT {}", of_queue("")),
        );
        let of_job = |rest: &str| {
            format!("EXISTS (SELECT 1 FROM dblock_cron_jobs WHERE name = '{job}' AND {rest})")
        };
        does(
            &["cron", "pause", &job],
            &format!("paused {job}"),
            &of_job("paused_at IS NOT NULL"),
        );
        crontab.due("job");
        does(
            &["cron", "resume", &job],
            &format!("resumed {job}; 1 tick was skipped"),
            &of_job("paused_at IS NULL"),
        );
        let runs = format!(
            "(SELECT COUNT(*) FROM dblock_runs WHERE name = '{job}' AND outcome = 'ran') = {round}"
        );
        does(
            &["cron", "trigger", &job],
            &format!("triggered {job}"),
            &runs,
        );
    }
}
