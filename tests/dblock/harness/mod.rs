//! What the tests share: servers, the program under test, the commands' own records, and what can stand between.

pub mod certificates;
pub mod cluster;
pub mod crontab;
mod dblock;
mod fake;
pub mod fake_postgres;
mod held_up;
pub mod host;
mod island;
pub mod jobs;
mod namespace;
pub mod pages;
mod pair;
mod pgbouncer;
pub mod postgres;
mod process;
mod proxy;
pub mod pty;
mod records;
mod reused;
pub mod schema;
mod server;
mod spares;
mod stalls;
mod statements;
mod tables;
mod texts;
mod unkillable;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use cluster::{Cluster, Replication, Write, url_of};
pub use crontab::Crontab;
pub use dblock::{
    Dblock, Output, Running, children_of, dblock_holds, eventually_gone, processes_with, works,
};
pub use fake::{Answer, Fake, error, framed, greeting, trickle, until_closed};
pub use held_up::{HeldUp, Time, nanos, now};
pub use island::Island;
pub use jobs::Jobs;
pub use pair::Pair;
pub use pgbouncer::PgBouncer;
pub use process::{
    Frozen, Hangs, Hung, PAIR, allow_files, copy_program, eventually_forked, group_of, has_begun,
    is_stopped, kill_both, link_program, polls, quoted, runs, send, stat_field, write_program,
};
pub use proxy::{Packet, Proxy};
pub use records::Records;
pub use server::{
    Client, Kind, Server, Setup, Watcher, has_session, holder, my_print_defaults, url_of_kind,
    url_of_port, waiters,
};
use stalls::{stalled, watch_for_stalls};
pub use tables::{OF_CRON, OF_QUEUES, Tables};
pub use texts::Texts;
pub use unkillable::{Unkillable, eventually_unkillable};

/// The account that may do everything on every test server, and its password.
pub const ADMIN: (&str, &str) = ("admin", "admin-secret");

/// The password of the account `dblock` on every test server.
pub const PASSWORD: &str = "dblock-secret";

/// Long enough for anything that comes at once, on a machine that is busy with other tests.
pub const SOON: Duration = Duration::from_secs(20);

/// For what one start of dblock does in so many, here and there: until somebody has had enough chances to do it.
pub const BY_CHANCE: Duration = Duration::from_secs(300);

/// What this machine may add now to a span of time, the start of the program included: a second where nothing else runs, and so many
/// times that as processes share a processor; and for as long as it stood still in the last minute, up to ten seconds.
pub fn slack() -> Duration {
    Duration::from_secs(1).mul_f64(sharing())
        + stalled(Duration::from_secs(60)).min(Duration::from_secs(10))
}

/// How many there are. To find out takes longer than a look at the load.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// How many processes share a processor, now or on average over the last minute, whichever are more; at least one.
fn sharing() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = load.split([' ', '/']).map(str::parse::<f64>);
    let mut number = |place| numbers.nth(place).and_then(Result::ok).unwrap_or_default();
    let (average, running) = (number(0), number(2));
    #[expect(clippy::cast_precision_loss, reason = "there are fewer")]
    let processors = *PROCESSORS as f64;
    (average.max(running) / processors).max(1.0)
}

/// Makes the tests of a function `check` on MariaDB and on MySQL, or on the one that is named: `shared` or `durable` servers.
macro_rules! on_mysqls {
    ($how:ident) => {
        crate::harness::on_mysqls! { $how mariadb }
        crate::harness::on_mysqls! { $how mysql }
    };
    ($how:ident mariadb) => {
        #[test]
        fn mariadb() {
            check(crate::harness::Server::$how(crate::harness::Kind::MariaDb));
        }
    };
    ($how:ident mysql) => {
        #[test]
        fn mysql() {
            check(crate::harness::Server::$how(crate::harness::Kind::MySql));
        }
    };
}
pub(crate) use on_mysqls;

/// Makes two tests of each function, `name::mariadb` and `name::mysql`, on the shared servers. `fn name(server on mysql)` is tested on that
/// one alone: what neither server has a part in. Such functions have the one and the other in turns; those that start a server have
/// MariaDB, which starts sooner.
macro_rules! both_servers {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident $(on $kind:ident)?) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            crate::harness::on_mysqls! { shared $($kind)? }
        }
    )*};
}
pub(crate) use both_servers;

/// Makes three tests of each function, `name::mariadb`, `name::mysql` and `name::postgres`, on the shared servers;
/// of `fn name(server on mysql)` that and the last.
macro_rules! all_servers {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident $(on $kind:ident)?) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            crate::harness::on_mysqls! { shared $($kind)? }

            #[test]
            fn postgres() {
                check(crate::harness::Server::shared(crate::harness::Kind::Postgres));
            }
        }
    )*};
}
pub(crate) use all_servers;

/// Makes four tests of each function: with a named lock on each kind of server, and with a durable one on MariaDB. The statements about
/// its rows are the same on MySQL. `fn name(server, durable_mysql)` is tried there, too: what must never go wrong, and what goes by a name's
/// letters or by `KILL QUERY`, in which the two differ.
macro_rules! all_locks {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident $(, $more:ident)?) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            #[test]
            fn mariadb() {
                check(crate::harness::Server::shared(crate::harness::Kind::MariaDb));
            }

            #[test]
            fn mysql() {
                check(crate::harness::Server::shared(crate::harness::Kind::MySql));
            }

            #[test]
            fn durable_mariadb() {
                check(crate::harness::Server::durable(crate::harness::Kind::MariaDb));
            }

            $(#[test]
            fn $more() {
                check(crate::harness::Server::durable(crate::harness::Kind::MySql));
            })?

            #[test]
            fn postgres() {
                check(crate::harness::Server::shared(crate::harness::Kind::Postgres));
            }
        }
    )*};
}
pub(crate) use all_locks;

/// Makes three tests of each function, or four, as [`all_locks`] but for PostgreSQL's.
macro_rules! both_locks {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident $(, $more:ident)?) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            #[test]
            fn mariadb() {
                check(crate::harness::Server::shared(crate::harness::Kind::MariaDb));
            }

            #[test]
            fn mysql() {
                check(crate::harness::Server::shared(crate::harness::Kind::MySql));
            }

            #[test]
            fn durable_mariadb() {
                check(crate::harness::Server::durable(crate::harness::Kind::MariaDb));
            }

            $(#[test]
            fn $more() {
                check(crate::harness::Server::durable(crate::harness::Kind::MySql));
            })?
        }
    )*};
}
pub(crate) use both_locks;

/// Makes two tests of each function, with a named lock and with a durable one: of what a server has no part in.
macro_rules! each_lock {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            #[test]
            fn named() {
                check(crate::harness::Server::shared(crate::harness::Kind::MySql));
            }

            #[test]
            fn durable() {
                check(crate::harness::Server::durable(crate::harness::Kind::MariaDb));
            }
        }
    )*};
}
pub(crate) use each_lock;

/// Makes three tests of each function, one for each way to hold a lock: what a server has no part in, but the way has.
macro_rules! each_way {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            #[test]
            fn named() {
                check(crate::harness::Server::shared(crate::harness::Kind::MySql));
            }

            #[test]
            fn durable() {
                check(crate::harness::Server::durable(crate::harness::Kind::MariaDb));
            }

            #[test]
            fn postgres() {
                check(crate::harness::Server::shared(crate::harness::Kind::Postgres));
            }
        }
    )*};
}
pub(crate) use each_way;

/// As [`all_servers`], on the servers with dblock's tables.
macro_rules! all_servers_with_tables {
    ($($(#[$attribute:meta])* fn $name:ident($server:ident $(on $kind:ident)?) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all that its file imports")]
            use super::*;

            $(#[$attribute])*
            fn check($server: &'static crate::harness::Server) $body

            crate::harness::on_mysqls! { durable $($kind)? }

            #[test]
            fn postgres() {
                check(crate::harness::Server::durable(crate::harness::Kind::Postgres));
            }
        }
    )*};
}
pub(crate) use all_servers_with_tables;

/// Fails for want of a program of the package of its name.
#[track_caller]
pub fn missing(program: &str, error: &std::io::Error) -> ! {
    panic!("{program}: {error}; script/bootstrap installs it, or: apt-get install {program}")
}

/// A lock name that nobody else uses, also no other test process.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{what}-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// How long a soak lasts, and its random numbers: 40 seconds, and always the same ones, unless `DBLOCK_SOAK_SECONDS` and
/// `DBLOCK_SOAK_SEED` say otherwise.
pub fn soak_settings() -> (Duration, fastrand::Rng) {
    let number = |name: &str, default| {
        let set = std::env::var(name).ok();
        set.map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name}={text}: a number is wanted"))
        })
    };
    let seed = number("DBLOCK_SOAK_SEED", 1);
    println!("DBLOCK_SOAK_SEED={seed}");
    let seconds = number("DBLOCK_SOAK_SECONDS", 40);
    (Duration::from_secs(seconds), fastrand::Rng::with_seed(seed))
}

/// Whether a soak goes on: for its time, and for up to five times as long until there is enough to look at. A machine that stands still keeps
/// it from that.
pub fn soak_lasts(begun: Instant, time: Duration, is_enough: impl FnOnce() -> bool) -> bool {
    let elapsed = begun.elapsed();
    elapsed < time || elapsed < 5 * time && !is_enough()
}

/// The numbers from 1 to `last`, a line each.
pub fn numbered_lines(last: u32) -> String {
    (1..=last).fold(String::new(), |lines, number| {
        lines + &format!("{number}\n")
    })
}

/// Waits until `condition` holds, and panics when it does not [`in_time`].
#[track_caller]
pub fn eventually(what: &str, deadline: Duration, condition: impl FnMut() -> bool) {
    assert!(
        in_time(deadline, condition),
        "not within {deadline:?}: {what}"
    );
}

/// Whether `condition` comes to hold within `deadline`, or so many times that as processes share a processor; and for as long again as the
/// machine stands still meanwhile.
pub fn in_time(deadline: Duration, condition: impl FnMut() -> bool) -> bool {
    let is_over = |waited: Duration| {
        waited > deadline && waited > deadline.mul_f64(sharing()) + stalled(waited)
    };
    before(is_over, condition)
}

/// Whether `condition` comes to hold within `deadline`.
pub fn within(deadline: Duration, condition: impl FnMut() -> bool) -> bool {
    before(|waited| waited > deadline, condition)
}

/// Whether `condition` comes to hold before the time is over. The only place where tests sleep: the longer it has waited, and the longer a
/// look takes, the less often it looks, as one may read all of `/proc`, or log in to a server. Dozens of tests look at once.
fn before(is_over: impl Fn(Duration) -> bool, mut condition: impl FnMut() -> bool) -> bool {
    watch_for_stalls();
    let start = Instant::now();
    loop {
        let looks = Instant::now();
        if condition() {
            return true;
        }
        let waited = start.elapsed();
        if is_over(waited) {
            return false;
        }
        let by_wait = (waited / 20).clamp(Duration::from_millis(2), Duration::from_millis(50));
        let by_look = (4 * looks.elapsed()).min(Duration::from_millis(40));
        std::thread::sleep(by_wait.max(by_look));
    }
}
