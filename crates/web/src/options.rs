//! What the command line says, checked: later code never sees clap.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::base::exit::{Failure, Reason};
use crate::cli::{self, CommandLine, connection};

/// How often the fleet may be asked.
const REFRESH: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// What the command line says.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Listen,
    /// Whether those who look may also pause, resume, trigger, retry, cancel and kill.
    pub allow_actions: bool,
    /// Whether keys, errors and output are shown.
    pub show_data: bool,
    /// The file with the page's password; None: a token, or the rights of the socket.
    pub password_file: Option<PathBuf>,
    /// The certificate and its key; None: no TLS here.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether a proxy does the TLS.
    pub behind_proxy: bool,
    /// Further names under which the page is opened, as a browser sends them, without the port: in lower case, and an IPv6 address in
    /// brackets.
    pub host_names: Vec<String>,
    /// How often the fleet is asked while somebody looks.
    pub refresh: Duration,
    /// The dblock to run; None: the one beside this program, or in `PATH`.
    pub dblock: Option<PathBuf>,
    /// The options that each dblock gets besides its own.
    pub handed_on: Vec<OsString>,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port; 0 is any that is free.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Options {
    /// The options of a command line.
    ///
    /// # Errors
    /// [`Reason::Usage`].
    pub fn of(command_line: CommandLine) -> Result<Self, Failure> {
        let given = Given(command_line.settings);
        let listen = listen(&given.text("listen")?)?;
        let tls = match (given.path("tls-cert"), given.path("tls-key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(usage("--tls-cert and --tls-key need one another")),
        };
        let mut options = Self {
            listen,
            allow_actions: given.has("allow-actions"),
            show_data: given.has("show-data"),
            password_file: given.path("password-file"),
            tls,
            behind_proxy: given.has("behind-proxy"),
            host_names: host_names(&given)?,
            refresh: refresh(&given.text("refresh")?)?,
            dblock: given.path("dblock"),
            handed_on: handed_on(&given),
        };
        options.handed_on.extend(command_line.arguments);
        options.check()?;
        Ok(options)
    }

    /// Who looks from another host is asked for a password, and nobody between reads it.
    fn check(&self) -> Result<(), Failure> {
        if self.behind_proxy && self.password_file.is_none() {
            return Err(usage(
                "--behind-proxy needs --password-file: whoever reaches the proxy reaches the page",
            ));
        }
        match &self.listen {
            Listen::Unix(_) if self.tls.is_some() => {
                Err(usage("--tls-cert is for a TCP port, not for unix:"))
            }
            Listen::Tcp(address) if !address.ip().is_loopback() => {
                if self.password_file.is_none() {
                    return Err(usage(format!(
                        "--listen {address} can be reached from other hosts: it needs --password-file"
                    )));
                }
                if self.tls.is_none() && !self.behind_proxy {
                    let line = format!(
                        "--listen {address} can be reached from other hosts: it needs --tls-cert and --tls-key, or --behind-proxy"
                    );
                    return Err(usage(line));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn usage(line: impl Into<String>) -> Failure {
    Failure::new(
        Reason::Usage,
        format!("{}; see dblock web --help", line.into()),
    )
}

/// The settings that are given.
struct Given(cli::Values);

impl Given {
    fn value(&self, name: &str) -> Option<&OsString> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    /// The value or else the default; empty: neither is there.
    fn text(&self, name: &str) -> Result<String, Failure> {
        let Some(value) = self.value(name) else {
            let row = cli::setting(name).and_then(|setting| setting.default);
            return Ok(row.unwrap_or_default().to_owned());
        };
        let text = value.clone().into_string();
        text.map_err(|_| usage(format!("--{name} is not UTF-8")))
    }
}

fn listen(text: &str) -> Result<Listen, Failure> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(usage("--listen unix: needs a path"));
        }
        return Ok(Listen::Unix(path.into()));
    }
    let port_of_this_host = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    let address = match port_of_this_host {
        Some(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        None => text.parse(),
    };
    address.map(Listen::Tcp).map_err(|_| {
        usage(format!("--listen {text:?} is no address: it is ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080, or unix:PATH"))
    })
}

fn host_names(given: &Given) -> Result<Vec<String>, Failure> {
    let text = given.text("host-name")?.to_lowercase();
    let names: Vec<_> = text.split(',').filter(|name| !name.is_empty()).collect();
    if given.has("host-name") && names.is_empty() {
        return Err(usage(no_name(&text)));
    }
    let checked = names.into_iter().map(|name| {
        let is_port = |text: &str| text.chars().all(|digit| digit.is_ascii_digit());
        let without_port = name.rsplit_once(':').filter(|parts| is_port(parts.1));
        host_name(name).ok_or_else(|| match without_port {
            Some((host, _)) if host_name(host).is_some() => usage(format!(
                "--host-name {name:?} has a port: name the host alone"
            )),
            _ => usage(no_name(name)),
        })
    });
    checked.collect()
}

fn no_name(text: &str) -> String {
    format!("{text:?} is not the name of a host")
}

/// A name in lower case, as a browser sends it; `None`: there is no such host.
fn host_name(name: &str) -> Option<String> {
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    if let Ok(address) = inner.unwrap_or(name).parse::<Ipv6Addr>() {
        return Some(format!("[{address}]"));
    }
    let is_of_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    (!name.is_empty() && name.chars().all(is_of_name)).then(|| name.to_owned())
}

fn refresh(text: &str) -> Result<Duration, Failure> {
    let span = humantime::parse_duration(text);
    let span =
        span.map_err(|error| usage(format!("--refresh {text:?} is no duration: {error}")))?;
    if REFRESH.contains(&span) {
        Ok(span)
    } else {
        Err(usage("--refresh must be 1s to 1h"))
    }
}

/// The connection's options, as they are typed.
fn handed_on(given: &Given) -> Vec<OsString> {
    let of_the_connection = connection::SETTINGS
        .iter()
        .filter(|setting| setting.name != "password-file");
    let typed = of_the_connection.filter_map(|setting| {
        let value = given.value(setting.name)?;
        let mut typed = format!("--{}", setting.name).into_bytes();
        if setting.takes != cli::Takes::Switch {
            typed.push(b'=');
            typed.extend(value.as_bytes());
        }
        Some(OsString::from_vec(typed))
    });
    typed.collect()
}
