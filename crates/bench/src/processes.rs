//! Many processes, and what their commands recorded.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::mkfifo;

use super::Result;

/// From one look at a condition to the next, and at most until it comes true.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const ASK_AGAIN: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub fn until(what: &str, is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    until_by(LOOK_AGAIN, what, is_so)
}

/// Waits until a server says that something is so: to be asked all the time would keep it from its work.
pub fn until_server_says(what: &str, is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    until_by(ASK_AGAIN, what, is_so)
}

fn until_by(pause: Duration, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(format!("this did not come in time: {what}").into());
        }
        sleep(pause);
    }
    Ok(())
}

/// Waits until a file has so many lines.
pub fn until_lines(what: &str, file: &str, count: usize) -> Result<()> {
    until(what, || {
        let text = fs::read_to_string(file).unwrap_or_default();
        Ok(text.lines().count() == count)
    })
}

/// Runs a program to its end.
pub fn expect_success(program: &mut Command) -> Result<()> {
    let status = program.status()?;
    if !status.success() {
        return Err(format!("{program:?}: {status}").into());
    }
    Ok(())
}

/// The clock of the records.
pub fn now() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Processes that were started and not yet waited for. Those that still run are killed when this goes, and also when this
/// program is.
#[derive(Default)]
pub struct Callers(pub Vec<Child>);

impl Callers {
    pub fn start(count: usize, mut caller: impl FnMut(usize) -> Command) -> Result<Self> {
        let mut callers = Self::default();
        for number in 0..count {
            callers.add(caller(number))?;
        }
        Ok(callers)
    }

    pub fn add(&mut self, mut command: Command) -> Result<()> {
        let last_steps = || Ok(prctl::set_pdeathsig(Signal::SIGKILL)?);
        // SAFETY: makes one system call.
        unsafe { command.pre_exec(last_steps) };
        self.0.push(command.spawn()?);
        Ok(())
    }

    /// Waits for all; how many ended with this code, where no other is a good one but 0.
    pub fn wait(&mut self, code: i32) -> Result<usize> {
        let mut with_code = 0;
        for caller in &mut self.0 {
            let mut status = None;
            until("the end of a caller", || {
                status = caller.try_wait()?;
                Ok(status.is_some())
            })?;
            match status.and_then(|status| status.code()) {
                Some(ended) if ended == code => with_code += 1,
                Some(0) => {}
                // It was to end before it had begun.
                None if status.and_then(|status| status.signal())
                    == Some(Signal::SIGTERM as i32) => {}
                _ => return Err(format!("a caller failed: {status:?}").into()),
            }
        }
        self.0.clear();
        Ok(with_code)
    }

    /// How many have ended.
    pub fn ended(&mut self) -> Result<usize> {
        let mut ended = 0;
        for caller in &mut self.0 {
            ended += usize::from(caller.try_wait()?.is_some());
        }
        Ok(ended)
    }

    /// Waits for all, and reads what so many commands recorded.
    pub fn records(mut self, file: &str, commands: usize) -> Result<Records> {
        self.wait(0)?;
        Records::read(file, commands)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        for caller in &mut self.0 {
            // What was waited for is not signalled.
            let _ = caller.kill();
            let _ = caller.wait();
        }
    }
}

/// Keeps commands running (`job FILE FIFO`) until it is dropped.
pub struct Gate {
    pub path: String,
    #[allow(dead_code, reason = "it is enough that it is open")]
    writer: File,
}

impl Gate {
    pub fn close(path: String) -> Result<Self> {
        let _ = fs::remove_file(&path);
        mkfifo(path.as_str(), Mode::S_IRWXU)?;
        // Both ends of it, so that nobody has to wait for the other.
        let writer = File::options().read(true).write(true).open(&path)?;
        Ok(Self { path, writer })
    }
}

/// When commands started and ended, both in order of time.
pub struct Records {
    pub starts: Vec<Duration>,
    pub ends: Vec<Duration>,
}

impl Records {
    pub fn read(file: &str, commands: usize) -> Result<Self> {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for line in fs::read_to_string(file)?.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().ok_or("not a record");
            let (event, nanos) = (word()?, word()?);
            let at = Duration::from_nanos(nanos.parse()?);
            match event {
                "start" => starts.push(at),
                _ => ends.push(at),
            }
        }
        if starts.len() != commands || ends.len() != commands {
            return Err(format!("{} of {commands} commands ended", ends.len()).into());
        }
        starts.sort();
        ends.sort();
        Ok(Self { starts, ends })
    }

    /// From each end to the start that it made room for. The slots are full when so many have started, and from then on
    /// the first start belongs to the first end, the second to the second. What ended before they were full left room for
    /// one that was on its way: that is no hand-over.
    pub fn hand_overs(&self, slots: usize) -> Result<Vec<f64>> {
        let full = self.starts[slots - 1];
        let mut hand_overs = Vec::new();
        for (start, end) in self.starts[slots..].iter().zip(&self.ends) {
            let between = start.checked_sub(*end);
            let between =
                between.ok_or_else(|| format!("more than {slots} commands ran at once"))?;
            if *end >= full {
                hand_overs.push(between.as_secs_f64());
            }
        }
        Ok(hand_overs)
    }

    /// Fails unless the commands of each name ran one after another, so many of them.
    pub fn expect_one_at_a_time(file: &str, each: usize) -> Result<()> {
        for (name, events) in Self::of_names(file)? {
            if overlaps(&events) > 0 || events.len() != 2 * each {
                return Err(format!("the commands of {name} did not run one after another").into());
            }
        }
        Ok(())
    }

    /// How often a command started while another one of the same name ran.
    pub fn overlaps(file: &str) -> Result<usize> {
        let of_names = Self::of_names(file)?;
        Ok(of_names.values().map(|events| overlaps(events)).sum())
    }

    /// The events of each name in order: when, and whether a command started.
    pub fn of_names(file: &str) -> Result<BTreeMap<String, Vec<(Duration, bool)>>> {
        let mut of_names: BTreeMap<String, Vec<(Duration, bool)>> = BTreeMap::new();
        for line in fs::read_to_string(file)?.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [event, nanos, name] = words[..] else {
                return Err("a record without a name".into());
            };
            let at = Duration::from_nanos(nanos.parse()?);
            let of_name = of_names.entry(name.to_owned()).or_default();
            of_name.push((at, event == "start"));
        }
        for events in of_names.values_mut() {
            events.sort();
        }
        Ok(of_names)
    }

    pub fn makespan(&self, slots: usize) -> Result<f64> {
        self.hand_overs(slots)?;
        self.end_after(self.starts[0])
    }

    /// From this moment to the end of the last command.
    pub fn end_after(&self, begun: Duration) -> Result<f64> {
        let last = self.ends.last().ok_or("no command ended")?;
        let between = last.checked_sub(begun).ok_or("an end before the start")?;
        Ok(between.as_secs_f64())
    }
}

/// How many of these events, in order, are starts while another command ran.
fn overlaps(events: &[(Duration, bool)]) -> usize {
    let (mut running, mut overlaps) = (0_usize, 0);
    for (_, starts) in events {
        if *starts {
            overlaps += usize::from(running > 0);
            running += 1;
        } else {
            running = running.saturating_sub(1);
        }
    }
    overlaps
}

/// The processes that a process has started and not waited for.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children = children.split_whitespace().map(str::parse);
    Ok(children.collect::<std::result::Result<_, _>>()?)
}

/// Both processes of a dblock: its own, and the one that it has started under this name.
pub fn both(dblock: u32, second: &str) -> Result<[u32; 2]> {
    for child in children(dblock)? {
        let name = fs::read_to_string(format!("/proc/{child}/comm"))?;
        if name.trim() == second {
            return Ok([dblock, child]);
        }
    }
    Err(format!("a dblock has no {second}").into())
}

/// Bytes of a process's memory.
#[derive(Default)]
pub struct Memory {
    pub resident: f64,
    /// What no other process has.
    pub private: f64,
    /// That, and of each page that several have as much as one of them.
    pub share: f64,
}

impl Memory {
    pub fn of(pid: u32) -> Result<Self> {
        let mut memory = Self::default();
        for line in fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?.lines() {
            let mut words = line.split_whitespace();
            let (field, value) = (words.next(), words.next());
            let Some(kilobytes) = value.and_then(|value| value.parse::<f64>().ok()) else {
                continue;
            };
            let to = match field {
                Some("Rss:") => &mut memory.resident,
                Some("Private_Clean:" | "Private_Dirty:") => &mut memory.private,
                Some("Pss:") => &mut memory.share,
                _ => continue,
            };
            *to += kilobytes * 1024.0;
        }
        Ok(memory)
    }
}

/// The most resident memory that a process ever had, in bytes.
pub fn peak_memory(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("a strange status")?
        .parse()?;
    Ok(kilobytes * 1024.0)
}
