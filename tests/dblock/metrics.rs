//! `dblock metrics`: what Prometheus collects is what `status`, `cron list` and `queue status` show, in a format that its own tools read; and
//! a file is replaced as a whole, or left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::documents::block_of;
use crate::harness::pages::{Page, ROOT};
use crate::harness::{
    Dblock, Kind, Running, SOON, Server, Tables, both_servers, eventually, missing, unique,
};

/// All that Prometheus' own parsers have a text say: the one of `OpenMetrics`, and the older one.
const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text
exposition = sys.stdin.read()
samples = lambda parse: [[s.name, s.labels, s.value] for family in parse(exposition) for s in family.samples]
assert samples(openmetrics) == samples(text)
print(json.dumps(samples(openmetrics)))
";

/// Values by their metric and its labels, as JSON.
type Samples = BTreeMap<(String, String), f64>;

/// What a program says of a text.
fn said_of(text: &str, program: &mut Command) -> String {
    let name = program.get_program().to_string_lossy().into_owned();
    let pipes = program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| missing(&name, &error));
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}{}\n{text}",
        said(&output.stdout),
        said(&output.stderr)
    );
    said(&output.stdout)
}

fn promtool(args: &[&str]) -> Command {
    let mut promtool = Command::new(Path::new(ROOT).join("script/promtool"));
    promtool.args(args);
    promtool
}

/// What a text says, in which promtool finds nothing to improve.
#[track_caller]
fn samples(text: &str) -> Samples {
    assert_eq!(said_of(text, &mut promtool(&["check", "metrics"])), "");
    let parsed = said_of(text, Command::new("/usr/bin/python3").args(["-c", PARSE]));
    let all: Vec<(String, Value, f64)> = serde_json::from_str(&parsed).expect("a list");
    let all = all.into_iter();
    all.map(|(name, labels, value)| ((name, labels.to_string()), value))
        .collect()
}

/// What it prints without a word on stderr.
#[track_caller]
fn printed(metrics: Dblock) -> Samples {
    let output = metrics.output();
    output.expect_code(0).expect_silence();
    samples(&output.stdout)
}

/// The value of a metric with these labels.
fn value(samples: &Samples, name: &str, labels: &Value) -> Option<f64> {
    samples
        .get(&(format!("dblock_{name}"), labels.to_string()))
        .copied()
}

/// A dblock that holds a lock.
fn holder(run: Dblock) -> Running {
    let mut dblock = run.sh("echo held; exec sleep 600").spawn();
    dblock.wait_line("held", SOON);
    dblock
}

/// Characters that the format, a shell, or a reader might take for something else.
const ODD: &str = "a \"quote\" \\ {umlaut=ö} \u{2028}x";

/// The same as a label.
const SHOWN: &str = "a \"quote\" \\ {umlaut=ö} \\u{2028}x";

/// Writes the job of a crontab that was due last, or is due next, so many seconds from now, with its last runs: how long ago each of them
/// ended, and its exit code.
fn job(tables: &Tables, name: &str, next: i32, runs: &[(u32, Option<u32>)]) {
    tables.sql(&format!(
        "INSERT INTO dblock_cron_jobs (name, schedule, zone, definition, next_at, changed_at, seen_at) VALUES ('{name}', '@daily', 'UTC', '', \
         UTC_TIMESTAMP(6) + INTERVAL {next} SECOND, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"
    ));
    for (ago, code) in runs {
        let ended = format!("UTC_TIMESTAMP(6) - INTERVAL {ago} SECOND");
        let started = format!("{ended} - INTERVAL 30 SECOND");
        let (ended, outcome, code) = match code {
            Some(code) => (ended, "'ran'", code.to_string()),
            None => ("NULL".to_owned(), "NULL", "NULL".to_owned()),
        };
        tables.sql(&format!(
            "INSERT INTO dblock_runs (run, name, tick, requested_at, acquired_at, started_at, ended_at, outcome, exit_code) \
             VALUES ('{:032x}', '{name}', {started}, {started}, {started}, {started}, {ended}, {outcome}, {code})",
            fastrand::u128(..)
        ));
    }
}

/// Writes a crontab of five jobs, and the daemon that runs them.
fn write_crontab(tables: &Tables) {
    tables.sql(
        "INSERT INTO dblock_cron_daemons (daemon, host, slots, jobs, definition, differs, started_at, renewed_at, expires_at, alive_since) \
         VALUES (REPEAT('d', 32), 'web1', 4, 4, '', 'fine', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, UTC_TIMESTAMP(6))",
    );
    let three = [(7200, Some(0)), (3600, Some(0)), (60, Some(3))];
    job(tables, "fails", -600, &three);
    job(tables, "fine", 3600, &[(60, Some(0))]);
    job(tables, "new", 3600, &[]);
    job(tables, "runs", 3600, &[(3600, Some(0)), (0, None)]);
    job(tables, "removed", -600, &[(60, Some(3))]);
    tables.sql("UPDATE dblock_cron_jobs SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE name = 'removed'");
    tables.sql("UPDATE dblock_cron_jobs SET paused_at = UTC_TIMESTAMP(6) WHERE name = 'new'");
    tables.sql(
        "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, daemon, ttl_seconds) SELECT name, tick, run, attempt, REPEAT('d', 32), 60 \
         FROM dblock_runs WHERE name = 'runs' AND ended_at IS NULL",
    );
}

/// The metrics show that crontab.
#[track_caller]
fn expect_crontab(found: &Samples) {
    let of = |name: &str, job: &str| value(found, name, &json!({"name": job}));
    assert_eq!(value(found, "cron_daemons", &json!({})), Some(1.0));
    let that_differ = value(found, "cron_daemons_that_differ", &json!({}));
    assert_eq!(that_differ, Some(1.0));
    for (name, job, expected) in [
        ("cron_job_last_run_succeeded", "fine", Some(1.0)),
        ("cron_job_last_run_succeeded", "fails", Some(0.0)),
        ("cron_job_last_run_succeeded", "runs", None),
        ("cron_job_late_seconds", "fine", Some(0.0)),
        // Nobody has it in a file.
        ("cron_job_late_seconds", "removed", None),
        ("cron_job_paused", "new", Some(1.0)),
        ("cron_job_running", "runs", Some(1.0)),
        ("cron_job_running", "fine", Some(0.0)),
        ("cron_job_last_success_timestamp_seconds", "new", None),
    ] {
        assert_eq!(of(name, job), expected, "{name} {job}: {found:#?}");
    }
    let now = value(found, "answer_timestamp_seconds", &json!({})).unwrap();
    // Seconds before the answer, and how many more it may be by then.
    for (name, job, ago) in [
        ("cron_job_last_success_timestamp_seconds", "fine", 60.0),
        ("cron_job_last_success_timestamp_seconds", "fails", 3600.0),
        ("cron_job_last_success_timestamp_seconds", "runs", 3600.0),
        ("cron_job_last_run_timestamp_seconds", "fails", 90.0),
        ("cron_job_next_tick_timestamp_seconds", "fails", 600.0),
    ] {
        let at = of(name, job).unwrap_or_else(|| panic!("{name} {job}: {found:#?}"));
        let since = now - at;
        assert!((ago..ago + 60.0).contains(&since), "{name} {job}: {since}");
    }
    let late = of("cron_job_late_seconds", "fails").unwrap();
    assert!((600.0..660.0).contains(&late), "{late}");
    // PostgreSQL has written the end some microseconds after the start.
    let took = of("cron_job_last_run_duration_seconds", "fine").unwrap();
    assert!((30.0..31.0).contains(&took), "{took}");
}

both_servers! {
    fn everything_is_in_one_answer(server) {
        let tables = Tables::new(server);
        let lock = unique(&format!("metrics {ODD}"));
        let shown = lock.replace('\u{2028}', "\\u{2028}");
        let durable = |wait: &str| tables.at("run").args(["--durable", "--name", &lock, "--wait", wait]);
        let _holder = holder(durable("0"));
        let _waiter = durable("600").command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&lock).len() == 1);
        tables.at("run").args(["--durable", "--name", "gone", "--", "true"]).output().expect_code(0);
        tables.sql("UPDATE dblock_locks SET owner = REPEAT('0', 32), kind = 'run', ttl_seconds = 60, acquired_at = UTC_TIMESTAMP(6), \
                    renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE name = 'gone'");

        write_crontab(&tables);

        let queue = |args: &[&str]| tables.at("queue").args(args).output().expect_code(0).stdout.clone();
        queue(&["create", ODD]);
        queue(&["put", ODD, "1", "2", "3"]);
        queue(&["put", ODD, "--delay", "1h", "4"]);
        tables.sql("UPDATE dblock_due SET due_at = UTC_TIMESTAMP(6) - INTERVAL 100 SECOND LIMIT 1");
        tables.sql("INSERT INTO dblock_queue_minutes SELECT id, CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME) - INTERVAL 3 MINUTE, 1, 60, 5 FROM dblock_queues");
        tables.sql("INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at) \
                    SELECT '-', id, 1, 60, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR FROM dblock_queues");
        queue(&["create", "zzz"]);
        queue(&["pause", "zzz"]);

        let found = printed(tables.at("metrics"));
        let is = |name: &str, labels: Value, expected: f64| assert_eq!(value(&found, name, &labels), Some(expected), "{name} {labels}: {found:#?}");
        let product = if server.kind == Kind::MariaDb { "MariaDB" } else { "MySQL" };
        assert!(found.keys().any(|(name, labels)| name == "dblock_server_info" && labels.contains(product)), "{found:#?}");
        is("up", json!({}), 1.0);
        is("tables_usable", json!({}), 1.0);
        let now = value(&found, "answer_timestamp_seconds", &json!({})).unwrap();

        is("lock_slots_held", json!({"name": shown}), 1.0);
        is("lock_waiters", json!({"name": shown}), 1.0);
        is("lock_slots_expired", json!({"name": "gone"}), 1.0);
        is("lock_slots_held", json!({"name": "gone"}), 0.0);
        let since = value(&found, "lock_held_since_timestamp_seconds", &json!({"name": shown, "slot": "0"})).unwrap();
        assert!((0.0..60.0).contains(&(now - since)), "{since} {now}");

        expect_crontab(&found);

        for (state, count) in [("due", 3.0), ("delayed", 1.0), ("running", 0.0), ("dead", 0.0)] {
            is("queue_jobs", json!({"name": SHOWN, "state": state}), count);
            is("queue_jobs_uncounted", json!({"name": SHOWN, "state": state}), 0.0);
        }
        let oldest = value(&found, "queue_oldest_due_seconds", &json!({"name": SHOWN})).unwrap();
        assert!((100.0..160.0).contains(&oldest), "{oldest}");
        is("queue_done_per_minute", json!({"name": SHOWN}), 12.0);
        is("queue_failed_per_minute", json!({"name": SHOWN}), 1.0);
        is("queue_workers", json!({"name": SHOWN}), 1.0);
        is("queue_paused", json!({"name": SHOWN}), 0.0);
        is("queue_paused", json!({"name": "zzz"}), 1.0);
        for kind in ["lock", "job", "queue"] {
            is("omitted", json!({"kind": kind}), 0.0);
        }

        // Some of each, and how many there are besides.
        let some = printed(tables.at("metrics").args(["--limit", "1"]));
        let omitted = |kind: &str| value(&some, "omitted", &json!({"kind": kind}));
        assert_eq!((omitted("job"), omitted("queue")), (Some(4.0), Some(1.0)));
        assert!(omitted("lock").is_some_and(|more| more >= 1.0), "{some:#?}");
        let named = |metric: &str| some.keys().filter(|(name, _)| name == metric).count();
        assert_eq!([named("dblock_lock_waiters"), named("dblock_cron_job_paused"), named("dblock_queue_paused")], [1; 3]);

        documented(&found);
    }

    fn what_the_server_lacks_is_left_out(server) {
        let tables = Tables::missing(server);
        let found = printed(tables.at("metrics"));
        assert_eq!(value(&found, "up", &json!({})), Some(1.0));
        assert_eq!(value(&found, "tables_usable", &json!({})), Some(0.0));
        assert!(!found.keys().any(|(name, _)| name.contains("_cron_") || name.contains("_queue_")), "{found:#?}");
        // An account that may not read what is there.
        let tables = Tables::new(server);
        tables.sql(&format!("REVOKE ALL ON {}.* FROM dblock@'%'", tables.quoted().replace('_', "\\_")));
        let found = printed(tables.at("metrics"));
        assert_eq!(value(&found, "tables_usable", &json!({})), Some(0.0));
        let told = tables.at("metrics").arg("-v").output().stderr;
        assert!(told.contains("left out: "), "{told}");
        let told = tables.at("metrics").user(&server.account()).arg("-v").output().stderr;
        assert!(told.contains("not visible: addresses and waiters of other accounts: GRANT PROCESS ON *.* TO "), "{told}");
    }
}

/// The page explains these metrics, and no others.
fn documented(found: &Samples) {
    let page = Page::read("docs/metrics.md").text;
    let of_page = page.lines().filter(|line| line.starts_with("| `dblock_"));
    let of_page: BTreeSet<&str> = of_page.filter_map(|line| line.split('`').nth(1)).collect();
    let names: BTreeSet<&str> = found.keys().map(|(name, _)| &**name).collect();
    assert_eq!(names, of_page);
}

#[test]
fn on_postgresql_the_locks_are_shown() {
    let server = Server::shared(Kind::Postgres);
    let name = unique("metrics");
    let _holder = holder(Dblock::run(server, &name));
    let _waiter = Dblock::run(server, &name)
        .args(["--wait", "600"])
        .command(["true"])
        .spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    // Another lock of the same name.
    let key = fastrand::u32(1..).to_string();
    let _other = holder(Dblock::run(server, &name).arg(format!("--key={key}")));
    let found = printed(Dblock::at(server, "metrics"));
    let (plain, with_key) = (json!({"name": name}), json!({"key": key, "name": name}));
    for (metric, labels, expected) in [
        ("lock_slots_held", &plain, 1.0),
        ("lock_waiters", &plain, 1.0),
        ("lock_slots_held", &with_key, 1.0),
        ("lock_waiters", &with_key, 0.0),
    ] {
        let value = value(&found, metric, labels);
        assert_eq!(value, Some(expected), "{metric} {labels}: {found:#?}");
    }
    assert!(
        found
            .keys()
            .any(|(name, labels)| name == "dblock_server_info" && labels.contains("PostgreSQL")),
        "{found:#?}"
    );
}

#[test]
fn on_postgresql_the_jobs_and_their_last_runs_are_shown() {
    let tables = Tables::new(Server::shared(Kind::Postgres));
    write_crontab(&tables);
    let found = printed(tables.at("metrics"));
    let usable = value(&found, "tables_usable", &json!({}));
    assert_eq!(usable, Some(1.0), "{found:#?}");
    expect_crontab(&found);
    let is_of_queue = |(name, _): &(String, String)| name.contains("_queue_");
    assert!(!found.keys().any(is_of_queue), "{found:#?}");
}

#[test]
fn the_alerts_are_well_formed_and_about_metrics_that_there_are() {
    let rules = block_of("docs/metrics.md", "/etc/prometheus/rules/dblock.yml").text;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dblock.yml");
    fs::write(&file, &rules).unwrap();
    let checked = said_of(
        "",
        &mut promtool(&["check", "rules", &file.to_string_lossy()]),
    );
    assert!(checked.contains("3 rules found"), "{checked}");
    let page = Page::read("docs/metrics.md").text;
    let words = rules.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    for metric in words.filter(|word| word.starts_with("dblock_")) {
        assert!(page.contains(&format!("| `{metric}`")), "{metric}");
    }
}

/// What fires where nothing was ever collected; and after a job has failed, while it runs again and has no last run that has ended.
const WHAT_FIRES: &str = r#"
rule_files: [dblock.yml]
tests:
  - interval: 1m
    promql_expr_test:
      - expr: &firing count by (alertname, name) (ALERTS{alertstate="firing"})
        eval_time: 5m
        exp_samples:
          - {labels: '{alertname="DblockIsBlind"}', value: 1}
  - interval: 1m
    input_series:
      - {series: dblock_up, values: 1x9}
      - {series: 'dblock_cron_job_last_run_succeeded{name="fails"}', values: 0 stale stale 0 stale stale}
      - {series: 'dblock_cron_job_last_run_succeeded{name="mended"}', values: 0 stale 1 stale stale stale}
      - {series: 'dblock_cron_job_last_run_succeeded{name="paused"}', values: 0x9}
      - {series: 'dblock_cron_job_paused{name="paused"}', values: 1x9}
    promql_expr_test:
      - expr: *firing
        eval_time: 1m
        exp_samples:
          - {labels: '{alertname="JobIsLate", name="fails"}', value: 1}
          - {labels: '{alertname="JobIsLate", name="mended"}', value: 1}
      - expr: *firing
        eval_time: 5m
        exp_samples:
          - {labels: '{alertname="JobIsLate", name="fails"}', value: 1}
"#;

#[test]
fn an_alert_fires_where_nothing_was_collected_and_until_a_job_has_succeeded() {
    let rules = block_of("docs/metrics.md", "/etc/prometheus/rules/dblock.yml").text;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dblock.yml"), &rules).unwrap();
    let file = folder.path().join("what-fires.yml");
    fs::write(&file, WHAT_FIRES).unwrap();
    let tried = said_of(
        "",
        &mut promtool(&["test", "rules", &file.to_string_lossy()]),
    );
    assert!(tried.contains("SUCCESS"), "{tried}");
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_file_is_replaced_as_a_whole_and_old_values_do_not_stay() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dblock.prom");
    let write = || {
        let metrics = Dblock::at(server, "metrics").arg("--output").arg(&file);
        metrics.under(["sh", "-c", "umask 077; exec \"$0\" \"$@\""])
    };
    let output = write().output();
    output.expect_code(0).expect_silence().expect_stdout("");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
        0o644
    );
    // Whoever has the old one open reads it to its end.
    let mut old = fs::File::open(&file).unwrap();
    let refused = write().env("DBLOCK_PASSWORD", "wrong").output();
    refused.expect_code(77).expect_one_line("refused");
    let up = samples(&fs::read_to_string(&file).unwrap());
    assert_eq!(value(&up, "up", &json!({})), Some(0.0));
    assert_eq!(up.len(), 2, "{up:#?}");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut old, &mut text).unwrap();
    assert_eq!(value(&samples(&text), "up", &json!({})), Some(1.0));
    // On stdout there is nothing then.
    let refused = Dblock::at(server, "metrics")
        .env("DBLOCK_PASSWORD", "wrong")
        .output();
    refused.expect_code(77).expect_stdout("");
    assert_eq!(names(folder.path()), ["dblock.prom"]);
}

#[test]
fn a_line_instead_of_a_file_is_stdout() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let metrics = || {
        let there = folder.path().to_str().unwrap();
        let metrics = Dblock::at(server, "metrics").args(["-o", "-"]);
        metrics.under(["sh", "-c", "cd \"$0\" && exec \"$@\"", there])
    };
    let output = metrics().output();
    output.expect_code(0).expect_silence();
    let up = value(&samples(&output.stdout), "up", &json!({}));
    assert_eq!(up, Some(1.0));
    let refused = metrics().env("DBLOCK_PASSWORD", "wrong").output();
    refused.expect_code(77).expect_stdout("");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_cannot_be_replaced_is_left_alone() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "mine").unwrap();
    symlink(&target, &link).unwrap();
    let missing = folder.path().join("missing/dblock.prom");
    for (path, why) in [
        (&link, "not a regular file"),
        (&folder.path().to_owned(), "not a regular file"),
        (&missing, "No such file or directory"),
    ] {
        let output = Dblock::at(server, "metrics")
            .arg("--output")
            .arg(path)
            .output();
        output
            .expect_code(71)
            .expect_stdout("")
            .expect_one_line(why);
    }
    let empty = Dblock::at(server, "metrics")
        .args(["--output", ""])
        .output();
    empty
        .expect_code(64)
        .expect_one_line("name a file, or - for stdout");
    // Nor does a limit on the size of files leave a part of it.
    let limited = ["sh", "-c", "ulimit -f 1; exec \"$0\" \"$@\""];
    let metrics = Dblock::at(server, "metrics")
        .arg("--output")
        .arg(folder.path().join("dblock.prom"));
    let large = metrics.under(limited).output();
    large.expect_code(71).expect_one_line("File too large");
    // Where there is no answer either, an old file would look like a new one.
    let unwritten = Dblock::at(server, "metrics")
        .args(["--port", "1", "--connect-timeout", "1", "--output"])
        .arg(folder.path().join("none").join("dblock.prom"))
        .output();
    unwritten
        .expect_code(69)
        .expect_said(["cannot write", "no server could be reached"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    assert_eq!(names(folder.path()), ["link", "target"]);
}
