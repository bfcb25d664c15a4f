//! The meaning of `dblock run`'s options. `dblock config` reads them, too.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::key::keyed;
use super::sources::{Sources, TOKEN};
use super::{cli, connection, value};
use crate::base::exit::Failure;
use crate::base::hooks::Hooks;
use crate::base::log::Level;
use crate::base::text::shown;
use crate::cron::{Once, Schedule, Zone};
use crate::db::Kind;
use crate::history::size_to_keep;
use crate::lock::rows::Token;
use crate::lock::{LockSpec, Name, limits};
use crate::run::{Job, TableUse};

/// The settings of `dblock run`.
#[derive(Debug)]
pub struct Run {
    /// The command, and the lock that it runs under.
    pub job: Job,
    /// The exit code when the lock was not acquired in time.
    pub conflict_exit_code: u8,
    /// What to do without a server.
    pub if_unreachable: IfUnreachable,
    /// Where to write one line of JSON at the end; `None`: nowhere.
    pub report: Option<ReportTo>,
    /// What to run at the end.
    pub hooks: Hooks,
}

/// The destination of a run's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportTo {
    /// dblock's stdout, which the command shares.
    Stdout,
    /// Appended to this file.
    File(PathBuf),
}

/// What to do when no server can be reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnreachable {
    /// Exit with 69.
    Fail,
    /// Run the command without the lock.
    Run,
}

impl IfUnreachable {
    fn read(text: &str) -> Result<Self, String> {
        value::one_of(&[("fail", Self::Fail), ("run", Self::Run)], text)
    }
}

impl fmt::Display for ReportTo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Run {
    /// The level at which a skip is reported.
    pub fn level_of_skip(&self) -> Level {
        if self.conflict_exit_code == 0 {
            Level::Info
        } else {
            Level::Warning
        }
    }

    /// Whether a line or a report shows a skip, if lines up to the level `shown` are shown.
    pub fn reports_skip(&self, shown: Level) -> bool {
        self.level_of_skip() <= shown || self.report.is_some()
    }
}

/// Reads all settings of `dblock run`.
///
/// # Errors
/// A value is wrong, unless reading continues after errors; or no server is named.
pub fn read(
    sources: &mut Sources,
    name: Name,
    token: Option<Token>,
    command: Vec<OsString>,
) -> Result<Run, Failure> {
    let (max_concurrency, slot_names) = slots(sources)?;
    let name = keyed(name, max_concurrency, sources)?;
    let wait = sources.value("wait", value::wait)?;
    let conflict_exit_code = sources.value("conflict-exit-code", value::exit_code)?;
    let timeout = sources.optional("timeout", value::duration)?;
    let ttl = sources.value("ttl", value::ttl)?;
    let token_ttl = sources.is_from_command_line("ttl").then_some(ttl);
    let kill_after = kill_after(sources, ttl)?;
    let on_lost = sources.value("on-lock-lost", value::on_lock_lost)?;
    let if_unreachable = sources.value("if-unreachable", IfUnreachable::read)?;
    let allow_unfit_server = sources.switch("allow-unfit-server");
    let hold_at_least = sources.optional("hold-at-least", value::duration)?;
    let report = report_to(sources)?;
    let hooks = hooks(sources)?;
    let durable = sources.switch("durable");
    let once = once(sources, &name)?;
    let keep_output = sources.optional("keep-output", size_to_keep)?;
    let needs_tables = keep_output.is_some()
        || durable
        || token.is_some()
        || once.is_some()
        || sources.switch("record");
    let scrubbed = scrubbed(sources);
    let connection = connection::read(sources)?;
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
            release_within: connection.connect_timeout,
            connection,
            slot_names,
            timeout: timeout.filter(|limit| !limit.is_zero()),
            kill_after,
            hold_at_least: hold_at_least.unwrap_or_default(),
            keep_output,
            scrubbed,
            command,
            started: SystemTime::now(),
            tables: needs_tables.then_some(TableUse {
                durable,
                token,
                token_ttl,
                once,
            }),
        },
        conflict_exit_code,
        if_unreachable,
        report,
        hooks,
    })
}

/// The variables that commands do not get.
pub fn scrubbed(sources: &mut Sources) -> Vec<&'static str> {
    if sources.switch("scrub-env") {
        variables_of_the_server(sources)
    } else {
        Vec::new()
    }
}

/// The variables with the server, the password and a script's token. Those of libpq are other programs', too, but for the password.
pub fn variables_of_the_server(sources: &Sources) -> Vec<&'static str> {
    let own = cli::variables().map(|(_, variable)| variable);
    let own = own.filter(|variable| variable.starts_with("DBLOCK_"));
    let is_postgres = matches!(sources.kind(), Ok(Kind::Postgres));
    own.chain(["MYSQL_PWD", TOKEN])
        .chain(is_postgres.then_some("PGPASSWORD"))
        .collect()
}

/// The number of slots, and their names if they have some. If both options are given, the stronger source counts.
///
/// # Errors
/// [`Reason`](crate::base::exit::Reason)`::Usage`.
pub fn slots(sources: &mut Sources) -> Result<(u32, Vec<String>), Failure> {
    let number = sources.precedence("max-concurrency");
    let names = sources.precedence("slots");
    sources.refuse_both("slots", "max-concurrency")?;
    if names <= number {
        let number = sources.value("max-concurrency", value::max_concurrency)?;
        return Ok((number, Vec::new()));
    }
    let names = sources.optional("slots", value::slot_names)?;
    let names = names.unwrap_or_default();
    let number = u32::try_from(names.len()).expect("at most a thousand");
    Ok((number, names))
}

/// When to skip the run. If both options are given, the stronger source counts.
fn once(sources: &mut Sources, name: &Name) -> Result<Option<Once>, Failure> {
    let at = sources.precedence("once-at");
    let per = sources.precedence("once-per");
    sources.refuse_both("once-per", "once-at")?;
    let zone = sources.optional("time-zone", Zone::parse)?;
    if at.is_none()
        && sources.is_from_command_line("time-zone")
        && let Some(given) = sources.given("time-zone")
    {
        let failure = given.wrong("it is that of --once-at, which is not given");
        sources.stop_unless_lenient(failure)?;
    }
    if at > per {
        let zone = if let Some(zone) = zone.or_else(Zone::of_host) {
            zone
        } else {
            sources.refuse(
                "once-at",
                "needs --time-zone: that of this host has no IANA name",
            )?;
            Zone::UTC
        };
        sources.record(
            "time-zone of once-at",
            Some(zone.name()),
            "time-zone, or the host",
        );
        let read = |text: &str| Schedule::parse(text, zone.clone(), &name.to_string());
        return Ok(sources.optional("once-at", read)?.map(Once::At));
    }
    let per = sources.optional("once-per", value::longer_than_nothing)?;
    Ok(per.map(Once::Per))
}

/// What to run at the end of a run.
///
/// # Errors
/// It is not UTF-8.
pub fn hooks(sources: &mut Sources) -> Result<Hooks, Failure> {
    let mut command = |option| {
        let command = sources.optional(option, |text| Ok(text.to_owned()))?;
        Ok(command.filter(|command| !command.is_empty()))
    };
    Ok(Hooks {
        on_failure: command("on-failure")?,
        on_end: command("on-end")?,
    })
}

fn report_to(sources: &mut Sources) -> Result<Option<ReportTo>, Failure> {
    if let Some(given) = sources
        .given("report")
        .filter(|given| given.value.is_empty())
    {
        let failure = given.wrong("name a file, or - for stdout");
        sources.stop_unless_lenient(failure)?;
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
    let default = limits::default_kill_after(ttl);
    let read = |text: &str| limits::kill_after(text, ttl);
    sources.value_or("kill-after", read, &shown(default).to_string())
}
