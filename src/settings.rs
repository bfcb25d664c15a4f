//! From what was given to what is meant: a flag beats the environment, which beats the default. Nothing past this file
//! sees clap or a variable.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::cli::{CheckArgs, ConnectionArgs, RunArgs, VerbosityArgs};
use crate::exit::{CONFLICT, Failure, Reason};
use crate::lock::{MOST_SLOTS, Name};
use crate::report::{Level, shown};

/// The TCP port where nothing names one.
const DEFAULT_PORT: u16 = 3306;

/// How long a server is sought where nothing says it.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server keeps the lock of a host that has vanished, where nothing says it; and what may be said.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);
const SHORTEST_TTL: Duration = Duration::from_secs(4);
/// The longest that may be said.
pub const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// From SIGTERM to SIGKILL where nothing says it, or a quarter of the TTL where that is less.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(10);

/// Bytes of a slot's name at most, as of a lock's.
const LONGEST_SLOT_NAME: usize = 200;

/// The longest duration that is taken; beyond it clocks overflow. `forever` has no limit.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Everything that `dblock run` was asked to do.
#[derive(Debug)]
pub struct Run {
    /// The lock.
    pub name: Name,
    /// How many may hold it at once: 1 to [`MOST_SLOTS`].
    pub max_concurrency: u32,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: Vec<String>,
    /// How long to wait for the lock.
    pub wait: Wait,
    /// The exit code when it was not had in time.
    pub conflict_exit_code: u8,
    /// What to do without a server.
    pub if_unreachable: IfUnreachable,
    /// How long the command may run, from its start; `None` without limit.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends the command; zero sends both at once.
    pub kill_after: Duration,
    /// The longest the server keeps the lock of a host that has vanished: whole seconds.
    pub ttl: Duration,
    /// What to do when the session is lost while the command runs.
    pub on_lock_lost: OnLockLost,
    /// Whether to lock also where the lock may not exclude.
    pub allow_unfit_server: bool,
    /// How long the lock is kept at least, from when it was had.
    pub hold_at_least: Duration,
    /// Where the lock lives.
    pub connection: Connection,
    /// What to run: program and arguments, never empty.
    pub command: Vec<OsString>,
}

/// Everything that `dblock check` was asked to do.
#[derive(Debug)]
pub struct Check {
    /// The server.
    pub connection: Connection,
    /// Whether a program reads what is found.
    pub json: bool,
}

/// What to do when the session, and with it the lock, is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLockLost {
    /// Take it again; end the command when that fails.
    Reacquire,
    /// End the command.
    Terminate,
    /// Say so.
    Ignore,
}

/// What to do when no server can be reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnreachable {
    /// Exit with 69.
    Fail,
    /// Run the command without the lock.
    Run,
}

/// How long to wait for a lock, from when it is first asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// This long; zero asks once.
    For(Duration),
    /// Without limit.
    Forever,
}

/// How to reach a server.
#[derive(Debug)]
pub struct Connection {
    /// The servers, in the order in which they are tried; never empty.
    pub targets: Vec<Target>,
    /// The account; `None` is the OS user's name.
    pub user: Option<String>,
    /// Where the password comes from.
    pub password: Password,
    /// How the connection is encrypted.
    pub tls: Tls,
    /// Limit for all of it: names resolved, hosts tried, hands shaken.
    pub connect_timeout: Duration,
    /// What the user should know about these settings, a line each.
    pub warnings: Vec<String>,
}

/// One place where a server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address (without brackets) and a port.
    Tcp(String, u16),
    /// The path of a local socket.
    Socket(PathBuf),
    /// `localhost` without a path: the local socket at one of the usual places.
    UsualSocket,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::UsualSocket => write!(f, "localhost"),
        }
    }
}

/// How a connection to a server is encrypted.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Whether it is, and what the server must prove.
    pub mode: SslMode,
    /// The certificates of the CAs to trust, in PEM; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// dblock's own certificate, and those between it and its CA, in PEM; `None`: it shows none.
    pub cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    pub key: Option<PathBuf>,
}

/// What is asked of the encryption of a connection, as by the `mysql` client's option of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// None.
    Disabled,
    /// TLS if the server has it. A handshake that fails is an error.
    Preferred,
    /// TLS, whoever the server is.
    Required,
    /// TLS, with a server whose certificate a trusted CA has signed.
    VerifyCa,
    /// The same, and the certificate is for the host as it was named, by name or address.
    VerifyIdentity,
}

/// A password, or where it stands. `Debug` shows neither.
#[derive(Clone)]
pub enum Password {
    /// None is sent.
    None,
    /// This one.
    Given(String),
    /// The first line of this file.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}

/// The level up to which lines are shown.
pub fn level(args: &VerbosityArgs) -> Level {
    match args.verbose {
        0 if args.quiet => Level::Error,
        0 => Level::Warning,
        1 => Level::Info,
        _ => Level::Statement,
    }
}

/// Reads the settings of `dblock run`.
///
/// # Errors
/// [`Reason::Usage`] names the option or variable with a malformed value; [`Reason::Configuration`] that no server is
/// named.
pub fn run(args: RunArgs) -> Result<Run, Failure> {
    let name = Given {
        value: args.name,
        from: "--name",
    };
    let name =
        Name::parse(name.text()?).map_err(|wrong| usage(format!("--name: the name {wrong}")))?;
    let wait = match flag(args.wait, "--wait") {
        Some(given) => given.read(wait)?,
        None => Wait::For(Duration::ZERO),
    };
    let conflict_exit_code = match flag(args.conflict_exit_code, "--conflict-exit-code") {
        Some(given) => given.read(|text| {
            text.parse()
                .map_err(|_| format!("{} is not an exit code from 0 to 255", value(text)))
        })?,
        None => CONFLICT,
    };
    let if_unreachable = match flag(args.if_unreachable, "--if-unreachable") {
        Some(given) => given.read(|text| match text {
            "fail" => Ok(IfUnreachable::Fail),
            "run" => Ok(IfUnreachable::Run),
            _ => Err(format!("{} is neither fail nor run", value(text))),
        })?,
        None => IfUnreachable::Fail,
    };
    let slot_names = match flag(args.slots, "--slots") {
        Some(given) => given.read(slot_names)?,
        None => Vec::new(),
    };
    let max_concurrency = match flag(args.max_concurrency, "--max-concurrency") {
        Some(given) => given.read(max_concurrency)?,
        None => u32::try_from(slot_names.len().max(1)).expect("at most a thousand"),
    };
    let span = |value, from| -> Result<Option<Duration>, Failure> {
        flag(value, from)
            .map(|given| given.read(duration))
            .transpose()
    };
    let timeout = span(args.timeout, "--timeout")?.filter(|limit| !limit.is_zero());
    let ttl = match flag(args.ttl, "--ttl") {
        Some(given) => given.read(ttl)?,
        None => DEFAULT_TTL,
    };
    let kill_after = match span(args.kill_after, "--kill-after")? {
        Some(span) if span > ttl / 3 => {
            return Err(usage(format!(
                "--kill-after: {} is more than a third of the TTL, which is {}; the command must be gone before the \
                 server gives its lock away",
                shown(span),
                shown(ttl)
            )));
        }
        Some(span) => span,
        None => DEFAULT_KILL_AFTER.min(ttl / 4),
    };
    let on_lock_lost = match flag(args.on_lock_lost, "--on-lock-lost") {
        Some(given) => given.read(|text| match text {
            "reacquire" => Ok(OnLockLost::Reacquire),
            "terminate" => Ok(OnLockLost::Terminate),
            "ignore" => Ok(OnLockLost::Ignore),
            _ => Err(format!(
                "{} is neither reacquire nor terminate nor ignore",
                value(text)
            )),
        })?,
        None => OnLockLost::Reacquire,
    };
    let hold_at_least = span(args.hold_at_least, "--hold-at-least")?.unwrap_or_default();
    let connection = connection(args.connection)?;
    Ok(Run {
        name,
        max_concurrency,
        slot_names,
        wait,
        timeout,
        kill_after,
        ttl,
        on_lock_lost,
        allow_unfit_server: args.allow_unfit_server,
        hold_at_least,
        conflict_exit_code,
        if_unreachable,
        connection,
        command: args.command,
    })
}

/// Reads the settings of `dblock check`.
///
/// # Errors
/// As [`run`].
pub fn check(args: CheckArgs) -> Result<Check, Failure> {
    Ok(Check {
        connection: connection(args.connection)?,
        json: args.json,
    })
}

/// A value and the option or variable that it came from.
struct Given {
    value: OsString,
    from: &'static str,
}

impl Given {
    fn text(&self) -> Result<&str, Failure> {
        let text = self.value.to_str();
        text.ok_or_else(|| usage(format!("{}: the value is not UTF-8", self.from)))
    }

    /// The value as `reader` reads it; the reader's error says what is wrong with it.
    fn read<T>(&self, reader: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        reader(self.text()?).map_err(|wrong| usage(format!("{}: {wrong}", self.from)))
    }
}

/// A value as an error quotes it, unless a URL with a password may have landed there.
fn value(text: &str) -> String {
    if text.contains('@') {
        "the value".to_owned()
    } else {
        format!("{text:?}")
    }
}

fn usage(line: String) -> Failure {
    Failure::new(Reason::Usage, line)
}

fn flag(value: Option<OsString>, from: &'static str) -> Option<Given> {
    value.map(|value| Given { value, from })
}

/// A variable; one that is set to nothing counts as not set, as crontabs and unit files cannot unset.
fn variable(from: &'static str) -> Option<Given> {
    let value = env::var_os(from).filter(|value| !value.is_empty())?;
    Some(Given { value, from })
}

/// What one source, the command line or the environment, says of the server. Within it a single option beats the URL.
struct Source {
    hosts: Option<Vec<Host>>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    user: Option<String>,
    password: Option<Password>,
}

/// A host as named; its port as far as the URL gives it.
struct Host {
    name: String,
    port: Option<u16>,
}

impl Source {
    fn read(
        url: Option<Given>,
        host: Option<Given>,
        port: Option<Given>,
        socket: Option<Given>,
        user: Option<Given>,
        password: Option<Password>,
    ) -> Result<Self, Failure> {
        let mut source = match url {
            Some(given) => given.read(server_url)?,
            None => Self {
                hosts: None,
                port: None,
                socket: None,
                user: None,
                password: None,
            },
        };
        if let Some(given) = host {
            source.hosts = Some(vec![given.read(single_host)?]);
        }
        if let Some(given) = port {
            source.port = Some(given.read(port_number)?);
        }
        if let Some(given) = socket {
            source.socket = Some(given.read(socket_path)?);
        }
        if let Some(given) = user {
            source.user = Some(given.text()?.to_owned());
        }
        source.password = password.or(source.password);
        Ok(source)
    }
}

fn connection(args: ConnectionArgs) -> Result<Connection, Failure> {
    let mut warnings = Vec::new();

    let password_file = args.password_file.map(|path| Password::File(path.into()));
    let flags = Source::read(
        flag(args.url, "--url"),
        flag(args.host, "--host"),
        flag(args.port, "--port"),
        flag(args.socket, "--socket"),
        flag(args.user, "--user"),
        password_file,
    )?;
    if let Some(Password::Given(_)) = flags.password {
        warnings.push(
            "the password in --url can be read by every user of this host; \
             use DBLOCK_PASSWORD, DBLOCK_URL or --password-file"
                .to_owned(),
        );
    }
    let environment = Source::read(
        variable("DBLOCK_URL"),
        variable("DBLOCK_HOST"),
        variable("DBLOCK_PORT"),
        variable("DBLOCK_SOCKET"),
        variable("DBLOCK_USER"),
        password_variable("DBLOCK_PASSWORD")?,
    )?;

    let connect_timeout = match flag(args.connect_timeout, "--connect-timeout")
        .or_else(|| variable("DBLOCK_CONNECT_TIMEOUT"))
    {
        Some(given) => given.read(|text| match duration(text)? {
            Duration::ZERO => Err("must be longer than 0".to_owned()),
            limit => Ok(limit),
        })?,
        None => DEFAULT_CONNECT_TIMEOUT,
    };
    let password = match flags
        .password
        .clone()
        .or_else(|| environment.password.clone())
    {
        Some(password) => password,
        None => password_variable("MYSQL_PWD")?.unwrap_or(Password::None),
    };
    let path = |value, option, name| {
        let given = flag(value, option).or_else(|| variable(name));
        given.map(|given| PathBuf::from(given.value))
    };
    let ca = path(args.ssl_ca, "--ssl-ca", "DBLOCK_SSL_CA");
    let mode = match flag(args.ssl_mode, "--ssl-mode").or_else(|| variable("DBLOCK_SSL_MODE")) {
        Some(given) => given.read(ssl_mode)?,
        None if ca.is_some() => SslMode::VerifyCa,
        None => SslMode::Preferred,
    };
    let tls = Tls {
        mode,
        ca,
        cert: path(args.ssl_cert, "--ssl-cert", "DBLOCK_SSL_CERT"),
        key: path(args.ssl_key, "--ssl-key", "DBLOCK_SSL_KEY"),
    };
    Ok(Connection {
        tls,
        targets: targets(&flags, &environment, &mut warnings)?,
        user: flags.user.or(environment.user),
        password,
        connect_timeout,
        warnings,
    })
}

fn password_variable(from: &'static str) -> Result<Option<Password>, Failure> {
    let given = variable(from);
    given
        .map(|given| Ok(Password::Given(given.text()?.to_owned())))
        .transpose()
}

/// The servers: those of the first source that names a host or a socket.
fn targets(
    flags: &Source,
    environment: &Source,
    warnings: &mut Vec<String>,
) -> Result<Vec<Target>, Failure> {
    let names_a_server = |source: &&Source| source.hosts.is_some() || source.socket.is_some();
    let Some(source) = [flags, environment].into_iter().find(names_a_server) else {
        return Err(Failure::new(
            Reason::Configuration,
            "no server is named; use --url, --host or --socket, or DBLOCK_URL in the environment",
        ));
    };
    let socket = flags.socket.as_ref().or(environment.socket.as_ref());
    let Some(hosts) = &source.hosts else {
        return Ok(socket
            .map(|path| Target::Socket(path.clone()))
            .into_iter()
            .collect());
    };

    let is_local = |host: &Host| host.name.eq_ignore_ascii_case("localhost");
    if source.socket.is_some() && !hosts.iter().any(is_local) {
        warnings.push(
            "the socket is not used: it belongs to localhost, and another host is named".to_owned(),
        );
    }
    // A port by itself beats one in a URL, unless the URL comes from a stronger source.
    let strong_port = if std::ptr::eq(source, flags) {
        flags.port
    } else {
        flags.port.or(environment.port)
    };
    let weak_port = flags.port.or(environment.port).unwrap_or(DEFAULT_PORT);
    let target = |host: &Host| {
        let named_port = strong_port.or(host.port);
        if !is_local(host) {
            return Target::Tcp(host.name.clone(), named_port.unwrap_or(weak_port));
        }
        if named_port.is_some() {
            warnings.push(
                "localhost means the local socket, not a port; for TCP write 127.0.0.1".to_owned(),
            );
        }
        let socket = socket
            .cloned()
            .or_else(|| variable("MYSQL_UNIX_PORT").map(|given| given.value.into()));
        socket.map_or(Target::UsualSocket, Target::Socket)
    };
    Ok(hosts.iter().map(target).collect())
}

/// `mysql://[user[:password]@]host[:port][,host[:port]]…[/][?socket=path]`, with percent-encoding.
///
/// The errors never quote the URL: it may hold a password.
fn server_url(text: &str) -> Result<Source, String> {
    let (scheme, rest) = text.split_once("://").ok_or("a URL begins with mysql://")?;
    if scheme != "mysql" {
        return Err(format!(
            "the scheme{} is unknown; a URL begins with mysql://",
            quoted(scheme, text)
        ));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (account, hosts) = match authority.rsplit_once('@') {
        Some((account, hosts)) => (Some(account), hosts),
        None => (None, authority),
    };
    let hosts = if hosts.is_empty() {
        None
    } else {
        Some(
            hosts
                .split(',')
                .map(url_host)
                .collect::<Result<Vec<_>, _>>()?,
        )
    };
    let (user, password) = match account {
        Some(account) => match account.split_once(':') {
            Some((user, password)) => (user, Some(Password::Given(decoded(password, "password")?))),
            None => (account, None),
        },
        None => ("", None),
    };
    let user = if user.is_empty() {
        None
    } else {
        Some(decoded(user, "user")?)
    };

    let tail = Url::parse(&format!("mysql://host{tail}")).map_err(|wrong| wrong.to_string())?;
    if !matches!(tail.path(), "" | "/") {
        return Err(
            "a lock needs no database; nothing may stand behind the / in the URL".to_owned(),
        );
    }
    if tail.fragment().is_some() {
        return Err("a # in the URL must be written as %23".to_owned());
    }
    let mut socket = None;
    for (key, value) in tail.query_pairs() {
        match &*key {
            "socket" => socket = Some(socket_path(&value)?),
            _ => {
                return Err(format!(
                    "the URL parameter{} is unknown",
                    quoted(&key, text)
                ));
            }
        }
    }
    Ok(Source {
        hosts,
        port: None,
        socket,
        user,
        password,
    })
}

fn decoded(text: &str, what: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into)
        .map_err(|_| format!("the {what} in the URL is not UTF-8"))
}

/// ` "word"`, unless it may be a part of a password: behind a `/`, `?` or `#` that was not encoded in one, the end of the
/// password and its `@` follow.
fn quoted(word: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let tail = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
    let harmless = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if harmless && !tail.contains('@') {
        format!(" {word:?}")
    } else {
        String::new()
    }
}

/// One `host[:port]` of a URL.
fn url_host(text: &str) -> Result<Host, String> {
    let wrong = |why: &dyn fmt::Display| format!("a host in the URL cannot be read: {why}");
    if text.matches(':').count() > 1 && !text.starts_with('[') {
        return Err(wrong(&"an IPv6 address stands in brackets, as in [::1]"));
    }
    let url = Url::parse(&format!("mysql://{text}/")).map_err(|why| wrong(&why))?;
    let name = url
        .host_str()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| wrong(&"is empty"))?;
    if url.port() == Some(0) {
        return Err(wrong(&"a port is a number from 1 to 65535"));
    }
    let name = decoded(name.trim_start_matches('[').trim_end_matches(']'), "host")?;
    Ok(Host {
        name,
        port: url.port(),
    })
}

/// The value of `--host`: one name or address, an IPv6 address with or without brackets. The errors do not quote it: a
/// URL with a password may have landed there.
fn single_host(text: &str) -> Result<Host, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let name = inner.unwrap_or(text);
    if name.is_empty() || name.contains([',', '/', '@']) || name.contains(char::is_whitespace) {
        return Err("that is no host; a user or several hosts go into a URL".to_owned());
    }
    if name.contains(':') && name.parse::<std::net::Ipv6Addr>().is_err() {
        return Err("that is no host; a port goes into an option of its own or a URL".to_owned());
    }
    Ok(Host {
        name: name.to_owned(),
        port: None,
    })
}

fn port_number(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{} is not a port from 1 to 65535", value(text))),
    }
}

/// A socket's path: `sun_path` holds 108 bytes with the closing zero.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.len() > 107 || text.contains('\0') {
        return Err("a socket's path has 1 to 107 bytes".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// In either case, and with either line, as MySQL's manual writes them and as options are written.
fn ssl_mode(text: &str) -> Result<SslMode, String> {
    match text.to_ascii_lowercase().replace('_', "-").as_str() {
        "disabled" => Ok(SslMode::Disabled),
        "preferred" => Ok(SslMode::Preferred),
        "required" => Ok(SslMode::Required),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-identity" => Ok(SslMode::VerifyIdentity),
        _ => Err(format!(
            "{} is neither disabled nor preferred nor required nor verify-ca nor verify-identity",
            value(text)
        )),
    }
}

fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        _ => duration(text).map(Wait::For),
    }
}

/// Whole seconds, for that is what servers take.
fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl.subsec_nanos() == 0 && (SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
        Ok(ttl)
    } else {
        Err(format!(
            "{} is not whole seconds from 4s to 1d",
            value(text)
        ))
    }
}

fn max_concurrency(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(slots) if (1..=MOST_SLOTS).contains(&slots) => Ok(slots),
        _ => Err(format!(
            "{} is not a number from 1 to {MOST_SLOTS}",
            value(text)
        )),
    }
}

/// The names of a pool's slots. They go into a variable of the command's, not to the server.
fn slot_names(text: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',') {
        let wrong = match name {
            "" => "is empty",
            _ if name.len() > LONGEST_SLOT_NAME => "is longer than 200 bytes",
            _ if name.contains(char::is_control) => "contains a control character",
            _ if name.trim() != name => "begins or ends with white space",
            _ if names.len() == MOST_SLOTS as usize => "is one too many, 1000 are the most",
            _ if names.iter().any(|other| other == name) => "is there twice",
            _ => {
                names.push(name.to_owned());
                continue;
            }
        };
        let place = names.len() + 1;
        return Err(format!("name {place}, {}, {wrong}", value(name)));
    }
    Ok(names)
}

/// A duration as humantime writes it (`90s`, `5m`, `1h 30m`), or a bare number of seconds, as in `flock -w 0.5`.
fn duration(text: &str) -> Result<Duration, String> {
    let is_number = text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let duration = if is_number {
        text.parse()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        humantime::parse_duration(text).ok()
    };
    match duration {
        Some(duration) if duration <= LONGEST => Ok(duration),
        Some(_) => Err(format!("{} is too long a time", value(text))),
        None if is_number => Err(format!(
            "{} is too long a time or not a number of seconds",
            value(text)
        )),
        None => Err(format!(
            "{} is not a duration; write 90s, 5m, 1h 30m or 0.5",
            value(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_humantime_or_seconds() {
        for (text, seconds) in [
            ("0", 0.0),
            ("0.5", 0.5),
            (".5", 0.5),
            ("30", 30.0),
            ("90s", 90.0),
            ("1h 30m", 5400.0),
            ("300ms", 0.3),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            ".",
            "-1",
            "1y2",
            "1.2.3",
            "inf",
            "nan",
            "1e3",
            "s",
            "99999999999999999999",
            "200years",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_is_taken_apart() {
        let source =
            server_url("mysql://us%40er:p%3aw@db1,[::1]:3307,db3:1/?socket=/run/x.sock").unwrap();
        let hosts: Vec<_> = source
            .hosts
            .unwrap()
            .into_iter()
            .map(|host| (host.name, host.port))
            .collect();
        assert_eq!(
            hosts,
            [
                ("db1".to_owned(), None),
                ("::1".to_owned(), Some(3307)),
                ("db3".to_owned(), Some(1))
            ]
        );
        assert_eq!(source.user.as_deref(), Some("us@er"));
        assert!(matches!(source.password, Some(Password::Given(password)) if password == "p:w"));
        assert_eq!(source.socket, Some("/run/x.sock".into()));
    }

    #[test]
    fn an_error_in_a_url_does_not_show_its_password() {
        for wrong in [
            "mysql://u:secret@h:70000/",
            "mysql://u:secret@h/db",
            "mysql://u:secret@h?x=1",
            "pg://u:secret@h",
            "u:secret@h",
            "mysql://u:secret@h:0",
            "mysql://u:secret@a,,b",
            "mysql://u:secret@h#f",
            "mysql://u:/secret@h",
            "mysql://u:1?secret@h",
            "mysql://u:1#secret@h",
            "u:secret://h",
            "mysql://u:1?secret&x@h",
        ] {
            let error = server_url(wrong).err().expect(wrong);
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Password::Given("secret".into())), "***");
    }
}
