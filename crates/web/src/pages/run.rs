//! A run of the history.

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::{Found, Here, Page, hidden, message, sign};
use super::why::why;
use super::{View, answers, links, words};
use crate::fleet::data::{Kind, Output, Run};
use crate::fleet::{Part, Seen, data};

/// The page. The output is None without --show-data, or when none is kept.
pub fn page(
    view: &View,
    seen: &Seen,
    id: &str,
    run: &Part<Option<data::Run>>,
    output: &Part<Option<Output>>,
) -> Found {
    if let Some(None) = &run.value {
        return Err(message(
            view,
            &format!("No run {id}"),
            "It is not in the history, or not any more.",
        ));
    }
    let found = run.value.as_ref().and_then(Option::as_ref);
    let title = found.map_or_else(
        || format!("Run {id}"),
        |run| format!("{}: {}", run.name, run.ending.words()),
    );
    let contents = html! {
        p.kind { "Run " code { (id) } }
        @match found {
            Some(run) => {
                h1 #headline { (sign(run.ending.kind())) " " a href=(links::job(&run.name)) { (run.name) } ": " (run.ending.words()) }
            },
            None => h1 #headline { (title) },
        }
        section #away aria-label="Answers" { (answers::problem(run, "run", view.now)) }
        @if let Some(run) = found {
            @if let Some(why) = why(view, run) { p #why.why { strong { "Why: " } (why) } }
            (kept(view, run, output))
            (facts(run, seen.server_now(view.now)))
        }
    };
    let page = Page {
        here: Here::History,
        is_itself: false,
        title: &title,
        server: "",
        refreshes: found.is_none_or(|run| run.times.ended.is_none()),
    };
    Ok(page.around(view, &contents))
}

fn facts(run: &Run, now: Timestamp) -> Markup {
    let times = &run.times;
    let moments = [
        ("Due", run.tick),
        ("Requested", Some(times.requested)),
        ("Lock acquired", times.acquired),
        ("Command started", times.started),
        ("Ended", times.ended),
    ];
    let place = &run.place;
    let slot = run
        .slot_name
        .as_deref()
        .map(str::to_owned)
        .or_else(|| run.slot.map(|slot| slot.to_string()));
    let others = [
        ("Ran for", times.ran_seconds.map(words::span)),
        ("Waited for the lock", times.waited_seconds.map(words::span)),
        ("Host", place.host.as_deref().map(str::to_owned)),
        ("Process", place.pid.map(|pid| pid.to_string())),
        ("User", place.user.as_deref().map(str::to_owned)),
        ("Program", place.program.as_deref().map(str::to_owned)),
        ("Attempt", run.attempt.map(|attempt| attempt.to_string())),
        ("Fence", run.fence.map(|fence| fence.to_string())),
        ("Slot", slot),
    ];
    html! {
        h2 { "When and where" }
        dl.facts {
            @for (name, at) in moments { @if let Some(at) = at { div { dt { (name) } dd { (words::time(at, now)) } } } }
            @for (name, value) in others { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn kept(view: &View, run: &Run, output: &Part<Option<Output>>) -> Markup {
    html! {
        section #output aria-labelledby="output-title" {
            h2 #output-title { "Output" }
            @if !view.show_data {
                p.note { (hidden("Output")) }
            } @else {
                @match output.value.as_ref().and_then(Option::as_ref) {
                    Some(output) => {
                        @if let Some(left_out) = &output.left_out {
                            p.note { "Its beginning and its end. Left out between them: " (left_out) "; " code { "--keep-output=SIZE" } " keeps more." }
                        }
                        pre.output tabindex="0" { (plain(&output.bytes)) }
                    },
                    None => {
                        @if output.error.is_some() { (answers::problem(output, "output", view.now)) }
                        @else if run.times.ended.is_some() { p.note { "None is kept: " code { "--keep-output" } " keeps it." } }
                        @else if run.ending.kind() == Kind::Running { p.note { "It has not ended." } }
                        @else { p.note { "Nobody knows whether it has ended." } }
                    },
                }
            }
        }
    }
}

/// An output without what steers a terminal.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                // Up to the letter that ends it.
                while characters
                    .next()
                    .is_some_and(|next| !next.is_ascii_alphabetic())
                {}
            }
            '\r' => plain.push('\n'),
            '\n' | '\t' => plain.push(character),
            _ if character.is_control() => plain.push('\u{fffd}'),
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn an_output_steers_no_terminal() {
        let said = b"a\r\n\x1b[1;31mred\x1b[0m\x07 10%\r20%\t\xff\n";
        assert_eq!(plain(said), "a\nred\u{fffd} 10%\n20%\t\u{fffd}\n");
        assert_eq!(plain(b"\x1b[never ended"), "ever ended");
        assert_eq!(plain(b"\x1b[12"), "");
    }
}
