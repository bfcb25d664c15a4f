//! What the pages quote: a few figures for the README, and for docs/speed.md tables with hand-overs by the number of waiters
//! and both servers side by side. Left out: how long many commands take through a few slots, and `flock` where only a ratio
//! counts.

use std::fmt::Write;

use super::hand_over::{FLOCKS, GROWTH};
use super::table::{Row, Table, add_lines, figure};
use super::{cron, durable, hand_over, postgres, queue, start, web};

const SERVERS: [&str; 2] = ["MariaDB", "MySQL"];

/// The few figures of the README, as a list. What was not measured is left out.
pub fn figures(table: &Table) -> String {
    let mut text = String::new();
    let mut add = |what: &str, line: &str| {
        if let Some(row) = table.rows.iter().find(|row| row.what.starts_with(line)) {
            let ratio = row.ratio.as_ref();
            let ratio = ratio.map_or_else(String::new, |(ratio, other)| {
                format!(", {ratio:.1} times what `{other}` takes")
            });
            let figure = figure(row.unit, row.median());
            let _ = writeln!(text, "- {what}: **{figure}**{ratio}");
        }
    };
    add("a run of `true`, from start to end", start::DEFAULT);
    if let Some(&waiting) = hand_over::waiting(table).get(1) {
        let what = format!("one command's end to the next one's start, {waiting} waiting");
        add(&what, &hand_over::line("dblock, MariaDB", waiting));
    }
    let what = "memory of the host for each job that runs, both processes";
    add(what, "private memory of both");
    let what = "statements a minute that each job sends while it runs";
    add(what, "statements a minute of each");
    text
}

/// The tables of docs/speed.md, in Markdown.
pub fn table(table: &Table) -> String {
    let mut text = table.head().trim_end().to_owned() + "\n";
    lines(table, start::PART, "start to end", "flock", &mut text);
    hand_overs(table, &mut text);
    let is_other = |row: &Row| {
        ![
            start::PART,
            hand_over::PART,
            durable::PART,
            postgres::PART,
            queue::PART,
            cron::PART,
            web::PART,
        ]
        .contains(&row.part)
            && !row.what.contains("`flock")
    };
    others(table, "", is_other, &mut text);
    let what = "locks as rows, and servers that put each commit on the disk";
    others(table, what, |row| row.part == durable::PART, &mut text);
    lines(table, postgres::PART, "on PostgreSQL", "", &mut text);
    for (part, what) in [
        (queue::PART, "the queue"),
        (cron::PART, "the daemons of a crontab"),
        (web::PART, "the page of a large fleet"),
    ] {
        let what = format!("{what}, on such servers");
        others(table, &what, |row| row.part == part, &mut text);
    }
    text
}

/// A line for each figure of a part.
fn lines(table: &Table, part: &str, heading: &str, usual: &str, text: &mut String) {
    let rows = table.rows.iter().filter(|row| row.part == part);
    if rows.clone().next().is_some() {
        text.push('\n');
        add_lines(rows, heading, usual, text);
    }
}

fn hand_overs(table: &Table, text: &mut String) {
    let waiting = hand_over::waiting(table);
    let (Some(fewest), Some(most)) = (waiting.first(), waiting.last()) else {
        return;
    };
    let heads = waiting
        .iter()
        .map(|waiting| format!(" {waiting} waiting |"));
    let _ = writeln!(
        text,
        "\n| one command's end to the next one's start, and against flock |{} {most} against {fewest} |\n|---|{}---|",
        heads.collect::<String>(),
        "---|".repeat(waiting.len())
    );
    let aims = format!(" ≤ {FLOCKS} × |").repeat(waiting.len());
    let _ = writeln!(text, "| aim |{aims} ≤ {GROWTH} × |");
    let mut done = Vec::new();
    for who in table.rows.iter().filter_map(hand_over::who) {
        if done.contains(&who) {
            continue;
        }
        done.push(who);
        let mut line = format!("| {who} |");
        for &waiting in &waiting {
            let row = table.row(&hand_over::line(who, waiting));
            let _ = write!(line, " {} |", row.map_or_else(String::new, cell));
        }
        let grown = table.row(&hand_over::growth(who, *fewest));
        let grown = grown.and_then(|row| Some((row.ratio.as_ref()?.0, row.missed())));
        let grown = grown.map(|(ratio, missed)| format!("{ratio:.2} ×{missed}"));
        let _ = writeln!(text, "{line} {} |", grown.unwrap_or_default());
    }
}

/// A line for each figure, a column for each server; what is no server's was measured with the first.
fn others(table: &Table, heading: &str, are_meant: impl Fn(&Row) -> bool, text: &mut String) {
    let rows = table.rows.iter().filter(|row| are_meant(row));
    let mut lines: Vec<(String, [Option<&Row>; 2])> = Vec::new();
    for row in rows {
        let server = SERVERS.iter().position(|server| row.what.contains(server));
        let server = server.unwrap_or_default();
        let what = row.what.replace(&format!(", {}", SERVERS[server]), "");
        if let Some((_, cells)) = lines.iter_mut().find(|(other, _)| *other == what) {
            cells[server] = Some(row);
        } else {
            let mut cells = [None, None];
            cells[server] = Some(row);
            lines.push((what, cells));
        }
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n| {heading} | MariaDB | MySQL | aim |\n|---|---|---|---|"
    );
    for (what, cells) in lines {
        let aim = cells.iter().flatten().find_map(|row| row.aim.as_ref());
        let aim = aim.map_or("", |(aim, _)| aim);
        let [mariadb, mysql] = cells.map(|row| row.map_or_else(String::new, cell));
        let _ = writeln!(text, "| {what} | {mariadb} | {mysql} | {aim} |");
    }
}

/// A figure, what it is against another, and whether it misses its aim.
fn cell(row: &Row) -> String {
    let ratio = match &row.ratio {
        Some((ratio, other)) if other == "flock" && row.part == hand_over::PART => {
            format!(", {ratio:.1} ×")
        }
        Some((ratio, other)) if other == "flock" => format!(", {ratio:.1} × flock"),
        Some((ratio, other)) => format!(", {ratio:.2} × {other}"),
        None => String::new(),
    };
    format!("{}{ratio}{}", figure(row.unit, row.median()), row.missed())
}
