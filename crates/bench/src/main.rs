//! dblock beside what a user would take instead, side by side in one run: `script/bench` starts the servers and tells this
//! program where they are.
//!
//! Contenders take turns, so that a machine that is busy for a while is busy for all of them; what counts are the ratios.
//! Where several want the same lock nothing counts unless the commands' own records prove that it held.

mod charts;
mod cron;
mod durable;
mod fleet;
mod hand_over;
mod holder;
mod instructions;
mod pages;
mod postgres;
mod private_server;
mod processes;
mod queue;
mod restart;
mod setup;
mod start;
mod table;
mod turns;
mod web;
mod wire;

use std::env;
use std::error::Error;
use std::fs;

use setup::{Setup, Sizes};
use table::Table;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

type Measure = fn(&Setup, &mut Table) -> Result<()>;

/// The parts, by the names that script/bench knows.
const PARTS: [(&str, Measure); 11] = [
    ("start", start::measure),
    ("wire", wire::measure),
    ("instructions", instructions::measure),
    // Before what makes the servers keep memory for many sessions.
    ("fleet", fleet::measure),
    ("holder", holder::measure),
    ("hand_over", hand_over::measure),
    ("durable", durable::measure),
    ("postgres", postgres::measure),
    ("queue", queue::measure),
    ("cron", cron::measure),
    ("web", web::measure),
];

fn main() -> Result<()> {
    let is_set = |variable| env::var_os(variable).is_some();
    let sizes = if is_set("BENCH_SMOKE") {
        Sizes::SMOKE
    } else {
        Sizes::FULL
    };
    let setup = Setup::from_environment(sizes)?;
    let mut table = Table::of_this_machine(&setup)?;
    let wanted = env::var("BENCH_PARTS").unwrap_or_default();
    for (part, measure) in PARTS {
        if wanted.split_whitespace().any(|wanted| wanted == part) {
            eprintln!("{part} ...");
            measure(&setup, &mut table).map_err(|error| format!("{part}: {error}"))?;
        }
    }
    if is_set("BENCH_JSON") {
        println!("{}", table.json());
    } else {
        print!("{}", table.markdown());
    }
    if let Some(folder) = env::var_os("BENCH_SAVE") {
        fs::create_dir_all(&folder)?;
        let folder = folder.to_string_lossy();
        fs::write(format!("{folder}/table.md"), pages::table(&table))?;
        fs::write(format!("{folder}/figures.md"), pages::figures(&table))?;
        fs::write(format!("{folder}/results.json"), table.json() + "\n")?;
        charts::draw(&table, &folder)?;
    }
    Ok(())
}
