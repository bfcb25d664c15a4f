//! A minute of everything at once for six daemons with forty jobs: their processes, commands and sessions are killed, their processes are
//! stopped for longer than the TTL, they are told to end and to read their file again, and the server starts again. Afterwards every tick
//! is looked at. What the machine itself holds up is measured meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::crontab::{commands_of, scheduler_of};
use crate::harness::{
    Crontab, HeldUp, Kind, Running, SOON, Server, Time, Watcher, eventually, in_time, quoted,
    soak_lasts, soak_settings, within,
};

const DAEMONS: usize = 6;
const JOBS: usize = 40;

/// The file that tells the commands to be quick and to succeed: nothing bad happens any more.
const CALM: &str = "calm";

/// The TTL of all jobs.
const TTL: Duration = Duration::from_secs(4);

/// Longer than that.
const STOPPED: Duration = Duration::from_millis(8500);

/// A scheduler records an end sooner than this: it looks once a second, and a server waits two for a locked row.
const UNRECORDED: Duration = Duration::from_secs(3);

/// Accuracy of the comparison of moments of several hosts' sessions.
const MARGIN: i64 = 3_000_000;

#[test]
fn mariadb() {
    soak(Kind::MariaDb);
}

#[test]
fn mysql() {
    soak(Kind::MySql);
}

#[test]
fn postgres() {
    soak(Kind::Postgres);
}

/// What is promised of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Overlap {
    Skip,
    Wait,
    Allow,
}

fn overlap(job: usize) -> Overlap {
    [Overlap::Skip, Overlap::Skip, Overlap::Wait, Overlap::Allow][job % 4]
}

fn retries(job: usize) -> u64 {
    (job % 3) as u64
}

/// The job of this number, whose ticks the test makes: its own next one is far away.
fn lines(crontab: &Crontab) -> String {
    let mut lines = String::new();
    for job in 0..JOBS {
        let word = format!("{:?}", overlap(job)).to_lowercase();
        let retries = retries(job);
        let retries = if retries == 0 {
            String::new()
        } else {
            format!(" --retries {retries} --retry-delay 200ms")
        };
        let command = quoted(&crontab.path("command"));
        let options = format!(
            "--ttl {}s --kill-after 1s --overlap {word}{retries}",
            TTL.as_secs()
        );
        let _ = writeln!(lines, "#: job{job} {options}\n0 0 1 1 * exec {command}");
    }
    lines
}

/// What the commands do. What a job's command locks is locked for as long as it lives; some heed no SIGTERM, and some run for longer
/// than the TTL.
fn command(crontab: &Crontab) -> String {
    format!(
        "#!/bin/sh
        note() {{ echo $1 $DBLOCK_NAME $DBLOCK_TICK $DBLOCK_ATTEMPT $DBLOCK_FENCE $2 >>{log}; }}
        exec 9>>{folder}/$DBLOCK_NAME.lock
        flock -n 9 || note overlap $(date +%s%N)
        note start
        [ -e {calm} ] || case $(( $DBLOCK_FENCE % 8 )) in
        1) sleep 2 9>&-;;
        2) trap '' TERM; sleep 1 9>&-;;
        3 | 4) note failed; exit 1;;
        5) sleep 0.3 9>&-;;
        6) sleep 6 9>&-;;
        esac
        note end
        ",
        log = quoted(&crontab.record()),
        folder = quoted(crontab.record().parent().expect("a folder")),
        calm = quoted(&crontab.path(CALM)),
    )
}

fn soak(kind: Kind) {
    let (seconds, mut random) = soak_settings();
    // What the test itself has written is not lost with the server either.
    let durable: &[&str] = match kind {
        Kind::MariaDb | Kind::MySql => &["--innodb-flush-log-at-trx-commit=1"],
        Kind::Postgres => &["-c", "synchronous_commit=on"],
    };
    let server = Server::private_with(kind, durable);
    let crontab = Crontab::alone(&server, "");
    crate::harness::write_program(&crontab.path("command"), command(&crontab).as_bytes());
    crontab.write(&lines(&crontab));
    let mut daemons: Vec<Running> = (0..DAEMONS).map(|_| start(&crontab, &mut random)).collect();
    eventually("all jobs are in force", SOON, || {
        crontab.count("dblock_cron_jobs") == JOBS as u64
    });
    let (mut ticks, mut stops) = (Vec::new(), Vec::new());
    let held_up = HeldUp::watch(&server);
    let deeds = strike(
        &server,
        &crontab,
        &mut daemons,
        seconds,
        (&mut ticks, &mut stops),
        &mut random,
    );
    std::fs::write(crontab.path(CALM), "").expect("a file");
    eventually("no tick is under way", Duration::from_secs(90), || {
        crontab.count("dblock_cron_ticks") == 0
            && crontab.count("dblock_cron_jobs WHERE next_at <= UTC_TIMESTAMP(6)") == 0
    });
    // One that has only just been started would die of the signal.
    let heeds =
        |daemon: &mut Running| daemon.stderr().contains("dblock: ready: ") || !daemon.is_running();
    eventually("each daemon heeds signals, or has ended", SOON, || {
        daemons.iter_mut().all(heeds)
    });
    for daemon in &mut daemons {
        if daemon.is_running() {
            daemon.signal(Signal::SIGTERM);
        }
    }
    for mut daemon in daemons {
        daemon.wait_within(SOON).expect_code(0);
    }
    eventually("no daemon counts as alive", SOON, || {
        crontab.count("dblock_cron_daemons WHERE expires_at > UTC_TIMESTAMP(6)") == 0
    });
    let held_up = held_up.end();
    let mut of_each = BTreeMap::new();
    for (_, deed, _) in &deeds {
        *of_each.entry(deed).or_insert(0) += 1;
    }
    println!(
        "{} ticks, {} lines; {of_each:?}; held up {}",
        ticks.len(),
        crontab.lines().len(),
        held_up.0.len()
    );
    let wrong = wrong(&crontab, &ticks, &stops, &held_up);
    assert!(
        wrong.is_empty(),
        "{} wrong: {}\n{deeds:?}\n{held_up:?}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(is_enough(&deeds, &ticks), "{of_each:?}");
}

/// The scheduler of a daemon is stopped for [`STOPPED`], or longer on a busy machine. What its commands have done meanwhile nobody can
/// record, so others do it again when the TTL is over.
struct Stop {
    /// The daemon's process.
    daemon: i32,
    /// In microseconds since 1970.
    begun: i64,
    /// When it was to go on.
    ended: Option<i64>,
}

/// What was done when, in microseconds since 1970, and to which daemon.
type Deeds = Vec<(i64, &'static str, i32)>;

impl Stop {
    /// Whether it explains that a run that succeeded was followed by another one.
    fn explains(&self, succeeded: &Run, next: &Run) -> bool {
        let micros = |span: Duration| i64::try_from(span.as_micros()).expect("not long");
        let ended = self.ended.expect("all go on in the end");
        // What ended just before may not have been recorded.
        let meanwhile = self.begun - micros(UNRECORDED)..ended + MARGIN;
        // The lease began with the latest renewal, which is no older than a quarter of the TTL.
        i64::from(self.daemon) == succeeded.pid
            && succeeded
                .ended
                .is_some_and(|ended| meanwhile.contains(&ended))
            && next.requested > self.begun + micros(TTL / 2)
    }
}

/// The time in microseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    i64::try_from(now.as_micros()).expect("not so late")
}

fn start(crontab: &Crontab, random: &mut fastrand::Rng) -> Running {
    let jobs = random.u8(2..=20).to_string();
    let args = ["--jobs", &jobs, "--grace", "1", "--connect-timeout", "30"];
    crontab.daemon(&args).spawn()
}

/// Whether so much has happened that there is something to look at.
fn is_enough(deeds: &Deeds, ticks: &[(String, i64)]) -> bool {
    deeds.len() > 20 && ticks.len() > 50
}

/// Has some jobs be due, and does something bad every now and then: for this long, or until there is enough to look at.
fn strike(
    server: &Server,
    crontab: &Crontab,
    daemons: &mut [Running],
    duration: Duration,
    (ticks, stops): (&mut Vec<(String, i64)>, &mut Vec<Stop>),
    random: &mut fastrand::Rng,
) -> Deeds {
    let mut deeds = Deeds::new();
    let begun = Instant::now();
    let mut has_restarted = false;
    let mut stopped: Option<(i32, i32, Instant)> = None;
    while soak_lasts(begun, duration, || is_enough(&deeds, ticks)) {
        within(Duration::from_millis(random.u64(100..500)), || false);
        if stopped.is_some_and(|(.., until)| until < Instant::now()) {
            thaw(&mut stopped, stops);
        }
        for _ in 0..random.usize(..4) {
            ticks.extend(due(crontab, random.usize(..JOBS)));
        }
        for daemon in daemons.iter_mut() {
            if !daemon.is_running() {
                *daemon = start(crontab, random);
            }
        }
        if begun.elapsed() > duration / 2 && !has_restarted {
            has_restarted = true;
            thaw(&mut stopped, stops);
            deeds.push((now(), "server killed", 0));
            server.kill();
            server.start();
            deeds.push((now(), "server started", 0));
            continue;
        }
        let at = random.usize(..daemons.len());
        let daemon = daemons[at].pid();
        let is_stopped = stopped.is_some_and(|(_, of, _)| of == daemon);
        let end = |pid: Option<i32>, what| {
            let _ = kill(Pid::from_raw(pid?), Signal::SIGKILL);
            Some(what)
        };
        let deed = match random.u8(..16) {
            0..2 if !is_stopped => end(Some(daemon), "daemon"),
            // A daemon that is stopped cannot end its commands when nobody holds their locks.
            2..4 if !is_stopped => end(scheduler_of(daemon), "scheduler"),
            4..8 => end(random.choice(commands_of(daemon)), "command"),
            8..10 => {
                end_sessions(server, crontab);
                Some("sessions")
            }
            10 if !is_stopped => {
                let _ = kill(Pid::from_raw(daemon), Signal::SIGTERM);
                Some("told to end")
            }
            11..13 if !is_stopped => {
                let _ = kill(Pid::from_raw(daemon), Signal::SIGHUP);
                Some("told to read")
            }
            13..16 if stopped.is_none() => {
                let which = [
                    Some(daemon),
                    scheduler_of(daemon),
                    random.choice(commands_of(daemon)),
                ];
                which[random.usize(..3)].map(|process| {
                    let _ = kill(Pid::from_raw(process), Signal::SIGSTOP);
                    if which[1] == Some(process) {
                        stops.push(Stop {
                            daemon,
                            begun: now(),
                            ended: None,
                        });
                    }
                    stopped = Some((process, daemon, Instant::now() + STOPPED));
                    "stopped"
                })
            }
            _ => None,
        };
        if deed == Some("daemon") {
            // Another one takes its place, also after the last deed.
            within(SOON, || !daemons[at].is_running());
        }
        if let Some(deed) = deed {
            deeds.push((now(), deed, daemon));
        }
    }
    thaw(&mut stopped, stops);
    for daemon in daemons.iter_mut() {
        // One that had only just been started may be dying of a signal.
        in_time(SOON, || {
            daemon.stderr().contains("dblock: ready: ") || !daemon.is_running()
        });
        if !daemon.is_running() {
            *daemon = start(crontab, random);
        }
    }
    deeds
}

/// Has a job be due now, unless it is; the tick.
fn due(crontab: &Crontab, job: usize) -> Option<(String, i64)> {
    let now: i64 = crontab.rows(&format!("SELECT {}", crontab.micros("UTC_TIMESTAMP(6)")))[0];
    let (name, number) = (format!("job{job}"), crontab.tables.try_change(&format!(
        "UPDATE dblock_cron_jobs SET next_at = {} + INTERVAL {now} MICROSECOND, changed_at = UTC_TIMESTAMP(6) \
         WHERE name = 'job{job}' AND next_at > UTC_TIMESTAMP(6)",
        crontab.epoch()
    )));
    // A daemon may be at it.
    (number == Some(1)).then_some((name, now))
}

fn thaw(stopped: &mut Option<(i32, i32, Instant)>, stops: &mut [Stop]) {
    if let Some((process, ..)) = stopped.take() {
        let _ = kill(Pid::from_raw(process), Signal::SIGCONT);
        for stop in stops.iter_mut().filter(|stop| stop.ended.is_none()) {
            stop.ended = Some(now());
        }
    }
}

fn end_sessions(server: &Server, crontab: &Crontab) {
    let mut watcher = server.watcher();
    let all = match server.kind {
        // Also those that have not named the database yet.
        Kind::MariaDb | Kind::MySql => crontab.rows(
            "SELECT id FROM information_schema.processlist WHERE user = 'dblock' AND (db = DATABASE() OR db IS NULL)",
        ),
        Kind::Postgres => crontab.sessions(),
    };
    for id in all {
        watcher.end_session(id);
    }
}

/// A row of it: name, tick, attempt, the daemon's process, when it was requested and ended, outcome, exit code and message.
type Row = (
    String,
    i64,
    u64,
    i64,
    i64,
    Option<i64>,
    Option<String>,
    Option<u64>,
    Option<String>,
);

/// The runs of each tick, by job and time.
type RunsOfTicks = BTreeMap<(String, i64), Vec<Run>>;

/// A run of the history.
#[derive(Debug, Clone)]
struct Run {
    attempt: u64,
    pid: i64,
    requested: i64,
    ended: Option<i64>,
    outcome: String,
    exit_code: Option<u64>,
    message: String,
}

impl Run {
    fn is_skip(&self) -> bool {
        self.outcome == "skipped"
    }

    fn succeeded(&self) -> bool {
        self.outcome == "ran" && self.exit_code == Some(0)
    }
}

/// What is wrong: each tick must have run once, or be skipped for a reason that is true.
fn wrong(
    crontab: &Crontab,
    ticks: &[(String, i64)],
    stops: &[Stop],
    held_up: &HeldUp,
) -> Vec<String> {
    let micros = |column: &str| crontab.micros(column);
    let rows: Vec<Row> = crontab.rows(&format!(
        "SELECT name, {}, attempt, pid, {}, {}, outcome, exit_code, message FROM dblock_runs WHERE tick IS NOT NULL ORDER BY requested_at",
        micros("tick"),
        micros("requested_at"),
        micros("ended_at")
    ));
    let mut of_ticks = RunsOfTicks::new();
    for (name, tick, attempt, pid, requested, ended, outcome, exit_code, message) in rows {
        of_ticks.entry((name, tick)).or_default().push(Run {
            attempt,
            pid,
            requested,
            ended,
            outcome: outcome.unwrap_or_default(),
            exit_code,
            message: message.unwrap_or_default(),
        });
    }
    let mut wrong = Vec::new();
    let log = crontab.lines();
    for tick in ticks {
        let runs = of_ticks.get(tick).cloned().unwrap_or_default();
        if let Some(why) = wrong_tick(tick, &runs, (&of_ticks, stops), &log) {
            wrong.push(format!("{tick:?}: {why}: {runs:#?}"));
        }
    }
    for line in log.iter().filter(|line| line.starts_with("overlap ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, time) = (words[1], words.last().and_then(|word| word.parse().ok()));
        let (job, time): (usize, Time) = (name[3..].parse().ok())
            .zip(time)
            .expect("a job and a time");
        if overlap(job) != Overlap::Allow && !held_up.lets_meet(&(time..time)) {
            let of_job: Vec<&String> = log
                .iter()
                .filter(|line| line.contains(&format!(" {name} ")))
                .collect();
            let runs: Vec<_> = of_ticks.iter().filter(|((of, _), _)| of == name).collect();
            wrong.push(format!(
                "two commands at once: {line}: {of_job:#?} {runs:#?}"
            ));
        }
    }
    if of_ticks.len() != ticks.len() {
        wrong.push(format!(
            "{} ticks in the history, {} of the test",
            of_ticks.len(),
            ticks.len()
        ));
    }
    wrong
}

fn wrong_tick(
    (name, tick): &(String, i64),
    runs: &[Run],
    (all, stops): (&RunsOfTicks, &[Stop]),
    log: &[String],
) -> Option<String> {
    let job: usize = name[3..].parse().expect("a number");
    let (skips, runs): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.is_skip());
    let of_tick = log.iter().filter(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        words[1] == name && is_tick(words[2], *tick)
    });
    let of_tick: Vec<&String> = of_tick.collect();
    let starts = of_tick.iter().filter(|line| line.starts_with("start "));
    let starts = starts.count();
    if runs.is_empty() {
        let [skip] = skips[..] else {
            return Some("neither run nor skipped once".to_owned());
        };
        if starts > 0 {
            return Some(format!("skipped, and started {starts} times"));
        }
        // Something of the job must have been under way.
        let is_true = all.iter().any(|((of, other), others)| {
            let begun = others.iter().map(|run| run.requested).min();
            let ended = others.iter().filter_map(|run| run.ended).max();
            of == name
                && other != tick
                && others.iter().any(|run| !run.is_skip())
                && begun.is_some_and(|begun| begun <= skip.requested + MARGIN)
                && ended.is_none_or(|ended| ended + 4 * MARGIN >= skip.requested)
        });
        return (!is_true).then(|| format!("skipped without a reason: {}", skip.message));
    }
    let attempts: Vec<u64> = runs.iter().map(|run| run.attempt).collect();
    if starts > runs.len() || !attempts.is_sorted_by(|one, next| one < next) {
        return Some(format!(
            "{starts} starts, attempts {attempts:?}: {of_tick:#?}"
        ));
    }
    let is_again = |pair: &&[&Run]| {
        let (run, next) = (pair[0], pair[1]);
        run.succeeded() && !stops.iter().any(|stop| stop.explains(run, next))
    };
    if runs.windows(2).any(|pair| is_again(&pair)) {
        return Some("tried again after a success".to_owned());
    }
    if runs.iter().any(|run| run.succeeded()) {
        return None;
    }
    let failed = runs.iter().filter(|run| run.outcome == "ran").count() as u64;
    let lost = runs.len() as u64 - failed;
    let may_give_up = failed + lost > retries(job) && (failed > 0 || lost > 1);
    // A lock that somebody else holds ends a tick, too.
    (!may_give_up && skips.is_empty()).then(|| "given up too early".to_owned())
}

/// Whether a tick is shown so.
fn is_tick(shown: &str, tick: i64) -> bool {
    let seconds = tick / 1_000_000;
    let fraction = format!("{:06}", tick % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    let (minute, second) = (seconds / 60 % 60, seconds % 60);
    let end = if fraction.is_empty() {
        format!(":{minute:02}:{second:02}Z")
    } else {
        format!(":{minute:02}:{second:02}.{fraction}Z")
    };
    shown.ends_with(&end)
}
