//! Which metrics there are. `docs/metrics.md` explains them. Whoever watches them compares them with each other, so all times are by the
//! server's clock; and a name is left alone once it is here.

use super::exposition::Family;
use super::{Answer, Thing};
use crate::base::text::ServerTime;
use crate::commands::queue::rate;
use crate::commands::status::has_expired;
use crate::cron::ListedJob;

/// All metrics of an answer. One without a value is left out.
pub fn families(answer: &Answer) -> Vec<Family> {
    let mut all = about_server(answer);
    if answer.server.is_some() {
        all.extend(about_locks(answer));
        all.extend(about_jobs(answer));
        all.extend(about_queues(answer));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "as Prometheus has it")]
fn number(number: impl TryInto<u64>) -> f64 {
    number.try_into().unwrap_or(u64::MAX) as f64
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A moment, in seconds since 1970.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the microsecond for centuries"
)]
fn moment(at: ServerTime) -> f64 {
    at.micros() as f64 / 1e6
}

fn about_server(answer: &Answer) -> Vec<Family> {
    let mut up = Family::new("up", "Whether a server has answered");
    let mut build = Family::new("build_info", "The dblock that asked");
    let mut info = Family::new("server_info", "The server that answered");
    let mut time = Family::seconds("answer_timestamp", "The server's time of the answer");
    let mut took = Family::seconds("answer_duration", "How long it took to connect and to ask");
    let mut tables = Family::new(
        "tables_usable",
        "Whether dblock's tables are there, and can be used by this account and this dblock",
    );
    let mut omitted = Family::new(
        "omitted",
        "Things of each kind that are left out because of --limit",
    );
    up.add([], truth(answer.server.is_some()));
    build.add([("version", env!("CARGO_PKG_VERSION"))], 1.0);
    if let Some(server) = &answer.server {
        info.add(
            [("product", &*server.product), ("version", &server.version)],
            1.0,
        );
        time.add([], moment(server.now));
        took.add([], answer.took.as_secs_f64());
        tables.add([], truth(answer.has_tables));
    }
    for (thing, left_out) in &answer.omitted {
        let kind = match thing {
            Thing::Lock => "lock",
            Thing::Job => "job",
            Thing::Queue => "queue",
        };
        omitted.add([("kind", kind)], number(*left_out));
    }
    vec![up, build, info, time, took, tables, omitted]
}

fn about_locks(answer: &Answer) -> Vec<Family> {
    let now = answer
        .server
        .as_ref()
        .map_or(0.0, |server| moment(server.now));
    let mut held = Family::new("lock_slots_held", "Slots of the lock that are held");
    let mut expired = Family::new(
        "lock_slots_expired",
        "Slots whose holder died, or lost the server, and whose lease is over",
    );
    let mut since = Family::seconds("lock_held_since_timestamp", "When the slot was acquired");
    let mut waiters = Family::new("lock_waiters", "Callers that wait for the lock");
    let mut longest = Family::seconds(
        "lock_longest_wait",
        "How long the caller that has waited longest has waited",
    );
    for lock in &answer.locks.locks {
        // Two locks may have one name: that of the name, and that of a key.
        let of_lock = || {
            let key = lock.key.as_deref().map(|key| ("key", key));
            [("name", &*lock.name)].into_iter().chain(key)
        };
        let (mut holders, mut of_the_dead) = (0, 0);
        for holder in &lock.holders {
            if holder.durable.as_ref().is_some_and(has_expired) {
                of_the_dead += 1;
                continue;
            }
            holders += 1;
            if let Some(span) = holder.held_for {
                let slot = holder.slot.to_string();
                let labels = of_lock().chain([("slot", &*slot)]);
                since.add(labels, now - span.as_secs_f64());
            }
        }
        held.add(of_lock(), f64::from(holders));
        expired.add(of_lock(), f64::from(of_the_dead));
        waiters.add(of_lock(), number(lock.waiters.len()));
        let waits = lock.waiters.iter().filter_map(|waiter| waiter.waits_for);
        if let Some(span) = waits.max() {
            longest.add(of_lock(), span.as_secs_f64());
        }
    }
    vec![held, expired, since, waiters, longest]
}

fn about_jobs(answer: &Answer) -> Vec<Family> {
    let cron = &answer.cron;
    let mut next = Family::seconds("cron_job_next_tick_timestamp", "When the job is due next");
    let mut late = Family::seconds(
        "cron_job_late",
        "How late the job's next tick is; 0: it is not",
    );
    let mut paused = Family::new("cron_job_paused", "Whether the job is paused");
    let mut running = Family::new("cron_job_running", "Ticks of the job that run");
    let mut started = Family::seconds(
        "cron_job_last_run_timestamp",
        "When the job's last run started",
    );
    let mut took = Family::seconds(
        "cron_job_last_run_duration",
        "How long the job's last run took; none while it runs",
    );
    let mut result = Family::new(
        "cron_job_last_run_succeeded",
        "Whether the job's last run exited with 0; none while it runs",
    );
    let mut success = Family::seconds(
        "cron_job_last_success_timestamp",
        "When the job's last run that exited with 0 ended",
    );
    // A job that was removed from all files is no concern of whoever is on call.
    for job in cron.jobs.iter().filter(|job| !cron.is_in_no_file(job)) {
        let name = [("name", &*job.name)];
        if let Some(at) = cron.next(job) {
            next.add(name, moment(at));
        }
        late.add(name, cron.late(job).map_or(0.0, |span| span.as_secs_f64()));
        paused.add(name, truth(job.paused.is_some()));
        let ticks = cron.ticks_of(job).filter(|tick| tick.host.is_some());
        running.add(name, number(ticks.count()));
        if let Some(last) = &job.last {
            if let Some(at) = last.started.or(last.acquired) {
                started.add(name, moment(at));
            }
            if job.outcome.is_some() {
                took.add(name, last.ran.map_or(0.0, |span| span.0.as_secs_f64()));
                result.add(name, truth(job.has_succeeded()));
            }
        }
        if let Some(at) = last_success(job, answer) {
            success.add(name, moment(at));
        }
    }
    let mut alive = Family::new("cron_daemons", "dblock cron run that are alive");
    let mut differ = Family::new(
        "cron_daemons_that_differ",
        "Of these, those whose file has another schedule, or another command, for a job",
    );
    if answer.omitted.iter().any(|(thing, _)| *thing == Thing::Job) {
        let of_living = cron.daemons.iter().filter(|daemon| daemon.alive);
        alive.add([], number(of_living.clone().count()));
        let differs =
            of_living.filter(|daemon| !(daemon.differs.is_empty() && daemon.disagrees.is_empty()));
        differ.add([], number(differs.count()));
    }
    vec![
        next, late, paused, running, started, took, result, success, alive, differ,
    ]
}

/// When the latest run of a job that succeeded ended.
fn last_success(job: &ListedJob, answer: &Answer) -> Option<ServerTime> {
    let of_last = job.last.as_ref().filter(|_| job.has_succeeded());
    let mut earlier = answer.successes.iter();
    of_last.and_then(|run| run.ended).or_else(|| {
        earlier
            .find(|(name, _)| *name == job.name)
            .map(|(_, ended)| *ended)
    })
}

fn about_queues(answer: &Answer) -> Vec<Family> {
    let mut jobs = Family::new(
        "queue_jobs",
        "Jobs of the queue in this state, as far as they were counted",
    );
    let mut more = Family::new(
        "queue_jobs_uncounted",
        "Whether there are more jobs than were counted",
    );
    let mut oldest = Family::seconds(
        "queue_oldest_due",
        "How long the oldest due job that was counted has been due; 0: none is due",
    );
    let mut done = Family::new(
        "queue_done_per_minute",
        "Jobs done a minute, over the last five whole minutes",
    );
    let mut failed = Family::new(
        "queue_failed_per_minute",
        "Attempts failed a minute, over the last five whole minutes",
    );
    let mut workers = Family::new("queue_workers", "Workers of the queue that are alive");
    let mut paused = Family::new("queue_paused", "Whether the queue is paused");
    for (queue, of_queue) in &answer.queues {
        let name = ("name", &*queue.name);
        for (state, count) in [
            ("due", queue.due),
            ("delayed", queue.delayed),
            ("running", queue.running),
            ("dead", queue.dead),
        ] {
            let labels = [name, ("state", state)];
            jobs.add(labels, number(count.jobs));
            more.add(labels, truth(count.more));
        }
        oldest.add([name], queue.oldest_due.unwrap_or_default().as_secs_f64());
        done.add([name], rate(queue.done));
        failed.add([name], rate(queue.failed));
        let alive = of_queue.iter().filter(|(worker, _)| worker.alive);
        workers.add([name], number(alive.count()));
        paused.add([name], truth(queue.paused.is_some()));
    }
    vec![jobs, more, oldest, done, failed, workers, paused]
}
