//! The output of runs and of jobs that is kept: its first and its last bytes, and how many are left out between them. It is in a table of
//! its own, and goes with its run or its job. A write may be repeated.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::kept::{BATCH, BY_KEY, WINDOW, delete_rows, some_time};
use crate::base::value::{one_of, shown_safely};
use crate::db::{Ask, Fault, Kind, Session, ask, ask_value, ask_values, named};
use crate::schema::{JOBS, OUTPUTS, QUEUES, Tables};

/// How many bytes of the beginning are kept.
const HEAD: usize = 4096;

/// How many bytes are kept in all, unless somebody asks for another number.
pub const KEPT: usize = 64 * 1024;

/// The most that anybody can ask for: in a statement, and in an answer, it takes twice as many, and the client of MySQL limits both to 1
/// MiB.
const MOST_KEPT: usize = 480 * 1024;

/// The most outputs that wait for the ends of their runs.
const MOST_PENDING: usize = 64;

/// The most bytes of a part, so that it fits into a message.
const PART: usize = 16 * 1024;

/// How many bytes of an output are to be kept in all: a number with or without the letter k.
///
/// # Errors
/// It is none, or too small or too large.
pub fn size_to_keep(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 1024),
        _ => (text, 1),
    };
    let size = digits.parse::<usize>().ok();
    let size = size.and_then(|size| size.checked_mul(unit));
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    size.filter(|size| is_digits && (2 * HEAD..=MOST_KEPT).contains(size))
        .ok_or_else(|| format!("{} is not a size from 8k to 480k", shown_safely(text)))
}

/// Of which runs or jobs the output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOutput {
    /// Of those that have failed.
    Failed,
    /// Of all.
    All,
    /// Of none.
    None,
}

impl KeepOutput {
    /// The words.
    pub const WORDS: [(&str, Self); 3] = [
        ("failed", Self::Failed),
        ("all", Self::All),
        ("none", Self::None),
    ];

    /// Reads a word.
    ///
    /// # Errors
    /// It is another one.
    pub fn parse(text: &str) -> Result<Self, String> {
        one_of(&Self::WORDS, text)
    }

    /// Whether that of a run or job is kept that has failed, or has not.
    pub fn keeps(self, has_failed: bool) -> bool {
        match self {
            Self::Failed => has_failed,
            Self::All => true,
            Self::None => false,
        }
    }
}

/// What is kept of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// How many bytes of the end are kept.
    room: usize,
    head: Vec<u8>,
    /// How many are left out.
    omitted: u64,
    tail: VecDeque<u8>,
}

/// A part of what is kept, for another process. They come in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPart {
    is_tail: bool,
    omitted: u64,
    bytes: Vec<u8>,
}

impl KeptOutput {
    /// Nothing yet. Keeps this many bytes in all.
    pub fn new(most: usize) -> Self {
        Self {
            room: most.saturating_sub(HEAD),
            head: Vec::new(),
            omitted: 0,
            tail: VecDeque::new(),
        }
    }

    /// How many bytes of the end are kept.
    pub fn room(&self) -> usize {
        self.room
    }

    /// How many bytes the beginning still lacks.
    pub fn lacks(&self) -> usize {
        HEAD - self.head.len()
    }

    /// Adds what was written next.
    pub fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.lacks()));
        self.head.extend_from_slice(head);
        let (left_out, rest) = rest.split_at(rest.len().saturating_sub(self.room));
        if !left_out.is_empty() {
            self.leave_out(left_out.len());
        }
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.room);
        self.tail.drain(..excess);
        self.omitted += excess as u64;
        self.tail.extend(rest);
    }

    /// As many bytes were written, and as many as there is [room](Self::room) for follow. The beginning must be complete.
    pub fn leave_out(&mut self, bytes: usize) {
        self.omitted += (self.tail.len() + bytes) as u64;
        self.tail.clear();
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// The first bytes, how many are left out, and the last ones.
    pub fn pieces(&mut self) -> (&[u8], u64, &[u8]) {
        (&self.head, self.omitted, self.tail.make_contiguous())
    }

    /// It in parts, at least one.
    pub fn parts(&self) -> Vec<OutputPart> {
        if self.is_empty() {
            return vec![OutputPart {
                is_tail: false,
                omitted: 0,
                bytes: Vec::new(),
            }];
        }
        let (one, other) = self.tail.as_slices();
        let pieces = [(false, &*self.head), (true, one), (true, other)];
        let parts = pieces.into_iter().flat_map(|(is_tail, bytes)| {
            bytes.chunks(PART).map(move |bytes| OutputPart {
                is_tail,
                omitted: self.omitted,
                bytes: bytes.to_vec(),
            })
        });
        parts.collect()
    }

    /// Adds a part of another one.
    pub fn take_in(&mut self, part: &OutputPart) {
        self.omitted = part.omitted;
        if part.is_tail {
            self.tail.extend(&part.bytes);
        } else {
            self.head.extend_from_slice(&part.bytes);
        }
    }

    /// The statement that records it as that of a run, unless the history has no such run.
    pub fn of_run(&self, tables: &Tables, run: &str) -> String {
        let kind = tables.kind();
        let source = format!(
            "SELECT r.run, r.name, NULL, {} FROM {} r WHERE r.run = {}",
            self.values(kind),
            tables.runs(),
            kind.literal(run)
        );
        Self::insert(tables, &source)
    }

    /// The statement that records it as that of the last attempt of a job, unless the job is deleted.
    pub fn of_job(&self, tables: &Tables, job: u64) -> String {
        let kind = tables.kind();
        let key = kind.literal(&job.to_string());
        if self.is_empty() {
            let outputs = tables.of(&OUTPUTS);
            let delete = format!("DELETE FROM {outputs} WHERE run = {key}");
            return named("record output", delete);
        }
        let source = format!(
            "SELECT {key}, q.name, j.id, {} FROM {} j JOIN {} q ON q.id = j.queue WHERE j.id = {job}",
            self.values(kind),
            tables.of(&JOBS),
            tables.of(&QUEUES)
        );
        Self::insert(tables, &source)
    }

    fn insert(tables: &Tables, source: &str) -> String {
        let kind = tables.kind();
        let again = ["kept_at", "head", "omitted", "tail"];
        let again = again.map(|column| format!("{column} = {}", kind.inserted(column)));
        let sql = format!(
            "INSERT INTO {} (run, name, job, kept_at, head, omitted, tail) {source} {} {}",
            tables.of(&OUTPUTS),
            kind.if_there("run"),
            again.join(", ")
        );
        named("record output", sql)
    }

    fn values(&self, kind: Kind) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = (kind.bytes(&self.head), kind.bytes(&tail));
        format!("{}, {head}, {}, {tail}", kind.now(), self.omitted)
    }
}

/// What is to be kept of the outputs of runs or jobs whose ends are not recorded yet. Only so many: no server may answer for an hour.
#[derive(Debug, Clone)]
pub struct PendingOutputs<K> {
    outputs: HashMap<K, KeptOutput>,
    /// How many were dropped, as there were too many.
    dropped: usize,
    /// Whether it was said why one is not kept.
    is_reported: bool,
}

impl<K: Hash + Eq> PendingOutputs<K> {
    /// There are none.
    pub fn new() -> Self {
        Self {
            outputs: HashMap::new(),
            dropped: 0,
            is_reported: false,
        }
    }

    /// Adds a part of one.
    pub fn take_in(&mut self, key: K, part: &OutputPart) {
        if self.outputs.len() >= MOST_PENDING && !self.outputs.contains_key(&key) {
            // That nothing was written is not worth another's output.
            if part.bytes.is_empty() {
                return;
            }
            // The end of one may never be recorded.
            let mut one = true;
            self.outputs.retain(|_, _| !std::mem::take(&mut one));
            self.dropped += 1;
        }
        let output = self.outputs.entry(key);
        output.or_insert_with(|| KeptOutput::new(0)).take_in(part);
    }

    /// Why some are not kept, if there were too many; for [`Self::says_why`].
    pub fn why_dropped(&self) -> Option<String> {
        let dropped = self.dropped;
        (dropped > 0).then(|| {
            format!("{dropped} were dropped, as only {MOST_PENDING} wait for the ends of their runs or jobs to be recorded")
        })
    }

    /// Whether to say why one is not kept: the first time.
    pub fn says_why(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// Drops all: their runs or jobs are others'.
    pub fn clear(&mut self) {
        self.outputs.clear();
    }

    /// Takes one out, as the end is recorded.
    pub fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<KeptOutput>
    where
        K: Borrow<Q>,
    {
        self.outputs.remove(key)
    }
}

/// Whose output is asked for.
#[derive(Debug, Clone)]
pub enum WhoseOutput {
    /// That of the run with this number, in upper or lower case.
    Run(String),
    /// That of the latest run of this name that has some, or of the latest job of a queue.
    Name(String),
    /// That of this job of this queue.
    Job(String, u64),
}

/// Looks for an output.
pub fn ask_output(tables: &Tables, whose: &WhoseOutput) -> Ask<'static, Option<KeptOutput>> {
    let literal = |text: &str| tables.kind().literal(text);
    let hex = match tables.kind() {
        Kind::MySql => ["HEX(o.head)", "HEX(o.tail)"],
        Kind::Postgres => ["encode(o.head, 'hex')", "encode(o.tail, 'hex')"],
    };
    let which = match whose {
        WhoseOutput::Run(run) => format!("o.run = {}", literal(&run.to_ascii_lowercase())),
        WhoseOutput::Name(name) => format!("o.name = {}", literal(name)),
        WhoseOutput::Job(queue, job) => format!(
            "o.run = {} AND o.name = {}",
            literal(&job.to_string()),
            literal(queue)
        ),
    };
    let sql = format!(
        "SELECT {} AS head, o.omitted, {} AS tail FROM {} o WHERE {which} ORDER BY o.name DESC, o.kept_at DESC LIMIT 1",
        hex[0],
        hex[1],
        tables.of(&OUTPUTS)
    );
    ask("output", sql, |rows| {
        rows.optional(|row| {
            let bytes = |column| Ok::<_, Fault>(of_hex(&row.get::<Vec<u8>>(column)?));
            Ok(KeptOutput {
                room: 0,
                head: bytes("head")?,
                omitted: row.get("omitted")?,
                tail: bytes("tail")?.into(),
            })
        })
    })
}

/// The bytes that hexadecimal digits stand for.
fn of_hex(digits: &[u8]) -> Vec<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default();
    let bytes = digits.chunks_exact(2);
    let bytes = bytes.map(|pair| value(pair[0]) << 4 | value(pair[1]));
    bytes
        .map(|byte| u8::try_from(byte).unwrap_or_default())
        .collect()
}

/// The condition that there is an output of the run in the row `r`.
pub(super) fn has_output(tables: &Tables) -> String {
    format!(
        "EXISTS (SELECT 1 FROM {} o WHERE o.run = r.run)",
        tables.of(&OUTPUTS)
    )
}

/// Deletes the outputs of these runs or jobs, a few at a time. An account that may not use the table, which is newer than the others,
/// leaves them to others.
///
/// # Errors
/// [`Fault::Gone`].
pub(super) fn delete_outputs(
    tables: &Tables,
    runs: &[String],
    session: &mut Session,
) -> Result<(), Fault> {
    if !tables.has_outputs() {
        return Ok(());
    }
    for runs in runs.chunks(BATCH) {
        let deletions = runs.iter().map(|run| deletion(tables, run));
        match delete_rows(deletions.collect(), session) {
            Err(fault @ Fault::Gone(_)) => return Err(fault),
            Err(_) => break,
            Ok(()) => {}
        }
    }
    Ok(())
}

/// The statement that deletes the output of a run or job.
fn deletion(tables: &Tables, run: &str) -> String {
    let outputs = tables.of(&OUTPUTS);
    let run = tables.kind().literal(run);
    named("prune", format!("DELETE FROM {outputs} WHERE run = {run}"))
}

/// Deletes some outputs whose run or job is gone: an older dblock has deleted it, or an account that may not use their table, or a person.
///
/// # Errors
/// As [`delete_outputs`].
pub fn prune_outputs(tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    if !tables.has_outputs() {
        return Ok(());
    }
    let chance = getrandom::u64().unwrap_or_default();
    let start = match chance % 8 {
        0 => String::new(),
        // The keys of jobs are their numbers, which have a small part of all keys to themselves.
        1..4 if tables.kind() == Kind::MySql => {
            let newest = format!("SELECT MAX(id) FROM {}", tables.of(&JOBS));
            let newest = session.try_run(&ask_value::<u64>("newest job", newest))?;
            let newest = newest.ok().flatten().unwrap_or_default();
            (chance % newest.saturating_add(1)).to_string()
        }
        // So have those of runs, which begin with the time, and so come before the number of any job.
        1..7 => {
            let range = session.try_run(&ask_range_of_ids(tables))?;
            let (oldest, now) = range.unwrap_or_default();
            start_of_ids(&oldest, now)
        }
        // An older dblock has made them of random digits alone.
        _ => format!("{chance:016x}"),
    };
    let which = format!("run >= {}", tables.kind().literal(&start));
    delete_lost(tables, &which, (WINDOW, BATCH), session)
}

/// Asks for the smallest key, or an empty text if there is none, and for the server's time in microseconds since 1970.
fn ask_range_of_ids(tables: &Tables) -> Ask<'static, (String, i64)> {
    let kind = tables.kind();
    let sql = format!(
        "SELECT (SELECT MIN(run) FROM {}) AS oldest, {} AS server_time",
        tables.of(&OUTPUTS),
        kind.micros(kind.now())
    );
    ask("oldest output", sql, |rows| {
        let row = rows.one()?;
        Ok((row.get_or_default("oldest")?, row.get("server_time")?))
    })
}

/// What the id of a run begins with that was requested some time between that of the oldest id and now, in microseconds since 1970.
fn start_of_ids(oldest: &str, now: i64) -> String {
    let oldest = oldest.get(..12);
    let oldest = oldest.and_then(|millis| i64::from_str_radix(millis, 16).ok());
    let time = some_time(oldest.unwrap_or_default(), now / 1000);
    format!("{time:012x}")
}

/// Deletes the outputs of those of these jobs of a queue that are gone.
///
/// # Errors
/// As [`delete_outputs`].
pub fn delete_outputs_of_jobs(
    tables: &Tables,
    jobs: impl Iterator<Item = u64>,
    session: &mut Session,
) -> Result<(), Fault> {
    let keys: Vec<String> = jobs.map(|job| job.to_string()).collect();
    if keys.is_empty() || !tables.has_outputs() {
        return Ok(());
    }
    let which = format!("run IN ({})", tables.kind().literals(&keys));
    delete_lost(tables, &which, (keys.len(), keys.len()), session)
}

/// Deletes those of this many outputs whose run or job is gone, and as many as that at most.
fn delete_lost(
    tables: &Tables,
    which: &str,
    (window, most): (usize, usize),
    session: &mut Session,
) -> Result<(), Fault> {
    match session.try_run(&ask_lost(tables, which, window).up_to(most))? {
        Ok(lost) => delete_outputs(tables, &lost, session),
        Err(_) => Ok(()),
    }
}

fn ask_lost(tables: &Tables, which: &str, window: usize) -> Ask<'static, Vec<String>> {
    let (outputs, runs) = (tables.of(&OUTPUTS), tables.runs());
    let some = |columns: &str, hint: &str| {
        format!(
            "(SELECT {columns} FROM {outputs} {hint} WHERE {which} ORDER BY run LIMIT {window}) o"
        )
    };
    let sql = match tables.kind() {
        // Each is looked up: for NOT EXISTS MariaDB may read a whole index. The output of a job has no run, and that of a run no job.
        Kind::MySql => format!(
            "SELECT o.run FROM {} LEFT JOIN {runs} r {BY_KEY} ON r.run = o.run LEFT JOIN {} j {BY_KEY} ON j.id = o.job \
             WHERE r.run IS NULL AND j.id IS NULL ORDER BY o.run",
            some("run, job", BY_KEY),
            tables.of(&JOBS)
        ),
        Kind::Postgres => format!(
            "SELECT o.run FROM {} WHERE NOT EXISTS (SELECT 1 FROM {runs} r WHERE r.run = o.run) ORDER BY o.run",
            some("run", "")
        ),
    };
    ask_values("lost outputs", sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of these pieces, by crossing to another process.
    fn kept(most: usize, pieces: &[&[u8]]) -> (Vec<u8>, u64, Vec<u8>) {
        let mut output = KeptOutput::new(most);
        for piece in pieces {
            output.add(piece);
        }
        let mut crossed = KeptOutput::new(most);
        for part in output.parts() {
            crossed.take_in(&part);
        }
        assert_eq!(crossed, output);
        let tail = output.tail.iter().copied().collect();
        (output.head, output.omitted, tail)
    }

    #[test]
    fn the_first_and_the_last_bytes_are_kept_and_the_others_counted() {
        let all: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        for piece in [1, 7, 4096, 5000, 100_000] {
            let pieces: Vec<&[u8]> = all.chunks(piece).collect();
            let (head, omitted, tail) = kept(10_000, &pieces);
            assert_eq!((head.len(), omitted, tail.len()), (4096, 90_000, 5904));
            assert!(all.starts_with(&head) && all.ends_with(&tail), "{piece}");
        }
        assert_eq!(
            kept(8192, &[b"a\0", b"\xff"]),
            (b"a\0\xff".to_vec(), 0, vec![])
        );
        let (head, omitted, tail) = kept(8192, &[&all[..8192]]);
        assert_eq!((head.len(), omitted, tail.len()), (4096, 0, 4096));
    }

    #[test]
    fn no_more_is_kept_than_asked_for_and_all_else_is_counted_at_each_edge() {
        let all: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
        let most = 3 * HEAD;
        let edges = [HEAD, most, most + HEAD].map(|edge| [edge - 1, edge, edge + 1]);
        for length in edges.into_iter().flatten().chain([all.len()]) {
            for piece in [1, HEAD, most - HEAD, most, most + 1, length] {
                let written = &all[..length];
                let pieces: Vec<&[u8]> = written.chunks(piece).collect();
                let (head, omitted, tail) = kept(most, &pieces);
                let sizes = (head.len() + tail.len(), omitted);
                let left_out = length.saturating_sub(most);
                assert_eq!(sizes, (length - left_out, left_out as u64), "{piece}");
                assert!(written.starts_with(&head) && written.ends_with(&tail));
            }
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size_to_keep("64k"), Ok(65_536));
        assert_eq!(size_to_keep("480K"), Ok(491_520));
        assert_eq!(size_to_keep("9000"), Ok(9000));
        for wrong in [
            "",
            "k",
            "7k",
            "481k",
            "1M",
            "-9000",
            "+9000",
            "9000 ",
            "64kB",
            "99999999999999999999k",
        ] {
            assert!(size_to_keep(wrong).is_err(), "{wrong}");
        }
        assert_eq!(of_hex(b"00fF7a"), b"\0\xffz");
    }
}
