//! Contenders take turns, so that a machine that is busy for a while is busy for all of them.

use std::process::Command;
use std::time::Instant;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::Result;
use super::processes::expect_success;

/// Rounds before those that count.
const WARM_UP: usize = 5;

/// What each of so many contenders measures, round by round.
pub fn in_turns<T>(
    contenders: usize,
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut measured: Vec<Vec<T>> = (0..contenders).map(|_| Vec::new()).collect();
    let mut order: Vec<usize> = (0..contenders).collect();
    for _ in 0..rounds {
        // Nobody always comes after the same one.
        fastrand::shuffle(&mut order);
        for &at in &order {
            measured[at].push(measure(at)?);
        }
    }
    Ok(measured)
}

/// The same after some rounds that do not count.
pub fn in_warm_turns<T>(
    contenders: usize,
    rounds: usize,
    measure: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut measured = in_turns(contenders, WARM_UP + rounds, measure)?;
    for of_one in &mut measured {
        of_one.drain(..WARM_UP);
    }
    Ok(measured)
}

/// What is timed, again and again.
pub enum Step {
    Program(Command),
    /// A commit of one row's update, on a session that is there.
    Commit(Conn),
}

impl Step {
    /// Seconds that it takes.
    pub fn take(&mut self) -> Result<f64> {
        let begun = Instant::now();
        match self {
            Self::Program(program) => expect_success(program)?,
            Self::Commit(session) => {
                session.query_drop("UPDATE dblock.bench SET number = number + 1 WHERE id = 1")?;
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// The seconds of each step, after some rounds that do not count.
pub fn times(steps: &mut [Step], rounds: usize) -> Result<Vec<Vec<f64>>> {
    in_warm_turns(steps.len(), rounds, |at| steps[at].take())
}
