//! The command line as clap sees it: structs and help texts, no logic. Values stay bytes until `settings` reads them.
#![expect(
    clippy::doc_markdown,
    rustdoc::bare_urls,
    reason = "these comments are the help texts, shown as they stand"
)]

use std::ffi::OsString;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use super::option_file::{Places, expanded};

/// flock(1) for a fleet: run a command under a lock that excludes on every host with the same MySQL or MariaDB server.
#[derive(Debug, Parser)]
#[command(name = "dblock", version, arg_required_else_help = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock, and exit as it exited
    Run(RunArgs),
    /// Tell who holds a lock, who waits for it, and for how long
    Status(StatusArgs),
    /// End the holder of a lock, and its command
    Kill(KillArgs),
    /// Tell whether a server is fit to lock on, and how fast it is
    Check(CheckArgs),
    /// Print every setting in force and where it comes from
    Config(ConfigArgs),
}

/// `dblock status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub struct StatusArgs {
    /// The locks; without any all that the server lets this account see
    #[arg(value_name = "NAME")]
    pub names: Vec<OsString>,

    /// Print JSON in place of the table
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `dblock kill`.
#[derive(Debug, Args)]
#[command(after_help = KILL_HELP, override_usage = "dblock kill [OPTIONS] <NAME>[#<SLOT>]")]
pub struct KillArgs {
    /// The lock, and which of its slots where several are held: backup#2
    #[arg(value_name = "NAME[#SLOT]")]
    pub holder: OsString,

    /// How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit [default: 30s]
    #[arg(short, long, value_name = "DURATION", allow_negative_numbers = true)]
    pub wait: Option<OsString>,

    /// Tell who would be ended, and end nobody
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `dblock check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArgs {
    /// Print JSON in place of the table
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `dblock config`.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_HELP, override_usage = "dblock config [OPTIONS] [--] [COMMAND] [ARG]...")]
pub struct ConfigArgs {
    /// Print JSON in place of the table
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub options: RunOptions,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// What would be run; it is not
    #[arg(value_name = "COMMAND", num_args = 0.., trailing_var_arg = true, help_heading = None)]
    pub command: Vec<OsString>,
}

/// `dblock run`.
#[derive(Debug, Args)]
#[command(
    after_help = RUN_HELP,
    override_usage = "dblock run [OPTIONS] --name <NAME> [--] <COMMAND> [ARG]..."
)]
pub struct RunArgs {
    #[command(flatten)]
    pub options: RunOptions,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true, help_heading = None)]
    pub command: Vec<OsString>,
}

/// How a command is run.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The lock. The same name excludes across every host that talks to the same server
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<OsString>,

    /// N holders at once, 1 to 1000, instead of one [default: 1]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    pub max_concurrency: Option<OsString>,

    /// A pool: as many holders as names, each told by DBLOCK_SLOT_NAME which one it has
    #[arg(long, value_name = "A,B,C", conflicts_with = "max_concurrency")]
    pub slots: Option<OsString>,

    /// How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]
    #[arg(short, long, value_name = "DURATION", allow_negative_numbers = true)]
    pub wait: Option<OsString>,

    /// Exit code when the lock was not had in time, 0 to 255; 0 makes a skip a success [default: 75]
    #[arg(short = 'E', long, value_name = "CODE", allow_negative_numbers = true)]
    pub conflict_exit_code: Option<OsString>,

    /// End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if it took SIGKILL; 0 is no limit
    #[arg(short, long, value_name = "DURATION", allow_negative_numbers = true)]
    pub timeout: Option<OsString>,

    /// From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or
    /// a quarter of the TTL where that is less]
    #[arg(short, long, value_name = "DURATION", allow_negative_numbers = true)]
    pub kill_after: Option<OsString>,

    /// The longest the server keeps the lock of a host that has vanished, and how long a lost session may be sought again:
    /// whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub ttl: Option<OsString>,

    /// When the session is lost while the command runs: take the lock again, and end the command if that fails; end it at
    /// once; or let it run [default: reacquire]
    #[arg(long, value_name = "reacquire|terminate|ignore")]
    pub on_lock_lost: Option<OsString>,

    /// Keep the lock for at least this long from when it was taken, also when the command ends sooner: a host whose clock
    /// is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub hold_at_least: Option<OsString>,

    /// No server in time: fail with 69, or run the command without the lock and say so [default: fail]
    #[arg(long, value_name = "fail|run")]
    pub if_unreachable: Option<OsString>,

    /// Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78
    #[arg(long)]
    pub allow_unfit_server: bool,

    /// Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout
    #[arg(long, value_name = "FILE")]
    pub report: Option<OsString>,

    /// Take DBLOCK_URL and what else tells dblock of the server, and MYSQL_PWD, out of the command's environment
    #[arg(long)]
    pub scrub_env: bool,
}

/// How much is said on stderr.
#[derive(Debug, Args)]
pub struct VerbosityArgs {
    /// Say errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say what is done and how long it took; twice: every statement, never a password
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// How to reach the server. There is no `--password`: a command line is public.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    /// All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]
    #[arg(long, value_name = "URL")]
    pub url: Option<OsString>,

    /// The server's name or address; localhost means its local socket [env: DBLOCK_HOST]
    #[arg(long, value_name = "HOST")]
    pub host: Option<OsString>,

    /// The server's TCP port [env: DBLOCK_PORT] [default: 3306]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub port: Option<OsString>,

    /// The account [env: DBLOCK_USER] [default: the name of the OS user]
    #[arg(long, value_name = "USER")]
    pub user: Option<OsString>,

    /// The server's local socket [env: DBLOCK_SOCKET]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<OsString>,

    /// How localhost is reached; by its socket where nothing says it [env: DBLOCK_PROTOCOL]
    #[arg(long, value_name = "tcp|socket")]
    pub protocol: Option<OsString>,

    /// A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<OsString>,

    /// Read only this MySQL option file
    #[arg(long, value_name = "FILE")]
    pub defaults_file: Option<OsString>,

    /// Read this option file besides, before ~/.my.cnf
    #[arg(long, value_name = "FILE")]
    pub defaults_extra_file: Option<OsString>,

    /// Read also the groups [client…] and [dblock…] with this behind their names [env: MYSQL_GROUP_SUFFIX]
    #[arg(long, value_name = "TEXT")]
    pub defaults_group_suffix: Option<OsString>,

    /// Read no option file
    #[arg(long, conflicts_with_all = ["defaults_file", "defaults_extra_file"])]
    pub no_defaults: bool,

    /// Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose
    /// certificate is signed by a trusted CA; and only if it is also for the host's name or address. Without it --ssl-ca means
    /// verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]
    #[arg(
        long,
        value_name = "disabled|preferred|required|verify-ca|verify-identity"
    )]
    pub ssl_mode: Option<OsString>,

    /// A file with the certificates of the CAs to trust, in PEM, in place of the system's [env: DBLOCK_SSL_CA]
    #[arg(long, value_name = "FILE")]
    pub ssl_ca: Option<OsString>,

    /// A file with dblock's own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]
    #[arg(long, value_name = "FILE")]
    pub ssl_cert: Option<OsString>,

    /// A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]
    #[arg(long, value_name = "FILE")]
    pub ssl_key: Option<OsString>,

    /// A file with the server's public key, in PEM, for a password that travels without TLS; without it the server's word is
    /// taken for it [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]
    #[arg(long, value_name = "FILE")]
    pub server_public_key_path: Option<OsString>,

    /// How long to seek a server: names resolved, hosts tried, hands shaken [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub connect_timeout: Option<OsString>,
}

/// What a command line gives, by the options' long names.
#[derive(Debug)]
pub struct Given {
    /// Each option, and its value where it is given.
    pub options: Vec<(&'static str, Option<OsString>)>,
    /// Which option files are read.
    pub places: Places,
    /// What stands behind the names of the groups that are read besides.
    pub group_suffix: Option<OsString>,
}

impl RunOptions {
    /// These options as they were given.
    pub fn given(self) -> Vec<(&'static str, Option<OsString>)> {
        vec![
            ("name", self.name),
            ("max-concurrency", self.max_concurrency),
            ("slots", self.slots),
            ("wait", self.wait),
            ("conflict-exit-code", self.conflict_exit_code),
            ("timeout", self.timeout),
            ("kill-after", self.kill_after),
            ("ttl", self.ttl),
            ("on-lock-lost", self.on_lock_lost),
            ("hold-at-least", self.hold_at_least),
            ("if-unreachable", self.if_unreachable),
            ("allow-unfit-server", on(self.allow_unfit_server)),
            ("report", self.report),
            ("scrub-env", on(self.scrub_env)),
        ]
    }
}

impl ConnectionArgs {
    /// These options as they were given, and `others`.
    pub fn given(
        self,
        verbosity: &VerbosityArgs,
        others: Vec<(&'static str, Option<OsString>)>,
    ) -> Given {
        let count = Some(verbosity.verbose).filter(|&count| count > 0);
        let mut options = others;
        options.extend([
            ("quiet", on(verbosity.quiet)),
            ("verbose", count.map(|count| count.to_string().into())),
            ("url", self.url),
            ("host", self.host),
            ("port", self.port),
            ("user", self.user),
            ("socket", self.socket),
            ("protocol", self.protocol),
            ("password-file", self.password_file),
            ("ssl-mode", self.ssl_mode),
            ("ssl-ca", self.ssl_ca),
            ("ssl-cert", self.ssl_cert),
            ("ssl-key", self.ssl_key),
            ("server-public-key-path", self.server_public_key_path),
            ("connect-timeout", self.connect_timeout),
        ]);
        Given {
            options,
            places: Places {
                only: self.defaults_file.map(expanded),
                extra: self.defaults_extra_file.map(expanded),
                none: self.no_defaults,
            },
            group_suffix: self.defaults_group_suffix,
        }
    }
}

/// The value of a switch that is on.
pub fn on(is_on: bool) -> Option<OsString> {
    is_on.then(|| "1".into())
}

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value.
    Value,
    /// Nothing: it is there or not.
    Switch,
    /// Nothing, and it counts how often it is there.
    Count,
}

/// The long options of all commands.
pub fn long_options() -> Vec<(String, Kind)> {
    let cli = Cli::command();
    let arguments = cli.get_subcommands().flat_map(clap::Command::get_arguments);
    let options = arguments.filter_map(|argument| {
        let kind = match argument.get_action() {
            ArgAction::SetTrue => Kind::Switch,
            ArgAction::Count => Kind::Count,
            ArgAction::Set => Kind::Value,
            _ => return None,
        };
        Some((argument.get_long()?.to_owned(), kind))
    });
    options.collect()
}

const STATUS_HELP: &str = "\
It takes no lock. What the server does not let this account see is told, and what would show it.

Exit codes: 0, also when nobody has the lock; 69 no server in time; 77 the account was refused; 78 bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

const KILL_HELP: &str = "\
The holder's dblock ends its command, SIGTERM first, and does not take the lock again, whatever it was told to do on a loss;
it exits with 74. Nobody gets the slot before that. A holder that is another program only loses its session.

Exit codes: 0, also when nobody has the lock; 75 the end of the command was not heard of in time; 77 this account may not
end that session; 69 no server in time; 78 bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

const CONFIG_HELP: &str = "\
A flag beats the environment, which beats [dblock] in a MySQL option file, which beats [client] there, which beats the
default. Write config in the place of run to see what that run would use. Passwords are shown as ***.

Exit codes: 0; 64 bad usage, 78 bad configuration: what could be read is printed all the same.";

const CHECK_HELP: &str = "\
It takes and frees a lock of its own, on two connections, and leaves nothing behind. Each finding is ok, warning or unfit.

Exit codes: 0 fit, also with warnings; 78 unfit, or bad configuration; 69 no server in time; 77 the account was refused;
64 bad usage; 70 internal error; 71 the system refused.";

const RUN_HELP: &str = "\
Durations are 90s, 5m, 1h 30m; a bare number, also with a decimal point, is seconds.

Exit codes: the command's own; 75 the lock is taken (or what -E says); 69 no server in time; 64 bad usage;
70 internal error; 71 the system refused; 74 the lock was lost and the command ended for it; 77 the account was refused;
78 bad configuration; 124 --timeout ended the command, 137 with SIGKILL; 126 the command is not executable;
127 not found. A command that died of a signal: 128 + n.

The command finds DBLOCK_NAME, DBLOCK_SLOT (0 to N-1), DBLOCK_SLOT_NAME (with --slots) and DBLOCK_CONNECTION_ID in its
environment.

Examples, crontab lines that can stand on every host:
  */5 * * * *  dblock run --name nightly-report -- /usr/local/bin/report
  0 1 * * *    dblock run --name backup -m 3 --wait 4h --timeout 2h -- /usr/local/bin/backup
  */2 * * * *  dblock run --name import --slots key1,key2 -- sh -c 'import --key \"$DBLOCK_SLOT_NAME\"'";
