//! From what was given to what is meant. Nothing past this folder sees clap, a variable or an option file.

pub mod cli;
mod connection;
mod option_file;
mod server_url;
mod sources;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

pub use sources::{InForce, VARIABLES};

use crate::base::exit::{CONFLICT, Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::shown;
use crate::db::ConnectOptions;
use crate::lock::{LockSpec, MOST_SLOTS, Name, Wait};
use crate::supervise::Job;
use cli::{CheckArgs, ConfigArgs, KillArgs, RunArgs, StatusArgs, on};
use option_file::Outcome;
use sources::Sources;

/// How long `dblock kill` waits for the command's end where nothing says it.
const DEFAULT_WAIT_FOR_END: Wait = Wait::For(Duration::from_secs(30));

/// From SIGTERM to SIGKILL where nothing says it, or a quarter of the TTL where that is less.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(10);

/// Everything that `dblock run` was asked to do.
#[derive(Debug)]
pub struct Run {
    /// The command, and the lock that it runs under.
    pub job: Job,
    /// The exit code when the lock was not acquired in time.
    pub conflict_exit_code: u8,
    /// What to do without a server.
    pub if_unreachable: IfUnreachable,
    /// Where one line of JSON goes at the end; `None`: nowhere.
    pub report: Option<ReportTo>,
}

/// Where the report of a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportTo {
    /// dblock's stdout, which is its command's, too.
    Stdout,
    /// The end of this file.
    File(PathBuf),
}

impl fmt::Display for ReportTo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Everything that `dblock status` was asked to do.
#[derive(Debug)]
pub struct Status {
    /// The locks; none: all that can be seen.
    pub names: Vec<Name>,
    /// The server.
    pub connection: ConnectOptions,
    /// Whether a program reads what is found.
    pub json: bool,
}

/// Everything that `dblock kill` was asked to do.
#[derive(Debug)]
pub struct Kill {
    /// The lock.
    pub name: Name,
    /// Which of its slots; `None`: the one that is held.
    pub slot: Option<u32>,
    /// How long to wait until the command has ended.
    pub wait: Wait,
    /// Whether nobody is ended.
    pub dry_run: bool,
    /// The server.
    pub connection: ConnectOptions,
}

/// Everything that `dblock check` was asked to do.
#[derive(Debug)]
pub struct Check {
    /// The server.
    pub connection: ConnectOptions,
    /// Whether a program reads what is found.
    pub json: bool,
}

impl Run {
    /// How important it is that the lock was not had in time.
    pub fn level_of_skip(&self) -> Level {
        if self.conflict_exit_code == 0 {
            Level::Info
        } else {
            Level::Warning
        }
    }

    /// Whether anybody is told of that, where lines up to this level are `shown`.
    pub fn tells_of_skip(&self, shown: Level) -> bool {
        self.level_of_skip() <= shown || self.report.is_some()
    }
}

/// What to do when no server can be reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnreachable {
    /// Exit with 69.
    Fail,
    /// Run the command without the lock.
    Run,
}

/// Everything that `dblock config` was asked to do, and found.
#[derive(Debug)]
pub struct Config {
    /// Every setting in force, as far as they could be read, in the order of the help.
    pub settings: Vec<InForce>,
    /// The option files, and what became of each.
    pub files: Vec<(Rc<Path>, Outcome)>,
    /// Whether a program reads what is found.
    pub json: bool,
    /// What is wrong.
    pub failure: Option<Failure>,
}

/// Reads the settings of `dblock run`, and where to report to.
///
/// # Errors
/// [`Reason::Usage`] names the option or variable with a malformed value; [`Reason::Configuration`] the place in an option
/// file, or that no server is named.
pub fn run(args: RunArgs) -> Result<(Run, Log), Failure> {
    let given = args.connection.given(&args.verbosity, args.options.given());
    let (mut sources, report) = read_sources(given)?;
    let name = name(&mut sources)?.ok_or_else(|| {
        Failure::new(Reason::Usage, "no name is given; name the lock with --name")
    })?;
    let run = read(&mut sources, name, args.command);
    tell(&sources, report);
    Ok((run?, report))
}

/// Reads the settings of `dblock check`, and where to report to.
///
/// # Errors
/// As [`run`].
pub fn check(args: CheckArgs) -> Result<(Check, Log), Failure> {
    let options = vec![("json", on(args.json))];
    let given = args.connection.given(&args.verbosity, options);
    let (mut sources, report) = read_sources(given)?;
    let connection = connection::read(&mut sources);
    tell(&sources, report);
    let check = Check {
        json: sources.is_on("json"),
        connection: connection?,
    };
    Ok((check, report))
}

/// Reads the settings of `dblock status`, and where to report to.
///
/// # Errors
/// As [`run`].
pub fn status(args: StatusArgs) -> Result<(Status, Log), Failure> {
    let options = vec![("json", on(args.json))];
    let given = args.connection.given(&args.verbosity, options);
    let (mut sources, report) = read_sources(given)?;
    let mut names = Vec::new();
    for name in args.names {
        let name = sources::argument("NAME", name).read(lock_name)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let connection = connection::read(&mut sources);
    tell(&sources, report);
    let status = Status {
        names,
        json: sources.is_on("json"),
        connection: connection?,
    };
    Ok((status, report))
}

/// Reads the settings of `dblock kill`, and where to report to.
///
/// # Errors
/// As [`run`].
pub fn kill(args: KillArgs) -> Result<(Kill, Log), Failure> {
    let options = vec![("dry-run", on(args.dry_run))];
    let given = args.connection.given(&args.verbosity, options);
    let (mut sources, report) = read_sources(given)?;
    let (name, slot) = sources::argument("NAME", args.holder).read(holder)?;
    // Another wait than that of `run`, which an option file may say.
    let wait = match args.wait {
        Some(wait) => sources::argument("--wait", wait).read(value::wait)?,
        None => DEFAULT_WAIT_FOR_END,
    };
    let connection = connection::read(&mut sources);
    tell(&sources, report);
    let kill = Kill {
        name,
        slot,
        wait,
        dry_run: sources.is_on("dry-run"),
        connection: connection?,
    };
    Ok((kill, report))
}

/// Reads the settings of all commands, as far as that goes, and looks whether the files are there that they name.
pub fn config(args: ConfigArgs) -> Config {
    let mut options = args.options.given();
    options.push(("json", on(args.json)));
    let (mut sources, read_sources) =
        Sources::read(args.connection.given(&args.verbosity, options));
    sources.is_lenient = true;
    let report = report(&mut sources);
    // Nothing else depends on the name, and it need not be given.
    let unnamed = Name::parse("unnamed").expect("a name");
    let name = name(&mut sources).ok().flatten().unwrap_or(unnamed);
    let settings = read(&mut sources, name, Vec::new());
    let files = settings
        .as_ref()
        .ok()
        .map(|run| connection::files_can_be_read(&run.job.connection));
    if let Ok(report) = &report {
        tell(&sources, *report);
    }
    sources.tell_os_user();
    sources.tell_unknown_variables();
    let json = sources.is_on("json");
    let failures = [
        read_sources.err(),
        sources.failure,
        report.err(),
        settings.err(),
        files.and_then(Result::err),
    ];
    Config {
        settings: sources.in_force,
        files: sources.files,
        json,
        failure: failures.into_iter().flatten().next(),
    }
}

/// All sources, and where to report to.
fn read_sources(given: cli::Given) -> Result<(Sources, Log), Failure> {
    let (mut sources, outcome) = Sources::read(given);
    outcome?;
    let report = report(&mut sources)?;
    Ok((sources, report))
}

/// Says what the user should know of the settings.
fn tell(sources: &Sources, report: Log) {
    for (level, note) in &sources.notes {
        report.say(*level, note);
    }
}

/// Of quiet and verbose the stronger one counts; a command line cannot have both.
fn report(sources: &mut Sources) -> Result<Log, Failure> {
    let is_quiet = match (sources.strength("quiet"), sources.strength("verbose")) {
        (Some(quiet), Some(verbose)) => quiet <= verbose,
        (quiet, _) => quiet.is_some(),
    };
    let is_quiet = is_quiet && sources.switch("quiet");
    if is_quiet {
        return Ok(Log {
            shown: Level::Error,
        });
    }
    let shown = match sources.value("verbose", value::count, "0")? {
        0 => Level::Warning,
        1 => Level::Info,
        _ => Level::Statement,
    };
    Ok(Log { shown })
}

fn name(sources: &mut Sources) -> Result<Option<Name>, Failure> {
    sources.optional("name", lock_name)
}

fn lock_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|wrong| format!("the name {wrong}"))
}

/// A lock's name, and the number of one of its slots.
fn holder(text: &str) -> Result<(Name, Option<u32>), String> {
    let Some((name, slot)) = text.split_once('#') else {
        return Ok((lock_name(text)?, None));
    };
    let name = lock_name(name)?;
    match slot.parse::<u32>() {
        Ok(number) if number < MOST_SLOTS && slot == number.to_string() => Ok((name, Some(number))),
        _ => Err(format!(
            "behind # stands the number of a slot, 0 to {}",
            MOST_SLOTS - 1
        )),
    }
}

/// Reads the settings of `dblock run`.
fn read(sources: &mut Sources, name: Name, command: Vec<OsString>) -> Result<Run, Failure> {
    let (max_concurrency, slot_names) = slots(sources)?;
    let wait = sources.value("wait", value::wait, "0")?;
    let conflict_exit_code = sources.value(
        "conflict-exit-code",
        value::exit_code,
        &CONFLICT.to_string(),
    )?;
    let timeout = sources.optional("timeout", value::duration)?;
    let ttl = sources.value("ttl", value::ttl, "5m")?;
    let kill_after = kill_after(sources, ttl)?;
    let on_lost = sources.value("on-lock-lost", value::on_lock_lost, "reacquire")?;
    let if_unreachable = sources.value("if-unreachable", value::if_unreachable, "fail")?;
    let allow_unfit_server = sources.switch("allow-unfit-server");
    let hold_at_least = sources.optional("hold-at-least", value::duration)?;
    let report = report_to(sources)?;
    let scrubs = sources.switch("scrub-env");
    let own = VARIABLES.iter().map(|(_, variable)| *variable);
    let scrubbed = own.chain(["MYSQL_PWD"]).filter(|_| scrubs).collect();
    Ok(Run {
        job: Job {
            lock: LockSpec {
                name,
                slots: max_concurrency,
                wait,
                ttl,
                on_lost,
                allow_unfit_server,
            },
            connection: connection::read(sources)?,
            slot_names,
            timeout: timeout.filter(|limit| !limit.is_zero()),
            kill_after,
            hold_at_least: hold_at_least.unwrap_or_default(),
            scrubbed,
            command,
            started: SystemTime::now(),
        },
        conflict_exit_code,
        if_unreachable,
        report,
    })
}

/// How many slots there are, and their names if they have some. Of the two ways to say it the stronger one counts.
fn slots(sources: &mut Sources) -> Result<(u32, Vec<String>), Failure> {
    let (number, names) = (
        sources.strength("max-concurrency"),
        sources.strength("slots"),
    );
    if number.is_some() && number == names {
        sources.refuse(
            "slots",
            "does not go with max-concurrency; give one of them",
        )?;
    }
    let is_pool = match (number, names) {
        (Some(number), Some(names)) => names < number,
        (_, names) => names.is_some(),
    };
    if !is_pool {
        return Ok((
            sources.value("max-concurrency", value::max_concurrency, "1")?,
            Vec::new(),
        ));
    }
    let names = sources
        .optional("slots", value::slot_names)?
        .unwrap_or_default();
    let number = u32::try_from(names.len()).expect("at most a thousand");
    Ok((number, names))
}

fn report_to(sources: &mut Sources) -> Result<Option<ReportTo>, Failure> {
    if let Some(given) = sources
        .given("report")
        .filter(|given| given.value.is_empty())
    {
        return Err(given.wrong("a file is named, or - for stdout"));
    }
    Ok(sources.path("report").map(|path| {
        if path.as_os_str() == "-" {
            ReportTo::Stdout
        } else {
            ReportTo::File(path)
        }
    }))
}

fn kill_after(sources: &mut Sources, ttl: Duration) -> Result<Duration, Failure> {
    let most = ttl / 3;
    let read = |text: &str| match value::duration(text)? {
        span if span <= most => Ok(span),
        span => Err(format!(
            "{} is more than a third of the TTL, which is {}; the command must be gone before the server gives its lock \
             away",
            shown(span),
            shown(ttl)
        )),
    };
    let default = DEFAULT_KILL_AFTER.min(ttl / 4);
    sources.value("kill-after", read, &shown(default).to_string())
}
