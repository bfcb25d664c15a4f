//! The output of a job by mail, like cronie's (`src/do_command.c`): through sendmail, with its headers, and only if there is output.

use std::fmt::Write as _;
use std::io::{self, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{ForkResult, Pid, fork, setpgid};

use super::environment::variable;
use super::notify;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Reason};
use crate::base::log::Log;
use crate::base::text::{in_words, printable};
use crate::base::user::local_user;
use crate::cron::Job;
use crate::lock::own_host;
use crate::supervise::{Kept, Signals, restore_limit_and_dispositions};

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

/// The recipient of a job's output, and sendmail's path; `None`: there is no recipient, or no sendmail.
fn recipient(job: &Job) -> Option<(&str, PathBuf)> {
    let to = variable(job, "MAILTO").filter(|to| !to.trim().is_empty())?;
    Some((to, sendmail()?))
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
        let Some((to, sendmail)) = recipient(job) else {
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

/// A process that sends a mail.
pub struct Sending {
    /// Its process.
    pub pid: Pid,
    /// The job that has written the mail.
    pub job: String,
    /// Whether it was killed because it took too long.
    pub is_killed: bool,
    since: Moment,
}

impl Sending {
    /// The time limit of the mail.
    pub fn deadline(&self) -> Option<Moment> {
        (!self.is_killed).then(|| self.since + LONGEST)
    }
}

/// Sends a mail. sendmail gets dblock's environment, without the variables about the server.
///
/// # Errors
/// The system refused a process.
pub fn send(
    mail: &Mail,
    text: &Kept,
    job: String,
    scrubbed: &[&'static str],
    signals: &Signals,
    log: Log,
) -> io::Result<Sending> {
    let sendmail = &mail.sendmail;
    let mut file = text.file().try_clone()?;
    file.rewind()?;
    let mut command = Command::new(sendmail);
    command
        .args(["-FCronDaemon", "-i", "-odi", "-oem", "-oi", "-t"])
        .stdin(file)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    for name in notify::VARIABLES.iter().chain(scrubbed) {
        command.env_remove(name);
    }
    let prepare = || {
        restore_limit_and_dispositions();
        Ok(())
    };
    // SAFETY: it runs in the child below, which has one thread. By then std has already changed SIGPIPE.
    unsafe { command.pre_exec(prepare) };
    // SAFETY: no thread was started, so the child may do whatever the parent may.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            // Parent and child both do this, as either may be first.
            let _ = setpgid(child, child);
            Ok(Sending {
                pid: child,
                job,
                is_killed: false,
                since: Moment::now(),
            })
        }
        // Unlike `spawn`, the parent does not wait until the program is found.
        ForkResult::Child => {
            // In its own group it gets no Ctrl-C that is meant for dblock, and can be killed together with its children.
            let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
            let error = match Signals::restore_mask(&signals.inherited()) {
                Ok(()) => command.exec(),
                Err(error) => error,
            };
            log.error(format_args!(
                "{job}: cannot start {}: {}",
                sendmail.display(),
                in_words(&error)
            ));
            Ending::Code(Reason::NotFound.code()).exit()
        }
    }
}
