//! The output of a job by mail, like cronie's (`src/do_command.c`): through sendmail, with its headers, and only if there is output.

use std::fmt::Write as _;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::environment::variable;
use super::notify;
use crate::base::log::{Level, Log};
use crate::base::text::printable;
use crate::base::user::local_user;
use crate::cron::Job;
use crate::lock::own_host;
use crate::supervise::{Aside, Kept, Signals};

/// The paths of sendmail.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// How long a mail may take before its process is ended, so that they do not pile up.
const LONGEST: Duration = Duration::from_secs(300);

/// The most bytes of a mail; the rest is dropped.
const LONGEST_MAIL: u64 = 10 * 1024 * 1024;

/// The last line of a mail that was cut.
const CUT: &[u8] = b"\n[dblock: the output is longer than 10 MiB; the rest is left out]\n";

/// A variable with the path of sendmail, for hosts that have it elsewhere.
pub const SENDMAIL_VARIABLE: &str = "DBLOCK_SENDMAIL";

/// The recipient of a job's output; `None`: it goes to dblock's own.
fn recipient(job: &Job) -> Option<&str> {
    variable(job, "MAILTO").filter(|to| !to.trim().is_empty())
}

/// Whether this host has no sendmail, and some of these jobs are to have their output mailed.
pub fn lacks_sendmail<'a>(mut jobs: impl Iterator<Item = &'a Job>) -> bool {
    sendmail().is_none() && jobs.any(|job| recipient(job).is_some())
}

fn sendmail() -> Option<PathBuf> {
    let other = std::env::var_os(SENDMAIL_VARIABLE).map(PathBuf::from);
    let known = SENDMAIL.map(PathBuf::from);
    other
        .into_iter()
        .chain(known)
        .find(|path| Path::new(path).exists())
}

/// Where a mail goes. Its text is kept with the output.
#[derive(Debug)]
pub struct Mail {
    /// The recipient and sendmail's path, fixed at the start.
    pub to: String,
    pub sendmail: PathBuf,
    /// The length of the headers.
    headers: u64,
}

impl Mail {
    /// A mail, and its text so far: the headers. `None`: there is no recipient, or no sendmail.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `write(2)`.
    pub fn begin(job: &Job) -> io::Result<Option<(Self, Kept)>> {
        let Some((to, sendmail)) = recipient(job).zip(sendmail()) else {
            return Ok(None);
        };
        let text = Kept::begin(&headers(job, to, &local_user(), &own_host()), LONGEST_MAIL)?;
        let mail = Self {
            to: to.to_owned(),
            sendmail,
            headers: text.length(),
        };
        Ok(Some((mail, text)))
    }

    /// Whether the text has any output. If the text was cut, ends it with a line that says so. Returns the write error, if there was one.
    pub fn end(&self, text: &mut Kept) -> (bool, Option<io::Error>) {
        (text.length() > self.headers, text.end(CUT))
    }
}

fn headers(job: &Job, to: &str, user: &str, host: &str) -> String {
    let from = variable(job, "MAILFROM")
        .filter(|from| !from.is_empty())
        .unwrap_or(user);
    let mut text = String::new();
    let mut header = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}: {}", printable(value));
    };
    header("From", &format!("\"(Cron Daemon)\" <{from}>"));
    header("To", to);
    header("Subject", &format!("Cron <{user}@{host}> {}", job.command));
    header("MIME-Version", "1.0");
    let kind = variable(job, "CONTENT_TYPE").unwrap_or("text/plain; charset=UTF-8");
    header("Content-Type", kind);
    let encoding = variable(job, "CONTENT_TRANSFER_ENCODING").unwrap_or("8bit");
    header("Content-Transfer-Encoding", encoding);
    header("Auto-Submitted", "auto-generated");
    header("Precedence", "bulk");
    header("X-Cron-Job", &job.name.to_string());
    for (name, value) in job.variables.iter() {
        header("X-Cron-Env", &format!("<{name}={value}>"));
    }
    text.push('\n');
    text
}

/// Sends a mail. sendmail gets dblock's environment, without the variables about the server.
///
/// # Errors
/// The system refused a process.
pub fn send(
    mail: &Mail,
    text: &Kept,
    (job, complaint): (&str, String),
    scrubbed: &[&'static str],
    signals: &Signals,
    log: Log,
) -> io::Result<Aside> {
    let mut file = text.file().try_clone()?;
    file.rewind()?;
    let mut command = Command::new(&mail.sendmail);
    command
        .args(["-FCronDaemon", "-i", "-odi", "-oem", "-oi", "-t"])
        .stdout(Stdio::null());
    for name in notify::VARIABLES.iter().chain(scrubbed) {
        command.env_remove(name);
    }
    let complaint = (job, Level::Error, complaint);
    Aside::start(command, file, (LONGEST, true), complaint, signals, log)
}
