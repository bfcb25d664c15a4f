//! The page of a large fleet, on servers that put each commit on the disk: what it asks of the server for one viewer and for many, what a
//! queue gets done beside it, how much is sent to a browser and how soon, and its memory.

use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::Result;
use super::private_server::Private;
use super::processes::{Callers, expect_success, peak_memory, until, until_server_says};
use super::queue::work::{Queue, Until};
use super::setup::{ACCOUNT, OfWeb, PASSWORD, Server, Setup};
use super::table::{Row, Table, Unit};

pub const PART: &str = "web";

/// The account of the page, by which its statements are told from others.
const VIEWER: &str = "viewer";

/// How often a browser asks again, in seconds: as by default.
const REFRESH: u64 = 5;

/// What the page may ask for, and have the server read until everything was asked for once; what 99 of 100 statements may take.
const STATEMENTS_A_SECOND: f64 = 2.0;
const ROWS: f64 = 20_000.0;
const SLOWEST: f64 = 0.05;

/// What the page asks for all who look: locks, the crontab, queues, and of the history what is new, and what else it lacks. It asks for
/// each in a session of its own, which is known by a statement that is like this; one that is like several counts as the first of them.
const ASKED: [&str; 5] = [
    "/* dblock status %",
    "/* dblock cron list */ %",
    "/* dblock queue status */ %",
    "/* dblock history */ % r WHERE r.requested_at >= %",
    "/* dblock history */ %",
];

/// What a queue keeps of its throughput.
const BESIDE: f64 = 0.98;

/// Bytes on the wire of the first page with all that it loads, of a refresh, and of the script; seconds until the first byte; memory.
const FIRST_PAGE: f64 = 60e3;
const REFRESHED: f64 = 15e3;
const SCRIPT: f64 = 5e3;
const FIRST_BYTE: f64 = 0.05;
const MEMORY: f64 = 32e6;

/// What those look at who look together.
const PAGES: [&str; 5] = ["/", "/timeline", "/history", "/queues/page", "/jobs/job7"];

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let web = &setup.sizes.web;
    let counted = Duration::from_secs(web.counted);
    for private in Private::with_room_for(web.due, setup)? {
        let server = &private.server;
        let name = |what: &str| server.line(what);
        let queue = Queue::create(setup, server, "page", &[])?;
        let _daemons = fill(setup, &private, &queue)?;
        let mut admin = private.admin()?;
        log_statements(&mut admin, true)?;
        let page = Page::start(setup, server)?;
        for (viewers, whose) in [(1, "one viewer"), (web.viewers, "many viewers")] {
            let sent = page.looked_at(viewers, || {
                // What is asked for the first time, once and for all, does not count.
                page.until_known(&mut admin)?;
                sleep(counted / 2);
                let before = statements(&mut admin)?;
                sleep(counted);
                Ok(statements(&mut admin)? - before)
            })?;
            let a_second = sent / counted.as_secs_f64();
            let what = name(&format!("statements a second of the page, {whose}"));
            table.add(Row::one(PART, what, Unit::Count, a_second).at_most(STATEMENTS_A_SECOND));
            if viewers == 1 {
                let what = name("rows that are read until all was asked for once, one viewer");
                let rows = rows_of_a_round(&sessions(&mut admin)?);
                table.add(Row::one(PART, what, Unit::Count, rows).at_most(ROWS));
            }
        }
        let times = times(&mut admin)?;
        let times = Row::new(PART, name("a statement of the page"), Unit::Seconds, times);
        let what = name("and the slowest of 99 of 100");
        let slowest = Row::one(PART, what, Unit::Seconds, times.quantile(0.99)).at_most(SLOWEST);
        table.add(times);
        table.add(slowest);
        log_statements(&mut admin, false)?;
        page.transfers(table)?;
        beside(&queue, &page, table)?;
        let what = name("the largest resident memory of dblock-web");
        let memory = peak_memory(page.program.0[0].id())?;
        table.add(Row::one(PART, what, Unit::Bytes, memory).at_most(MEMORY));
    }
    Ok(())
}

/// Jobs of a crontab with daemons that run them, their history, and a queue of jobs that are due.
fn fill(setup: &Setup, private: &Private, queue: &Queue) -> Result<Callers> {
    let OfWeb {
        daemons,
        jobs,
        runs,
        due,
        ..
    } = setup.sizes.web;
    let mut admin = private.admin()?;
    let digits = "(SELECT 0 n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    for statement in [
        format!("CREATE USER '{VIEWER}'@'%' IDENTIFIED BY '{PASSWORD}'"),
        format!("GRANT SELECT, PROCESS ON *.* TO '{VIEWER}'@'%'"),
        // Each job each five minutes, one in a hundred fails.
        format!(
            "INSERT INTO dblock.dblock_runs (run, name, host, pid, fence, tick, requested_at, acquired_at, started_at, ended_at, outcome, exit_code) \
             SELECT LPAD(HEX(n), 32, '0'), CONCAT('job', n % {jobs}), CONCAT('web', n % {daemons}), 1000 + n % 30000, n, at, at, at, at, \
             at + INTERVAL n % 240 SECOND, 'ran', n % 100 = 7 FROM (SELECT n, UTC_TIMESTAMP(6) - INTERVAL n * 300 / {jobs} SECOND AS at FROM \
             (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n AS n \
             FROM {digits} a, {digits} b, {digits} c, {digits} d, {digits} e, {digits} f) numbers WHERE n < {runs}) runs"
        ),
    ] {
        admin.query_drop(statement)?;
    }
    queue.put(due, &[])?;
    let _: Vec<mysql::Row> = admin.query("ANALYZE TABLE dblock.dblock_runs")?;
    let mut lines = "CRON_TZ=UTC\n".to_owned();
    for number in 0..jobs {
        let _ = writeln!(lines, "#: job{number}\n{}-59/5 * * * * true", number % 5);
    }
    let crontab = format!("{}/crontab-web", setup.folder);
    fs::write(&crontab, lines)?;
    let daemons = Callers::start(daemons, |_| {
        let mut daemon = setup.program(&setup.dblock, &private.server.url(ACCOUNT));
        daemon.args(["cron", "run", &crontab]);
        daemon.stdout(Stdio::null()).stderr(Stdio::null());
        daemon
    })?;
    until_server_says("the daemons know the jobs", || {
        let count = "SELECT COUNT(*) FROM dblock.dblock_cron_jobs";
        Ok(admin.query_first(count)? == Some(jobs))
    })?;
    Ok(daemons)
}

/// Has the server write down each statement of sessions that begin from now on, or no more.
fn log_statements(admin: &mut Conn, is_on: bool) -> Result<()> {
    // MariaDB would leave out what it takes for quick.
    let _ = admin.query_drop("SET GLOBAL log_slow_filter = ''");
    let (time, is_on) = if is_on { (0, 1) } else { (10, 0) };
    let switch = format!(
        "SET GLOBAL log_output = 'TABLE', GLOBAL long_query_time = {time}, GLOBAL slow_query_log = {is_on}"
    );
    Ok(admin.query_drop(switch)?)
}

/// How many statements the page has sent to the server so far.
fn statements(admin: &mut Conn) -> Result<f64> {
    let count: Option<f64> = admin.query_first(format!(
        "SELECT COUNT(*) FROM mysql.slow_log WHERE user_host LIKE '{VIEWER}%'"
    ))?;
    count.ok_or_else(|| "no count".into())
}

/// How long the server has taken for each of them, in seconds.
fn times(admin: &mut Conn) -> Result<Vec<f64>> {
    Ok(admin.query(format!(
        "SELECT FLOOR(TIME_TO_SEC(query_time)) + MICROSECOND(query_time) / 1e6 FROM mysql.slow_log WHERE user_host LIKE '{VIEWER}%'"
    ))?)
}

/// The sessions of the page so far: the place in [`ASKED`] of what each has asked for, and how many rows the server has read for it.
fn sessions(admin: &mut Conn) -> Result<Vec<(Option<usize>, f64)>> {
    let asked = ASKED.iter().enumerate();
    let asked = asked.map(|(place, asked)| format!("WHEN words LIKE '{asked}' THEN {place}"));
    Ok(admin.query(format!(
        "SELECT MIN(CASE {} END), SUM(rows_examined) + 0e0 FROM (SELECT thread_id, rows_examined, CONVERT(sql_text USING utf8mb4) AS words \
         FROM mysql.slow_log WHERE user_host LIKE '{VIEWER}%') said GROUP BY thread_id",
        asked.collect::<Vec<_>>().join(" ")
    ))?)
}

/// The rows that are read until all was asked for once: for the median session of each sort.
fn rows_of_a_round(sessions: &[(Option<usize>, f64)]) -> f64 {
    let median = |place| {
        let of_it = sessions.iter().filter(|(asked, _)| *asked == Some(place));
        let rows = of_it.map(|(_, rows)| *rows).collect();
        Row::new(PART, "", Unit::Count, rows).median()
    };
    // What is new in the history is asked for from the second round on.
    let medians = (0..ASKED.len()).map(median);
    medians.filter(|rows| !rows.is_nan()).sum()
}

/// What a queue's workers get done while somebody looks at the page, and while nobody does.
fn beside(queue: &Queue, page: &Page, table: &mut Table) -> Result<()> {
    let OfWeb {
        due, rounds, work, ..
    } = queue.setup.sizes.web;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for round in 0..2 * rounds {
        queue.fill_to(due)?;
        let works = || queue.work(2, &["--batch", "100"], Until::Over(work));
        // The first is now the one and now the other.
        if (round + round / 2) % 2 == 0 {
            alone.push(works()?.a_second());
        } else {
            watched.push(page.looked_at(1, works)?.a_second());
        }
    }
    let what = queue
        .server
        .line("jobs a second of two workers, while nobody looks at the page");
    let alone = Row::new(PART, what, Unit::Count, alone);
    let what = queue.server.line("and while somebody does");
    let watched = Row::new(PART, what, Unit::Count, watched);
    let watched = watched.against(&alone, "without").ratio_at_least(BESIDE);
    table.add(alone);
    table.add(watched);
    Ok(())
}

/// `dblock web`, and a browser's cookie.
struct Page<'a> {
    setup: &'a Setup,
    server: &'a Server,
    program: Callers,
    origin: String,
    cookies: String,
}

/// What curl says of an answer.
struct Fetched {
    first_byte: f64,
    bytes: f64,
    text: String,
}

impl<'a> Page<'a> {
    fn start(setup: &'a Setup, server: &'a Server) -> Result<Self> {
        let said = format!("{}/page-{}", setup.folder, server.name);
        let mut web = setup.program(&setup.dblock, &server.url(VIEWER));
        web.args(["web", "--listen", "127.0.0.1:0"])
            .stdout(fs::File::create(&said)?);
        let mut program = Callers::default();
        program.add(web)?;
        let mut url = String::new();
        until("the address of the page", || {
            url = fs::read_to_string(&said)?;
            Ok(url.ends_with('\n'))
        })?;
        let url = url.trim().rsplit(' ').next().unwrap_or_default();
        let (origin, _) = url.split_once("/?").ok_or("a strange address")?;
        let page = Self {
            setup,
            server,
            program,
            origin: origin.to_owned(),
            cookies: format!("{said}-cookies"),
        };
        let mut first = page.curl();
        first.args(["--cookie-jar", &page.cookies, "--output", "/dev/null", url]);
        expect_success(&mut first)?;
        Ok(page)
    }

    fn curl(&self) -> Command {
        let mut curl = self.setup.other("curl");
        curl.args(["--silent", "--show-error", "--fail", "--location"]);
        curl.args(["--compressed", "--max-time", "30"]);
        curl
    }

    /// A page as a browser gets it; `is_again`: as the script asks for it.
    fn fetch(&self, path: &str, is_again: bool) -> Result<Fetched> {
        let mut curl = self.curl();
        if is_again {
            curl.args(["--header", "x-dblock-main: 1"]);
        }
        curl.args(["--cookie", &self.cookies, "--write-out"])
            .arg("\n%{time_starttransfer} %{size_download}")
            .arg(format!("{}{path}", self.origin));
        let output = curl.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{path}: {}", output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let (text, figures) = text.rsplit_once('\n').ok_or("curl said nothing")?;
        let (first_byte, bytes) = figures.split_once(' ').ok_or("curl said too little")?;
        Ok(Fetched {
            first_byte: first_byte.parse()?,
            bytes: bytes.parse()?,
            text: text.to_owned(),
        })
    }

    /// Does something while so many browsers show a page and refresh it: the first the overview, the others the other pages in turn.
    fn looked_at<T>(&self, viewers: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_over = &is_over;
            for viewer in 0..viewers {
                scope.spawn(move || {
                    let path = PAGES[viewer % PAGES.len()];
                    while !is_over.load(Ordering::Relaxed) {
                        if let Err(error) = self.fetch(path, true) {
                            eprintln!("  {error}");
                        }
                        for _ in 0..REFRESH * 10 {
                            if !is_over.load(Ordering::Relaxed) {
                                sleep(Duration::from_millis(100));
                            }
                        }
                    }
                });
            }
            let done = work();
            is_over.store(true, Ordering::Relaxed);
            done
        })
    }

    /// Until everything was asked for at least once.
    fn until_known(&self, admin: &mut Conn) -> Result<()> {
        until_server_says("the page to ask for the history", || {
            let sessions = sessions(admin)?;
            let mut asked = sessions.iter().filter_map(|(asked, _)| *asked);
            Ok(asked.any(|place| ASKED[place].contains("history")))
        })?;
        until("the page to know it", || {
            Ok(self.fetch("/", true)?.text.contains(" runs: "))
        })
    }

    /// What a browser gets, and when.
    fn transfers(&self, table: &mut Table) -> Result<()> {
        self.looked_at(1, || {
            let first = self.fetch("/", false)?;
            let mut whole = first.bytes;
            let mut of_script = 0.0;
            for part in first
                .text
                .split('"')
                .filter(|part| part.starts_with("/assets/"))
            {
                let bytes = self.fetch(part, false)?.bytes;
                whole += bytes;
                if part.starts_with("/assets/page.") {
                    of_script = bytes;
                }
            }
            let refreshed = self.fetch("/", true)?.bytes;
            for (what, bytes, limit) in [
                (
                    "the first page with all that it loads, packed",
                    whole,
                    FIRST_PAGE,
                ),
                ("a refresh of it, packed", refreshed, REFRESHED),
                ("its script, packed", of_script, SCRIPT),
            ] {
                let what = self.server.line(what);
                table.add(Row::one(PART, what, Unit::Bytes, bytes).at_most(limit));
            }
            let times = (0..self.setup.sizes.runs)
                .map(|_| Ok(self.fetch("/", false)?.first_byte))
                .collect::<Result<Vec<f64>>>()?;
            let what = self.server.line("until the first byte of the overview");
            table.add(Row::new(PART, what, Unit::Seconds, times).at_most(FIRST_BYTE));
            Ok(())
        })
    }
}
