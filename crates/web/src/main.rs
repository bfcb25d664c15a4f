//! The page of a fleet: who holds which lock, what ran and how it ended, how deep the queues are. It speaks to no database: it runs
//! `dblock … --json`, as a person would.

mod access;
mod actions;
mod assets;
mod charts;
mod fleet;
mod options;
mod pages;
mod serve;

fn main() {
    let options = options::Options::default();
    serve::run(&options);
}
