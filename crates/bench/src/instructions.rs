//! Instructions from exec to the command's start, both processes, and where they go: counted by callgrind, so that noise is
//! no matter.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Result;
use super::processes::{Gate, until};
use super::setup::{ACCOUNT, Server, Setup};
use super::table::{Row, Table, Unit};

const PART: &str = "instructions";

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let Some(binary) = &setup.with_symbols else {
        eprintln!("  left out: this takes a build with symbols");
        return Ok(());
    };
    let counted = Counted::new(setup, binary, &setup.mariadb)?;
    let of = |what: &str, figure| Row::one(PART, what, Unit::Count, figure);
    let supervisor = of(
        "instructions of the supervisor, from exec to the command's start",
        counted.supervisor,
    );
    let keeper = of(
        "instructions of the keeper, from fork to the grant",
        counted.keeper,
    );
    table.add(supervisor.clone());
    for (what, figure) in [
        ("of these: dynamic linking", counted.linking),
        ("of these: the command line (clap)", counted.options),
    ] {
        table.add(of(what, figure).against(&supervisor, "all"));
    }
    table.add(keeper.clone());
    let what = "of these: two regular expressions of the `mysql` crate's, for the server's version";
    table.add(of(what, counted.expressions).against(&keeper, "all"));
    Ok(())
}

struct Counted {
    supervisor: f64,
    linking: f64,
    options: f64,
    keeper: f64,
    expressions: f64,
}

impl Counted {
    fn new(setup: &Setup, binary: &str, server: &Server) -> Result<Self> {
        let folder = format!("{}/callgrind", setup.folder);
        fs::create_dir_all(&folder)?;
        let gate = Gate::close(format!("{}/gate", setup.folder))?;
        let records = format!("{folder}/records");
        let prefix = format!("--vgdb-prefix={}/vgdb", setup.folder);
        let mut dblock = setup
            .program("valgrind", &server.url(ACCOUNT))
            .args([
                &prefix,
                "--tool=callgrind",
                &format!("--callgrind-out-file={folder}/of.%p"),
            ])
            .args([binary, "run", "--name", "instructions", "--"])
            .args(setup.job(&records))
            .arg(&gate.path)
            .stderr(Stdio::null())
            .spawn()?;
        until("the command runs", || {
            Ok(fs::metadata(&records).is_ok_and(|file| file.len() > 0))
        })?;
        let pid = dblock.id();
        let dump = format!("{folder}/of.{pid}.1");
        // What it has done so far. The keeper cannot be asked so, but tells when it ends, as it does after its supervisor.
        let control = Command::new("callgrind_control")
            .args([&prefix, "-d", &pid.to_string()])
            .output()?;
        until("the supervisor's figures", || {
            Ok(fs::metadata(&dump).is_ok())
        })
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&control.stderr)))?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
        dblock.wait()?;
        let mut of_keeper = None;
        until("the keeper's figures", || {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let text = fs::read_to_string(&path)?;
                let is_its = path.to_string_lossy().contains("/of.")
                    && !path.to_string_lossy().contains(&pid.to_string());
                if is_its && text.contains("totals:") {
                    of_keeper = Some(path);
                }
            }
            Ok(of_keeper.is_some())
        })?;
        let supervisor = Profile::read(&dump)?;
        let keeper = Profile::read(&of_keeper.unwrap_or_default().to_string_lossy())?;
        Ok(Self {
            supervisor: supervisor.total,
            linking: supervisor.total - supervisor.of("(below main) [")?,
            options: supervisor.of("settings::cli::parse")?,
            // All that it does, less what it does while it holds the lock.
            keeper: keeper.of("process::guarded")? - keeper.of("::Guard::")?,
            expressions: keeper.of("regex::bytes::Regex::new ")?,
        })
    }
}

/// Instructions of functions, with all that they call.
struct Profile {
    total: f64,
    lines: Vec<(f64, String)>,
}

impl Profile {
    fn read(file: &str) -> Result<Self> {
        let output = Command::new("callgrind_annotate")
            .args(["--inclusive=yes", "--threshold=100", "--auto=no", file])
            .output()?;
        let mut lines = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((count, name)) = line.trim_start().split_once(" (") else {
                continue;
            };
            if let Ok(count) = count.trim().replace(',', "").parse() {
                lines.push((count, name.to_owned()));
            }
        }
        let total = lines
            .iter()
            .find(|(_, name)| name.contains("PROGRAM TOTALS"));
        let total = total.ok_or("callgrind_annotate has no total")?.0;
        Ok(Self { total, lines })
    }

    fn of(&self, function: &str) -> Result<f64> {
        let of = self
            .lines
            .iter()
            .filter(|(_, name)| name.contains(function));
        let most = of.map(|(count, _)| *count).max_by(f64::total_cmp);
        most.ok_or_else(|| format!("callgrind saw nothing of {function}").into())
    }
}
