//! The daemons of a crontab on servers that put each commit on the disk: how late ticks start when many are due at one second on many
//! hosts, what daemons ask and take, idle and for a day's ticks, and how soon the tick of a host that is killed runs on another one.

use std::fmt::Write;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Result;
use super::private_server::Private;
use super::processes::{
    Callers, Memory, Records, both, children, now, until, until_lines, until_server_says,
};
use super::setup::{ACCOUNT, OfCron, Server, Setup};
use super::table::{Row, Table, Unit};

pub const PART: &str = "cron";

/// Seconds from a tick to the moment that it is taken, in the median.
const TAKEN: f64 = 0.1;

/// Statements a minute of an idle daemon: a look each second, and a renewal every ten.
const STATEMENTS: f64 = 70.0;

/// What the kernel counts processor time in, a second.
const TICKS_A_SECOND: f64 = 100.0;

/// The TTL of the job whose host is killed, in seconds.
const TTL: u32 = 10;

/// The second process of a daemon.
const SCHEDULER: &str = "dblock-cron";

/// Starts Debian's cron where it finds one crontab only.
const DEBIANS: &str = "\
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/cron.d
mount --bind /dev/null /etc/crontab
mount -t tmpfs tmpfs /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
install -m 600 \"$1\" /var/spool/cron/crontabs/root
exec cron -f -L 0";

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let cron = debians(setup)?;
    for private in Private::both(setup)? {
        let mut fleet = Fleet::start(setup, &private.server)?;
        fleet.alone(cron.as_ref(), table)?;
        fleet.grow()?;
        fleet.idle(table)?;
        fleet.lateness(table)?;
        fleet.kills(table)?;
    }
    if let Some(cron) = cron {
        table.add(cron);
    }
    Ok(())
}

/// How late Debian's cron starts the commands of a full minute. It has directories of its own, and no other crontab.
fn debians(setup: &Setup) -> Result<Option<Row>> {
    let OfCron {
        jobs, with_debians, ..
    } = setup.sizes.cron;
    if !with_debians {
        return Ok(None);
    }
    let (crontab, records) = (
        format!("{}/crontab", setup.folder),
        format!("{}/cron", setup.folder),
    );
    let [job, file] = setup.job(&records);
    fs::write(&crontab, format!("* * * * * {job} {file} 0\n").repeat(jobs))?;
    let mut cron = setup.other("unshare");
    cron.args(["--mount", "sh", "-ec", DEBIANS, "sh", &crontab]);
    let mut callers = Callers::default();
    callers.add(cron)?;
    until_lines("Debian's cron has run its jobs", &records, 2 * jobs)?;
    drop(callers);
    let since_epoch = since_epoch()?;
    let lateness = |start: &Duration| (*start + since_epoch).as_secs_f64() % 60.0;
    let starts = Records::read(&records, jobs)?.starts;
    let what = format!("{jobs} ticks at one minute, Debian's cron: until the command starts");
    Ok(Some(Row::new(
        PART,
        what,
        Unit::Seconds,
        starts.iter().map(lateness).collect(),
    )))
}

/// Daemons, each as on a host of its own.
struct Fleet<'a> {
    setup: &'a Setup,
    server: &'a Server,
    session: Conn,
    callers: Callers,
    crontab: String,
    /// Where the jobs say when they began.
    records: String,
    /// How many were started.
    started: usize,
}

impl<'a> Fleet<'a> {
    fn start(setup: &'a Setup, server: &'a Server) -> Result<Self> {
        let crontab = format!("{}/crontab-{}", setup.folder, server.name);
        let records = format!("{}/cron-{}", setup.folder, server.name);
        let [job, file] = setup.job(&records);
        let mut lines = "CRON_TZ=UTC\n".to_owned();
        for number in 0..setup.sizes.cron.jobs {
            let _ = writeln!(lines, "#: late{number}\n0 0 1 1 * {job} {file} 0");
        }
        fs::write(&crontab, lines)?;
        let mut fleet = Self {
            setup,
            server,
            session: server.session()?,
            callers: Callers::default(),
            crontab,
            records,
            started: 0,
        };
        fleet.add()?;
        fleet.until_ready()?;
        Ok(fleet)
    }

    /// Until there are all of them.
    fn grow(&mut self) -> Result<()> {
        for _ in self.started..self.setup.sizes.cron.hosts {
            self.add()?;
        }
        self.until_ready()
    }

    fn add(&mut self) -> Result<()> {
        let url = self.server.url(ACCOUNT);
        let mut daemon = self.setup.program(&self.setup.dblock, &url);
        let log = fs::File::create(self.log(self.started))?;
        daemon
            .args(["cron", "run", "-v", &self.crontab])
            .stdout(log.try_clone()?)
            .stderr(log);
        self.started += 1;
        self.callers.add(daemon)
    }

    fn log(&self, number: usize) -> String {
        format!("{}-{number}.log", self.crontab)
    }

    fn until_ready(&self) -> Result<()> {
        until("all daemons are ready", || {
            let is_ready = |number| {
                let log = fs::read_to_string(self.log(number)).unwrap_or_default();
                log.contains("ready: ")
            };
            Ok((0..self.started).all(is_ready))
        })
    }

    fn name(&self, what: &str) -> String {
        self.server.line(what)
    }

    /// What one daemon takes for the ticks of a day, if each minute has one.
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    fn alone(&mut self, cron: Option<&Row>, table: &mut Table) -> Result<()> {
        let daemon = self.callers.0.first().ok_or("no daemon")?.id();
        let both = both(daemon, SCHEDULER)?;
        let (mut ticks, mut lateness) = (0, Vec::new());
        let before = processor_time_of_all(&both)?;
        while ticks < self.setup.sizes.cron.day {
            let (_, started) = self.round()?;
            ticks += started.len();
            lateness.extend(started);
        }
        let used = processor_time_of_all(&both)? - before;
        let what = self.name("processor time of a daemon for each tick, with that of its job");
        table.add(Row::one(PART, what, Unit::Seconds, used / ticks as f64));
        let memory = Memory::of(both[0])?.private + Memory::of(both[1])?.private;
        let jobs = self.setup.sizes.cron.jobs;
        let what = self.name(&format!(
            "{jobs} ticks at one second on one daemon: until the command starts"
        ));
        let row = Row::new(PART, what, Unit::Seconds, lateness);
        table.add(match cron {
            Some(cron) => row.against(cron, "Debian's cron"),
            None => row,
        });
        let what = self.name(&format!(
            "its private memory after {ticks} ticks, both processes"
        ));
        table.add(Row::one(PART, what, Unit::Bytes, memory));
        Ok(())
    }

    /// All jobs are due in some seconds, and run; how long after that each was taken, and began, by its own record.
    fn round(&mut self) -> Result<(Vec<f64>, Vec<f64>)> {
        let jobs = self.setup.sizes.cron.jobs;
        let _ = fs::remove_file(&self.records);
        self.session.query_drop(
            "UPDATE dblock.dblock_cron_jobs SET next_at = UTC_TIMESTAMP() + INTERVAL 6 SECOND, changed_at = UTC_TIMESTAMP(6) \
             WHERE name LIKE 'late%'",
        )?;
        self.until_count("dblock_runs WHERE outcome = 'ran'", jobs)?;
        self.until_count("dblock_cron_ticks", 0)?;
        let taken: Vec<i64> = self.session.query(
            "SELECT TIMESTAMPDIFF(MICROSECOND, tick, requested_at) FROM dblock.dblock_runs WHERE outcome = 'ran'",
        )?;
        let tick: Option<u64> = self.session.query_first(
            "SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', MAX(tick)) FROM dblock.dblock_runs",
        )?;
        self.session.query_drop("DELETE FROM dblock.dblock_runs")?;
        let tick = Duration::from_secs(tick.ok_or("nothing ran")?);
        let since_epoch = since_epoch()?;
        let starts = Records::read(&self.records, jobs)?.starts;
        let started = starts
            .iter()
            .map(|start| (*start + since_epoch).saturating_sub(tick).as_secs_f64());
        Ok((taken.into_iter().map(seconds).collect(), started.collect()))
    }

    /// What daemons with nothing to do ask of the server, and take of their hosts.
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    fn idle(&mut self, table: &mut Table) -> Result<()> {
        let hosts = self.callers.0.len() as f64;
        let daemons: Vec<[u32; 2]> = self
            .callers
            .0
            .iter()
            .map(|caller| both(caller.id(), SCHEDULER))
            .collect::<Result<_>>()?;
        let used = || {
            daemons
                .iter()
                .flatten()
                .map(|pid| processor_time(*pid))
                .sum::<Result<f64>>()
        };
        let counted = Duration::from_secs(self.setup.sizes.counted);
        let (asked, (seconds, used)) = Server::statements_beside(&mut self.session, || {
            let (begun, before) = (Instant::now(), used()?);
            sleep(counted);
            Ok((begun.elapsed().as_secs_f64(), used()? - before))
        })?;
        let what = self.name("statements a minute of each idle daemon of a crontab");
        let asked = (asked * 60.0 / seconds / hosts).round();
        table.add(Row::one(PART, what, Unit::Count, asked).at_most(STATEMENTS));
        let what = self.name("the part of a processor that it takes, both processes");
        table.add(Row::one(PART, what, Unit::Share, used / seconds / hosts));
        let memory = daemons
            .iter()
            .flatten()
            .map(|pid| -> Result<f64> { Ok(Memory::of(*pid)?.private) })
            .sum::<Result<f64>>()?;
        let what = self.name("its private memory, both processes");
        table.add(Row::one(PART, what, Unit::Bytes, memory / hosts));
        Ok(())
    }

    /// How late ticks are taken, and their commands start.
    fn lateness(&mut self, table: &mut Table) -> Result<()> {
        let jobs = self.setup.sizes.cron.jobs;
        let (mut taken, mut started) = (Vec::new(), Vec::new());
        for _ in 0..self.setup.sizes.cron.rounds {
            let (round_taken, round_started) = self.round()?;
            taken.extend(round_taken);
            started.extend(round_started);
        }
        let hosts = self.callers.0.len();
        let what = self.name(&format!(
            "{jobs} ticks at one second on {hosts} daemons: from the tick until it is taken"
        ));
        let taken = Row::new(PART, what, Unit::Seconds, taken).at_most(TAKEN);
        let for_most = |what: &str, of: &Row| {
            let what = self.name(what);
            Row::one(PART, what, Unit::Seconds, of.quantile(0.95))
        };
        let late = for_most("and for 95 of 100", &taken);
        table.add(taken);
        table.add(late);
        let what = self.name("until its command starts, with all of them on this machine");
        let started = Row::new(PART, what, Unit::Seconds, started);
        let late = for_most("and for 95 of 100 of these", &started);
        table.add(started);
        table.add(late);
        Ok(())
    }

    /// From the SIGKILL of a daemon, and of all processes of its host, to the start of the next attempt elsewhere.
    fn kills(&mut self, table: &mut Table) -> Result<()> {
        self.add_killed()?;
        for (is_host, what) in [
            (
                false,
                "from the SIGKILL of a daemon to the start of its tick on another host".to_owned(),
            ),
            (
                true,
                format!("from that of all its processes, as when its host dies, with --ttl {TTL}s"),
            ),
        ] {
            let samples = (0..self.setup.sizes.cron.kills).map(|_| self.kill(is_host));
            let samples = samples.collect::<Result<Vec<f64>>>()?;
            let row = Row::new(PART, self.name(&what), Unit::Seconds, samples);
            table.add(row.at_most(f64::from(TTL) + 2.0));
        }
        Ok(())
    }

    /// All daemons read that there is one more job. Its TTL is short, so from now on they say more often that they are alive.
    fn add_killed(&mut self) -> Result<()> {
        let mut lines = fs::read_to_string(&self.crontab)?;
        let _ = writeln!(
            lines,
            "#: killed --ttl {TTL}s\n0 0 1 1 * test $DBLOCK_ATTEMPT = 2 || exec sleep 600"
        );
        fs::write(&self.crontab, lines)?;
        let daemons: Vec<u32> = self.callers.0.iter().map(std::process::Child::id).collect();
        signal_all(&daemons, Signal::SIGHUP)?;
        let jobs = self.setup.sizes.cron.jobs + 1;
        self.until_count(
            &format!("dblock_cron_daemons WHERE jobs = {jobs} AND gone_at IS NULL"),
            daemons.len(),
        )?;
        self.until_count("dblock_cron_jobs WHERE name = 'killed'", 1)
    }

    fn kill(&mut self, is_host: bool) -> Result<f64> {
        self.session.query_drop(
            "UPDATE dblock.dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6) WHERE name = 'killed'",
        )?;
        // The history has the start of a command only when that has ended.
        self.until_count("dblock_cron_ticks WHERE started_at IS NOT NULL", 1)?;
        let daemon: Option<u32> = self.session.query_first(
            "SELECT d.pid FROM dblock.dblock_cron_ticks t JOIN dblock.dblock_cron_daemons d ON d.daemon = t.daemon",
        )?;
        let daemon = daemon.ok_or("nobody has the tick")?;
        let mut killed = vec![daemon];
        if is_host {
            let mut at = 0;
            while let Some(pid) = killed.get(at).copied() {
                killed.extend(children(pid)?);
                at += 1;
            }
            signal_all(&killed, Signal::SIGSTOP)?;
        }
        let at: Option<String> = self.session.query_first("SELECT UTC_TIMESTAMP(6)")?;
        signal_all(&killed, Signal::SIGKILL)?;
        self.until_count(
            "dblock_runs WHERE attempt = 2 AND started_at IS NOT NULL",
            1,
        )?;
        let after: Option<i64> = self.session.exec_first(
            "SELECT TIMESTAMPDIFF(MICROSECOND, ?, started_at) FROM dblock.dblock_runs WHERE attempt = 2",
            (at,),
        )?;
        self.until_count("dblock_cron_ticks", 0)?;
        self.session.query_drop("DELETE FROM dblock.dblock_runs")?;
        for caller in &mut self.callers.0 {
            if caller.id() == daemon {
                caller.wait()?;
            }
        }
        self.callers.0.retain(|caller| caller.id() != daemon);
        self.add()?;
        self.until_ready()?;
        Ok(seconds(after.ok_or("no second attempt")?))
    }

    fn until_count(&mut self, what: &str, count: usize) -> Result<()> {
        let query = format!("SELECT COUNT(*) FROM dblock.{what}");
        let session = &mut self.session;
        until_server_says(what, || {
            let found: Option<usize> = session.query_first(&query)?;
            Ok(found == Some(count))
        })
    }
}

/// From the epoch to the zero of the records' clock.
fn since_epoch() -> Result<Duration> {
    Ok(SystemTime::now()
        .duration_since(UNIX_EPOCH)?
        .saturating_sub(now()?))
}

#[allow(clippy::cast_precision_loss, reason = "some minutes")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn signal_all(pids: &[u32], signal: Signal) -> Result<()> {
    for pid in pids {
        kill(Pid::from_raw(pid.cast_signed()), signal)?;
    }
    Ok(())
}

/// Seconds of a processor that processes have taken, with those that they started and waited for.
fn processor_time_of_all(pids: &[u32]) -> Result<f64> {
    pids.iter().map(|pid| times(*pid, 4)).sum()
}

/// Seconds of a processor that a process has taken.
fn processor_time(pid: u32) -> Result<f64> {
    times(pid, 2)
}

/// The sum of the first times that the kernel counts for a process, in seconds: user, system, and both of what it has waited for.
fn times(pid: u32, first: usize) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("a strange stat")?;
    let fields = fields.split(' ').skip(11).take(first);
    let ticks = fields
        .map(|field| -> Result<f64> { Ok(field.parse()?) })
        .sum::<Result<f64>>()?;
    Ok(ticks / TICKS_A_SECOND)
}
