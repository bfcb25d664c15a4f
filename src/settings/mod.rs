//! From raw options to typed settings: `cli` defines the options, the other files say what they mean. Nothing past this folder sees clap, a
//! variable or an option file.

pub mod cli;
mod color;
mod connection;
pub mod cron;
mod host;
mod key;
mod libpq;
pub mod metrics;
mod option_file;
mod password;
pub mod queue;
mod run;
mod server_url;
mod sources;
mod support;
mod token;
mod value;

use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

pub use color::Color;
pub use run::{IfUnreachable, ReportTo, Run};
pub use sources::InForce;

use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::db::{ConnectOptions, Kind};
use crate::history::{Filter, WhoseOutput, is_run_id};
use crate::lock::rows::Token;
use crate::lock::{LockSpec, MOST_SLOTS, Name, OnLockLost, Wait};
use crate::schema::{Keep, Tables};
use cli::{CommandLine, Files, Setting};
use option_file::FileStatus;
use sources::{Given, Origin, Precedence, Sources};

/// The common settings of the commands that ask a server.
#[derive(Debug)]
pub struct Common {
    /// The server.
    pub connection: ConnectOptions,
    /// What is logged.
    pub log: Log,
    /// Whether to print JSON. It has no meaning for a command without `--json`.
    pub json: bool,
    /// When its tables have colors. It has no meaning for a command without `--color`.
    pub color: Color,
    /// How often to show the table again; `None`: once. It has no meaning for a command without `--watch`.
    pub watch: Option<Duration>,
}

/// The settings of `dblock kill`.
#[derive(Debug)]
pub struct Kill {
    /// The lock.
    pub name: Name,
    /// The slot; `None`: the one that is held.
    pub slot: Option<u32>,
    /// How long to wait for the end of the command.
    pub wait: Wait,
    /// Whether to kill nobody.
    pub dry_run: bool,
    /// Whether to take a durable lock from its holder without asking it.
    pub force: bool,
}

/// The settings of `dblock config`, and its results.
#[derive(Debug)]
pub struct Config {
    /// Every setting in force, as far as they can be read, in the order of the help.
    pub settings: Vec<InForce>,
    /// The option files, with their statuses.
    pub files: Vec<(Rc<Path>, FileStatus)>,
    /// Whether to print JSON.
    pub json: bool,
    /// What is wrong with the settings.
    pub failure: Option<Failure>,
}

/// The settings of `dblock init`.
#[derive(Debug)]
pub enum Init {
    /// Print the script for a new server.
    Print {
        /// The tables.
        tables: Tables,
        /// The account's user.
        user: String,
        /// How long to keep the history.
        keep: Option<Keep>,
    },
    /// Create the tables, or check them.
    Install {
        /// The server, and what is logged.
        common: Box<Common>,
        /// How long to keep the history.
        keep: Option<Keep>,
        /// Whether to change nothing.
        only_checks: bool,
    },
}

/// The settings of `dblock acquire`.
#[derive(Debug)]
pub struct Acquire {
    /// The lock, with the token's TTL.
    pub lock: LockSpec,
    /// The names of the slots, in order; empty if they have none.
    pub slot_names: Vec<String>,
    /// The owner name: another caller with the same one takes the lock over.
    pub owner: Option<String>,
}

/// The settings of `dblock renew` or `dblock release`.
#[derive(Debug)]
pub struct OfToken {
    /// The token.
    pub token: Token,
    /// The new TTL; `None`: unchanged.
    pub ttl: Option<Duration>,
}

/// Reads the settings of `dblock run`, and what is logged.
///
/// # Errors
/// [`Reason::Usage`] names the option or variable with a malformed value. [`Reason::Configuration`] names the place in an option file, or
/// says that no server is named.
pub fn run(command_line: CommandLine) -> Result<(Run, Log), Failure> {
    let (mut sources, log) = read_sources(command_line.settings)?;
    let named = name(&mut sources)?;
    let token = token::of_run(&sources, named.as_ref())?;
    let of_token = token.as_ref().map(|token| token.name.clone());
    let name = of_token.or(named).ok_or_else(no_name)?;
    let run = run::read(&mut sources, name, token, command_line.arguments);
    sources.log_warnings(log);
    Ok((run?, log))
}

/// Reads the settings of a command that has only the common ones, as `dblock check`.
///
/// # Errors
/// As [`run()`].
pub fn common(command_line: CommandLine) -> Result<Common, Failure> {
    with_common(command_line.settings, |_| Ok(())).map(|((), common)| common)
}

/// Reads the locks of `dblock status`; empty: all that are visible.
///
/// # Errors
/// As [`run()`].
pub fn status(command_line: CommandLine) -> Result<(Vec<Name>, Common), Failure> {
    with_common(command_line.settings, |sources| {
        let mut names = arguments("NAME", command_line.arguments, lock_name)?;
        match (sources.given("key"), names.pop()) {
            (_, Some(name)) if names.is_empty() => names.push(key::keyed(name, 1, sources)?),
            (Some(key), _) if sources.is_from_command_line("key") => {
                return Err(key.wrong("it is the key of one lock: name that one"));
            }
            (_, name) => names.extend(name),
        }
        Ok(names)
    })
}

/// Reads the settings of `dblock acquire`.
///
/// # Errors
/// As [`run()`].
pub fn acquire(command_line: CommandLine) -> Result<(Acquire, Common), Failure> {
    with_common(command_line.settings, |sources| {
        let name = required_name(sources)?;
        let (slots, slot_names) = run::slots(sources)?;
        let lock = LockSpec {
            name,
            slots,
            wait: own(sources, &cli::acquire::WAIT, value::wait)?,
            ttl: own(sources, &cli::acquire::TTL, value::token_ttl)?,
            on_lost: OnLockLost::Terminate,
            allow_unfit_server: false,
        };
        Ok(Acquire {
            lock,
            slot_names,
            owner: sources.optional("owner", value::owner)?,
        })
    })
}

/// Reads the settings of `dblock renew` and `dblock release`.
///
/// # Errors
/// As [`run()`].
pub fn of_token(mut command_line: CommandLine) -> Result<(OfToken, Common), Failure> {
    with_common(command_line.settings, |sources| {
        Ok(OfToken {
            token: token::read(command_line.arguments.pop())?,
            ttl: own_optional(sources, &cli::renew::TTL, value::token_ttl)?,
        })
    })
}

/// The default account in `init --print`.
const ACCOUNT: &str = "dblock";

/// Reads the settings of `dblock init`.
///
/// # Errors
/// As [`run()`].
pub fn init(command_line: CommandLine) -> Result<Init, Failure> {
    let (mut sources, log) = read_sources(command_line.settings)?;
    // An option file's keep is for an init that changes something.
    let only_checks = sources.is_on_rather_than("check", "keep");
    let keep = sources.optional("keep", value::keep)?;
    let keep = keep.filter(|_| !only_checks);
    Ok(if sources.is_on_rather_than("print", "check") {
        Init::Print {
            tables: tables_to_print(&mut sources)?,
            user: sources
                .optional("user", value::any)?
                .unwrap_or_else(|| ACCOUNT.to_owned()),
            keep,
        }
    } else {
        Init::Install {
            keep,
            only_checks,
            common: Box::new(read_common(&mut sources, log)?),
        }
    })
}

/// The tables that are meant, without a server that has them.
fn tables_to_print(sources: &mut Sources) -> Result<Tables, Failure> {
    let kind = sources.kind()?;
    let name = match kind {
        Kind::MySql => sources.value("database", value::database)?,
        Kind::Postgres => sources.value("schema", value::schema)?,
    };
    Ok(Tables::new(kind, &name))
}

/// Reads which runs `dblock history` shows.
///
/// # Errors
/// As [`run()`].
pub fn history(command_line: CommandLine) -> Result<(Filter, Common), Failure> {
    with_common(command_line.settings, |sources| {
        Ok(Filter {
            names: arguments("NAME", command_line.arguments, lock_name)?,
            only_failed: sources.is_on("failed"),
            since: sources.optional("since", value::time_bound)?,
            until: sources.optional("until", value::time_bound)?,
            host: sources.optional("on", value::host_of_runs)?,
            result: sources.optional("result", value::result)?,
            run: sources.optional("run", value::run)?,
            after: sources.optional("after", value::cursor)?,
            limit: sources.value("limit", value::limit_of_runs)?,
        })
    })
}

/// Reads how much `dblock audit` shows at most; `None`: all.
///
/// # Errors
/// As [`run()`].
pub fn audit(command_line: CommandLine) -> Result<(Option<usize>, Common), Failure> {
    with_common(command_line.settings, |sources| {
        own(sources, &cli::audit::LIMIT, value::limit_of_entries)
    })
}

/// Reads whose output `dblock output` prints.
///
/// # Errors
/// As [`run()`].
pub fn kept_output(mut command_line: CommandLine) -> Result<(WhoseOutput, Common), Failure> {
    with_common(command_line.settings, |_| {
        let whose = command_line.arguments.pop();
        argument("RUN|NAME|QUEUE#ID", whose, whose_output)
    })
}

/// Reads the settings of `dblock kill`.
///
/// # Errors
/// As [`run()`].
pub fn kill(mut command_line: CommandLine) -> Result<(Kill, Common), Failure> {
    with_common(command_line.settings, |sources| {
        let holder = command_line.arguments.pop();
        let (name, slot) = argument("NAME", holder, slot_of_lock)?;
        Ok(Kill {
            name: key::keyed(name, slot.map_or(1, |slot| slot + 1), sources)?,
            slot,
            wait: own(sources, &cli::kill::WAIT, value::wait)?,
            dry_run: sources.is_on("dry-run"),
            force: sources.is_on("force"),
        })
    })
}

/// Reads the settings of all commands, as far as possible, and checks that the files in them can be read.
pub fn config(command_line: CommandLine) -> Config {
    let (mut sources, read) = Sources::read(command_line.settings);
    sources.is_lenient = true;
    let log = log(&mut sources);
    let named = name(&mut sources).ok().flatten();
    let token = token::of_config(&mut sources, named.as_ref());
    let token = token.ok().flatten();
    // No other setting depends on the name, and it may be missing.
    let unnamed = Name::parse("unnamed").expect("a name");
    let name = named.unwrap_or(unnamed);
    let run = run::read(&mut sources, name, token, command_line.arguments);
    let files = run
        .as_ref()
        .ok()
        .map(|run| connection::check_files(&run.job.connection));
    if let Ok(log) = &log {
        sources.log_warnings(*log);
    }
    sources.record_os_user();
    sources.record_sendmail();
    sources.record_unknown_variables();
    let json = sources.is_on("json");
    let failures = [
        read.err(),
        sources.failure,
        log.err(),
        run.err(),
        files.and_then(Result::err),
    ];
    Config {
        settings: sources.in_force,
        files: sources.files,
        json,
        failure: failures.into_iter().flatten().next(),
    }
}

/// The value of a setting of one subcommand, or its default.
fn own<T>(
    sources: &Sources,
    setting: &Setting,
    reader: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let given = own_optional(sources, setting, &reader)?;
    let default = || reader(setting.default.expect("it has a default"));
    Ok(given.unwrap_or_else(|| default().expect("a default is well-formed")))
}

/// The value of a setting of one subcommand, if it is given. Settings of this kind are not read from option files, as those may have
/// another subcommand's setting of the same name.
fn own_optional<T>(
    sources: &Sources,
    setting: &Setting,
    reader: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let given = match setting.files {
        Files::Never | Files::No => sources.source(Precedence::CommandLine).get(setting.name),
        Files::Own | Files::All => sources.given(setting.name),
    };
    given.map(|given| given.read(reader)).transpose()
}

/// Reads the settings of a command that asks a server: by `read` those of this command alone, and then the common ones.
///
/// # Errors
/// As [`run()`].
fn with_common<T>(
    settings: cli::Values,
    read: impl FnOnce(&mut Sources) -> Result<T, Failure>,
) -> Result<(T, Common), Failure> {
    let (mut sources, log) = read_sources(settings)?;
    let own = read(&mut sources)?;
    Ok((own, read_common(&mut sources, log)?))
}

fn read_common(sources: &mut Sources, log: Log) -> Result<Common, Failure> {
    let watch = own_optional(sources, &cli::output::WATCH, value::interval)?;
    let connection = connection(sources, log)?;
    if watch.is_some() {
        password::check_that_it_stays(&connection.password, "--watch", "more than once")?;
    }
    Ok(Common {
        json: sources.is_on("json"),
        color: sources.value("color", Color::read)?,
        connection,
        log,
        watch,
    })
}

/// All sources, and what is logged.
fn read_sources(settings: cli::Values) -> Result<(Sources, Log), Failure> {
    let (mut sources, outcome) = Sources::read(settings);
    outcome?;
    let log = log(&mut sources)?;
    Ok((sources, log))
}

/// Reads how to connect to the server, and logs warnings about the settings.
fn connection(sources: &mut Sources, log: Log) -> Result<ConnectOptions, Failure> {
    let connection = connection::read(sources);
    sources.log_warnings(log);
    connection
}

/// The stronger of quiet and verbose counts; a command line cannot have both.
fn log(sources: &mut Sources) -> Result<Log, Failure> {
    let quiet = sources.precedence("quiet");
    if quiet.is_some() && quiet >= sources.precedence("verbose") && sources.switch("quiet") {
        return Ok(Log {
            shown: Level::Error,
        });
    }
    let count = |text: &str| value::number(text, 0, u8::MAX);
    let shown = match sources.value_or("verbose", count, "0")? {
        0 => Level::Warning,
        1 => Level::Info,
        _ => Level::Statement,
    };
    Ok(Log { shown })
}

fn required_name(sources: &mut Sources) -> Result<Name, Failure> {
    name(sources)?.ok_or_else(no_name)
}

fn no_name() -> Failure {
    Failure::new(Reason::Usage, "no name is given; name the lock with --name")
}

fn name(sources: &mut Sources) -> Result<Option<Name>, Failure> {
    sources.optional("name", lock_name)
}

/// The meaning of an argument without an option, which has this name.
fn argument<T>(
    name: &str,
    value: Option<OsString>,
    reader: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    Given::new(name, value.unwrap_or_default(), Origin::Argument).read(reader)
}

/// The meanings of several, each once.
fn arguments<T: PartialEq>(
    name: &str,
    values: Vec<OsString>,
    reader: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for value in values {
        let one = argument(name, Some(value), &reader)?;
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}

fn lock_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|wrong| format!("the name {wrong}"))
}

/// A run, or a name that looks like one; a name; or a queue and the number of a job.
fn whose_output(text: &str) -> Result<WhoseOutput, String> {
    if is_run_id(text) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(WhoseOutput::Run(text.to_owned()));
    }
    let Some((queue, job)) = text.split_once('#') else {
        return Ok(WhoseOutput::Name(lock_name(text)?.to_string()));
    };
    let queue = lock_name(queue)?.to_string();
    Ok(WhoseOutput::Job(queue, queue::job_id(job)?))
}

/// A lock's name, and optionally the number of a slot.
fn slot_of_lock(text: &str) -> Result<(Name, Option<u32>), String> {
    let Some((name, slot)) = text.split_once('#') else {
        return Ok((lock_name(text)?, None));
    };
    let name = lock_name(name)?;
    match slot.parse::<u32>() {
        Ok(number) if number < MOST_SLOTS && slot == number.to_string() => Ok((name, Some(number))),
        _ => Err(format!(
            "after # comes the number of a slot, 0 to {}",
            MOST_SLOTS - 1
        )),
    }
}
