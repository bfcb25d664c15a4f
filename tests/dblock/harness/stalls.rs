//! For how long the machine stood still of late: neither the tests nor what they have started got on then.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread looks that often.
const PAUSE: Duration = Duration::from_millis(50);

/// It is so late only where nothing got on.
const LATE: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Watch {
    looked: Instant,
    /// When the machine went on, and how long it had stood still.
    stalls: Vec<(Instant, Duration)>,
}

static WATCH: LazyLock<Mutex<Watch>> = LazyLock::new(|| {
    thread::spawn(look_again_and_again);
    Mutex::new(Watch {
        looked: Instant::now(),
        stalls: Vec::new(),
    })
});

fn look_again_and_again() {
    loop {
        look(|_| ());
        thread::sleep(PAUSE);
    }
}

/// Whoever looks first after a stall records it.
fn look<T>(then: impl FnOnce(&Watch) -> T) -> T {
    let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let late = now.duration_since(watch.looked).saturating_sub(PAUSE);
    watch.looked = now;
    if late > LATE {
        watch.stalls.push((now, late));
    }
    then(&watch)
}

/// Watches from now on.
pub fn watch_for_stalls() {
    LazyLock::force(&WATCH);
}

/// For how long it stood still in the latest `span`.
pub fn stalled(span: Duration) -> Duration {
    look(|watch| {
        let latest = watch.stalls.iter().rev();
        let latest = latest.take_while(|(end, _)| end.elapsed() < span);
        latest.map(|(_, stall)| *stall).sum()
    })
}
