//! What holds for every page, and what some of them say.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::{View, forms, history, job, layout, links, locks, overview, queue, run, timeline};
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::fleet::data::{History, Kind, Output, Run};
use crate::fleet::fixture::{Fleet, HOSTILE, hostile, known, now, of_jobs, real, runs};
use crate::fleet::{Part, Seen, questions};

fn view() -> View {
    View {
        may_act: true,
        show_data: true,
        log_out: None,
        refresh: Duration::from_secs(5),
        now: now(),
        main_only: false,
    }
}

/// A page, also the one that says that there is nothing.
fn either(page: layout::Found) -> Markup {
    page.unwrap_or_else(|nothing| nothing)
}

/// The overview, of all jobs.
fn overview_of(seen: &Seen) -> String {
    overview::page(&view(), seen, &overview::Asked::default()).into_string()
}

/// The history, without filters.
fn history_of(view: &View, runs: &Part<History>) -> String {
    history::page(view, &Seen::default(), &history::Asked::default(), runs).into_string()
}

/// The day that ends then, of these runs and of these that failed.
fn day_of(fleet: &Fleet, until: &str, runs: &Part<History>, failed: &Part<History>) -> String {
    let asked = timeline::Asked {
        until: until.to_owned(),
        ..timeline::Asked::default()
    };
    timeline::page(&view(), &fleet.seen, &asked, runs, failed).into_string()
}

/// The page of a run, and its output.
fn run_of(view: &View, run: &Run, output: &Part<Option<Output>>) -> String {
    either(run::page(
        view,
        &Seen::default(),
        &run.run,
        &known(Some(run.clone())),
        output,
    ))
    .into_string()
}

/// All that a command wrote.
fn whole(text: &str) -> Part<Option<Output>> {
    known(Some(Output {
        bytes: text.into(),
        left_out: None,
    }))
}

/// A run that failed, with its output.
fn a_run(fleet: &Fleet) -> Run {
    let runs = &fleet.history.value.as_ref().unwrap().runs;
    let failed = runs.iter().rev().find(|run| run.ending.kind().is_bad());
    failed.unwrap_or(&runs[0]).clone()
}

/// Every page of a fleet, by what it is.
fn pages(view: &View, fleet: &Fleet) -> Vec<(&'static str, String)> {
    let seen = &fleet.seen;
    let a_job = &seen.cron.value.as_ref().unwrap().jobs[0];
    let a_queue = &seen.queues.value.as_ref().unwrap().queues[0];
    let a_run = a_run(fleet);
    let by_job = timeline::Asked {
        by: "job".to_owned(),
        until: "2026-11-26T12:00:00Z".to_owned(),
    };
    let asked = history::Asked {
        name: a_job.name.to_string(),
        after: "1-x".to_owned(),
        ..history::Asked::default()
    };
    let question = forms::Question {
        title: &format!("Pause the job {}?", a_job.name),
        facts: &[("Job", a_job.name.to_string())],
        consequence: "Its ticks are skipped.",
        command: &format!("dblock cron pause -- {}", a_job.name),
        url: "/actions/pause",
        fields: &[("job", a_job.name.to_string())],
        verb: "Pause",
        back: "/",
    };
    let answer = forms::Answer {
        title: &a_job.name,
        is_done: false,
        command: &a_job.name,
        line: &a_job.name,
        back: "/",
    };
    let output = whole(HOSTILE);
    [
        (
            "overview",
            overview::page(view, seen, &overview::Asked::default()),
        ),
        (
            "unknown",
            overview::page(view, &Seen::default(), &overview::Asked::default()),
        ),
        (
            "timeline",
            timeline::page(
                view,
                seen,
                &timeline::Asked::default(),
                &fleet.history,
                &fleet.history,
            ),
        ),
        (
            "timeline by job",
            timeline::page(view, seen, &by_job, &fleet.history, &fleet.history),
        ),
        ("job", either(job::page(view, seen, &a_job.name, &[now()]))),
        ("run", PreEscaped(run_of(view, &a_run, &output))),
        (
            "no run",
            either(run::page(
                view,
                seen,
                HOSTILE,
                &known(None),
                &Part::default(),
            )),
        ),
        (
            "queue",
            either(queue::page(view, seen, &a_queue.name, &fleet.dead)),
        ),
        ("locks", locks::page(view, seen)),
        ("history", PreEscaped(history_of(view, &fleet.history))),
        (
            "older history",
            history::page(view, seen, &asked, &Part::default()),
        ),
        ("question", forms::question(view, &question)),
        ("answer", forms::answer(view, &answer)),
        ("login", forms::login(view, "/login", HOSTILE)),
        ("message", layout::message(view, HOSTILE, HOSTILE)),
    ]
    .map(|(what, page)| (what, page.into_string()))
    .into()
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(&start)
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect()
}

#[test]
fn an_answer_that_is_old_says_so() {
    let mut runs = real().history;
    assert!(!history_of(&view(), &runs).contains(" is from "));
    runs.at = Some(now() - jiff::SignedDuration::from_mins(2));
    assert!(history_of(&view(), &runs).contains("The answer about the runs is from 2 min ago."));
}

#[test]
fn filters_that_find_nothing_or_are_refused_lead_back_to_all_runs() {
    let all = "<a href=\"/history\">All runs</a>";
    let asked = history::Asked {
        since: "9999-12-31".to_owned(),
        ..history::Asked::default()
    };
    let mut nothing = real().history;
    nothing.value.as_mut().unwrap().runs.clear();
    let refused = Part {
        error: Some("--since: \"x\" is too long a time".to_owned()),
        ..Part::default()
    };
    for runs in [nothing, refused] {
        assert!(
            history::page(&view(), &Seen::default(), &asked, &runs)
                .into_string()
                .contains(all)
        );
        assert!(!history_of(&view(), &runs).contains(all));
    }
}

#[test]
fn the_first_filter_of_results_is_any_failure_and_none_is_called_failed_alone() {
    let html = history_of(&view(), &real().history);
    let (_, select) = html.split_once("<select").expect("the results");
    let select = select.split("</select>").next().unwrap();
    let options: Vec<&str> = select.split("<option value=\"").skip(1).collect();
    assert_eq!(options[0], "\">any</option>");
    assert!(options[1].starts_with("any_failure\">any failure, also by its exit code<"));
    for option in [
        "ran\">ran, whatever the exit code<",
        "failed\">could not be run, or another error<",
    ] {
        assert!(
            options.iter().any(|one| one.starts_with(option)),
            "{option}: {select}"
        );
    }
    assert!(!select.contains(">failed<"), "{select}");
}

#[test]
fn every_page_is_a_whole_document() {
    for (what, html) in pages(&view(), &real()) {
        assert!(
            html.starts_with("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"),
            "{what}"
        );
        assert_eq!(html.matches("<h1").count(), 1, "{what}");
        assert_eq!(html.matches("<main").count(), 1, "{what}");
        assert!(!html.contains("<title> – dblock"), "{what}: a title");
        assert_eq!(
            html.matches("<table").count(),
            html.matches("<caption").count(),
            "{what}"
        );
        assert_eq!(
            html.matches("<th").count() - html.matches("<thead").count(),
            html.matches("scope=").count(),
            "{what}"
        );
        let ids = attributes(&html, "id");
        assert_eq!(
            ids.iter().collect::<HashSet<_>>().len(),
            ids.len(),
            "{what}: {ids:?}"
        );
        for labelled in attributes(&html, "aria-labelledby")
            .into_iter()
            .chain(attributes(&html, "for"))
        {
            assert!(ids.contains(&labelled), "{what}: {labelled}");
        }
    }
}

#[test]
fn no_page_has_a_script_or_a_style_of_its_own() {
    for (what, html) in pages(&view(), &real()) {
        assert!(
            !html.contains(" style=") && !html.contains("<style") && !html.contains("javascript:"),
            "{what}"
        );
        let scripts = html.matches("<script").count();
        let whole = format!("<script src=\"{}\" defer></script>", SCRIPT.url());
        assert_eq!(scripts, html.matches(&whole).count(), "{what}");
        let handlers = html
            .split('<')
            .filter(|tag| tag.split('>').next().unwrap().contains(" on"));
        assert!(
            handlers
                .clone()
                .all(|tag| tag.contains("=\"") && !tag.contains(" onclick")),
            "{what}"
        );
    }
}

#[test]
fn a_hostile_text_harms_no_page_and_its_links_lead_back_to_it() {
    for (what, html) in pages(&view(), &hostile()) {
        assert!(
            !html.contains("<script>") && !html.contains("alert(\"1"),
            "{what}"
        );
        for link in attributes(&html, "href") {
            for folder in ["/jobs/", "/queues/", "/runs/"] {
                let Some(name) = link.strip_prefix(folder) else {
                    continue;
                };
                assert!(
                    !name.contains(['/', '?', '#', '<', '"', '&', '%', ' ']) || name.contains('%'),
                    "{what}: {link}"
                );
                assert!(!name.contains('/'), "{what}: one segment: {link}");
                assert_eq!(
                    percent_decode_str(name).decode_utf8().unwrap(),
                    HOSTILE,
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn names_are_one_segment_of_a_url() {
    assert_eq!(
        links::job("a/b%c<d\"e ü"),
        "/jobs/a%2Fb%25c%3Cd%22e%20%C3%BC"
    );
    // A browser takes these for folders, also percent-encoded.
    assert_eq!(links::job("."), "/jobs?name=.");
    assert_eq!(links::queue(".."), "/queues?name=..");
    assert_eq!(links::job("..."), "/jobs/...");
    assert_eq!(
        links::with(
            "/history",
            &[("name", "a&b"), ("on", ""), ("result", "lost")]
        ),
        "/history?name=a%26b&result=lost"
    );
    assert_eq!(
        links::action("kill", &[("lock", "x"), ("slot", "0")]),
        "/actions/kill?lock=x&slot=0"
    );
}

#[test]
fn without_show_data_no_output_error_or_key_is_shown() {
    let mut fleet = real();
    let error = "cannot run ./s3cret-argument";
    let runs = &mut fleet.history.value.as_mut().unwrap().runs;
    let failed = runs.iter_mut().rev();
    let mut failed = failed.filter(|run| run.ending.kind() == Kind::Failed);
    failed.next().unwrap().message = Some(error.into());
    let view = View {
        show_data: false,
        ..view()
    };
    for (what, html) in pages(&view, &fleet) {
        for secret in ["550 no such user", "customer 17", "Grüße &amp; 'so'", error] {
            let of_its_own = matches!(what, "no run" | "message" | "login");
            assert!(of_its_own || !html.contains(secret), "{what}: {secret}");
        }
    }
    let shown = |what: &str, view: &View| {
        let mut pages = pages(view, &fleet).into_iter();
        pages.find(|(page, _)| *page == what).unwrap().1
    };
    for what in ["run", "history", "timeline", "timeline by job"] {
        assert!(shown(what, &self::view()).contains(error), "{what}");
        assert!(shown(what, &view).contains("Error hidden:"), "{what}");
        // What dblock itself says of a skip or a loss is no secret.
        assert!(
            what == "run" || shown(what, &view).contains("its host died"),
            "{what}"
        );
    }
    let mails =
        |view: &View| either(queue::page(view, &fleet.seen, "mails", &fleet.dead)).into_string();
    assert!(mails(&view).contains("hidden: start with <code>--show-data</code>"));
    // Those that are most, first. Their errors may differ in digits, and one of them is shown.
    let words = [
        "3 jobs, the latest: exit 1: smtp: 550",
        "1 job: exit 1: smtp: timeout",
    ];
    let text = text(&mails(&self::view()));
    let at = words.map(|words| text.find(words));
    assert!(at[0].is_some() && at[0] < at[1], "{text}");
}

#[test]
fn without_allow_actions_there_are_no_buttons() {
    let view = View {
        may_act: false,
        ..view()
    };
    for (what, html) in pages(&view, &real()) {
        assert!(
            matches!(what, "question") || !html.contains("/actions/"),
            "{what}"
        );
    }
    let seen = real().seen;
    let has = |html: &str, url: &str| assert!(html.contains(&url.replace('&', "&amp;")), "{url}");
    let html = either(job::page(&self::view(), &seen, "mail-digest", &[])).into_string();
    has(&html, "/actions/resume?job=mail-digest");
    has(&html, "/actions/trigger?job=mail-digest");
    let html = either(queue::page(&self::view(), &seen, "mails", &real().dead)).into_string();
    has(&html, "/actions/retry?queue=mails\"");
    has(&html, "/actions/cancel?queue=mails&id=204");
    has(
        &locks::page(&self::view(), &seen).into_string(),
        "/actions/kill?lock=migrate&slot=0",
    );
}

#[test]
fn who_has_logged_in_can_log_out_on_every_page() {
    let view = View {
        log_out: Some("/logout"),
        ..view()
    };
    let form =
        "<form method=\"post\" action=\"/logout\"><button type=\"submit\">Log out</button></form>";
    for ((what, with), (_, without)) in pages(&view, &real())
        .iter()
        .zip(pages(&self::view(), &real()))
    {
        let (_, footer) = with.split_once("<footer>").unwrap();
        assert!(footer.contains(form), "{what}");
        assert_eq!(with.replace(form, ""), without, "{what}");
    }
}

/// How many bytes of a text go over the network.
fn sent(text: &str) -> usize {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap().len()
}

#[test]
fn pages_are_small() {
    let refreshed = View {
        main_only: true,
        ..view()
    };
    let overview = |view: &View, jobs| {
        overview::page(view, &of_jobs(jobs).seen, &overview::Asked::default()).into_string()
    };
    // Those who cannot unpack get it, too.
    let whole = overview(&view(), 40) + STYLE.content + SCRIPT.content + ICON.content;
    assert!(whole.len() <= 60_000, "{}", whole.len());
    assert!(SCRIPT.content.len() <= 5000, "{}", SCRIPT.content.len());
    for jobs in [40, 500] {
        let refreshed = sent(&overview(&refreshed, jobs));
        assert!(refreshed <= 15_000, "{jobs} jobs: {refreshed}");
    }
}

#[test]
fn the_script_gets_what_is_in_main_alone() {
    let main = View {
        main_only: true,
        ..view()
    };
    for ((what, whole), (_, part)) in pages(&view(), &real()).iter().zip(pages(&main, &real())) {
        let (title, contents) = part.split_once("</title>").unwrap();
        assert!(whole.contains(&format!("{title}</title>")), "{what}");
        assert!(whole.contains(contents), "{what}");
        assert!(
            !contents.contains("<main") && !contents.contains("<header"),
            "{what}"
        );
    }
}

fn text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    text.replace("&amp;", "&")
}

/// What a page says of something by its name.
fn fact(html: &str, name: &str) -> String {
    let start = format!("<dt>{name}</dt><dd>");
    let (_, behind) = html
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {name}: {html}"));
    text(behind.split("</dd>").next().unwrap())
}

/// The rows of the tables in a part of a page: the texts of their cells.
fn rows(html: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| {
        let row = row.split("</tr>").next().unwrap();
        let row = row.replace("</th>", "</td>");
        let (row, _) = row.rsplit_once("</td>").expect("a cell");
        row.split("</td>").map(text).collect::<Vec<_>>()
    };
    html.split("<tr>").skip(1).map(cells).collect()
}

#[test]
fn the_overview_says_first_what_is_wrong() {
    let text = text(&overview_of(&real().seen));
    let wrong = [
        "8 things are wrong",
        "1 job is late",
        "sync-stock has been due for 15 min 12 s, since 2026-11-26 14:45:00, and no daemon has started it.",
        "3 jobs failed",
        "import-prices: exit 2 on web2, 14:57:03 39 s ago, after 7 ms",
        "nightly-report: timed out",
        "Dead jobs in 1 queue",
        "mails: 4 failed for good",
        "1 queue without a worker",
        "thumbnails: 40 due, and no worker is alive.",
        "1 cron daemon is gone",
        "web4, pid 4711, was last there 11:02:41 3 h ago",
        "Crontab files differ",
        "rotate-keys: another schedule on web1, web2, which do not run it.",
        "1 job is in no crontab",
        "1 lock expired",
        "Jobs ",
    ];
    let mut from = 0;
    for words in wrong {
        let at = text[from..]
            .find(words)
            .unwrap_or_else(|| panic!("{words}, in this order: {text}"));
        from += at;
    }
    assert!(
        !text.contains("webhooks: "),
        "a paused queue needs no worker"
    );
}

#[test]
fn what_failed_last_night_and_succeeded_since_is_said_too() {
    let text = text(&overview_of(&of_jobs(40).seen));
    assert!(text.contains("4 jobs failed"), "{text}");
    assert!(
        text.contains(
            "nightly-job-002: 1 of the last 12 runs failed, the last one 08:57:42 6 h ago: exit 1."
        ),
        "{text}"
    );
}

/// The overview of one job without another trouble, whose last runs ended so; `is_job` if it is of a crontab.
fn overview_after(ends: &[&str], is_job: bool) -> String {
    let mut seen = well();
    let cron = seen.cron.value.as_mut().unwrap();
    let mut ended = runs(ends);
    cron.jobs.truncate(1);
    let job = cron.jobs[0].name.to_string();
    for (at, run) in ended.iter_mut().enumerate() {
        run.run = format!("run {at}").into();
    }
    let last = ended.last().unwrap();
    let known = cron.jobs[0].last.as_mut().unwrap();
    (known.run, known.ending) = (last.run.clone(), last.ending.clone());
    if !is_job {
        cron.jobs.clear();
    }
    *seen.runs.value.as_mut().unwrap() = [(job, ended)].into();
    text(&overview_of(&seen))
}

#[test]
fn a_job_fails_until_a_run_of_it_succeeds() {
    for is_job in [true, false] {
        for ends in [
            &["ran 0", "ran 1", "running"][..],
            &["ran 0", "ran 1", "skipped", "skipped"],
            &["ran 0", "lost", "unknown"],
        ] {
            let text = overview_after(ends, is_job);
            assert!(text.contains("Something is wrong"), "{ends:?}: {text}");
            assert!(!text.contains("succeeded since"), "{ends:?}: {text}");
        }
        let text = overview_after(&["ran 1", "ran 0", "skipped"], is_job);
        assert!(text.contains("✓ Nothing is wrong"), "{text}");
        assert!(text.contains("1 of the last 3 runs failed"), "{text}");
    }
    let text = overview_after(&["ran 1", "running"], true);
    assert!(text.contains("exit 1 on web2"), "{text}");
    assert!(text.contains("; it runs again now."), "{text}");
}

/// Three jobs, and nothing that is wrong.
fn well() -> Seen {
    let mut seen = of_jobs(3).seen;
    let cron = seen.cron.value.as_mut().unwrap();
    cron.daemons.truncate(1);
    cron.daemons[0].disagrees.clear();
    cron.daemons[0].differs.clear();
    seen.queues.value.as_mut().unwrap().queues.clear();
    seen.locks.value.as_mut().unwrap().locks.clear();
    seen
}

#[test]
fn what_is_not_known_is_not_said_to_be_right() {
    let headline = |change: fn(&mut Seen)| {
        let mut seen = well();
        change(&mut seen);
        text(&overview_of(&seen))
    };
    let in_what_is_known = "? Nothing is wrong in what is known";
    for change in [
        (|seen| seen.runs = Part::default()) as fn(&mut Seen),
        |seen| seen.cron.error = Some("SELECT command denied".to_owned()),
        |seen| {
            seen.queues = Part {
                error: Some("the answer is too long".to_owned()),
                ..Part::default()
            };
        },
        |seen| seen.locks.error = Some("dblock's answer is not understood".to_owned()),
        |seen| seen.lacks_failures = true,
        // Nobody has looked for an hour.
        |seen| {
            seen.new_until = None;
            seen.runs.at = Some(now() - jiff::SignedDuration::from_hours(1));
        },
    ] {
        let text = headline(change);
        assert!(text.contains(in_what_is_known), "{text}");
    }
    // What cannot be there is known to be well.
    let text = headline(|seen| {
        let line = "dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL";
        seen.queues = Part {
            error: Some(line.to_owned()),
            ..Part::default()
        };
    });
    assert!(text.contains("✓ Nothing is wrong"), "{text}");
    assert!(!text.contains("in what is known"), "{text}");
    let text = headline(|seen| {
        *seen = Seen::default();
        seen.locks.error = Some("the server refuses the account".to_owned());
    });
    assert!(text.contains("✗ The server cannot be asked"), "{text}");
    assert!(
        text.contains("No answer: locks. the server refuses"),
        "{text}"
    );
}

#[test]
fn without_tables_or_an_answer_nothing_is_said_of_jobs() {
    fn lacks<T>(value: Option<T>, line: &str) -> Part<T> {
        Part {
            value,
            error: Some(line.to_owned()),
            ..Part::default()
        }
    }
    let none_there = "There are none: dblock cron run";
    let lines = [
        "the database \"dblock\" of db has no tables of dblock's; create them with dblock init",
        "the encoding of the database on db is LATIN1; dblock's tables need one with ENCODING 'UTF8'",
    ];
    for line in lines {
        let mut seen = well();
        seen.cron = lacks(None, line);
        seen.queues = lacks(None, line);
        seen.runs = lacks(Some([].into()), line);
        let html = overview_of(&seen);
        let text = text(&html);
        // A choice, and no fault: the sign is neither green nor a warning.
        let words = "Nothing is wrong in what is known";
        assert!(text.contains(&format!("– {words}")), "{text}");
        assert!(
            html.contains(&format!("<title>{words} – dblock</title>")),
            "{html}"
        );
        assert!(text.contains("Not shown: crontab, queues, runs"), "{text}");
        assert!(text.contains("The crontab is not known."), "{text}");
        assert!(
            !text.contains(none_there) && !text.contains("Jobs 0"),
            "{text}"
        );
    }
    let mut refused = Seen::default();
    refused.locks.error = Some("the server refuses the account".to_owned());
    for seen in [refused, Seen::default()] {
        let text = text(&overview_of(&seen));
        assert!(text.contains("The crontab is not known."), "{text}");
        assert!(
            !text.contains(none_there) && !text.contains("Jobs 0"),
            "{text}"
        );
    }
    let mut empty = well();
    empty.cron.value.as_mut().unwrap().jobs.clear();
    empty.runs = known([].into());
    let text = text(&overview_of(&empty));
    assert!(
        text.contains(none_there) && text.contains("Jobs 0"),
        "{text}"
    );
}

/// Another test finds every line that dblock can say in those docs.
#[test]
fn dblock_says_by_these_words_that_nothing_is_there_or_is_left_out() {
    let lines = include_str!("../../../../docs/troubleshooting.md");
    for words in super::answers::NOTHING_THERE {
        assert!(lines.contains(words), "{words}");
    }
    assert!(lines.contains(questions::LEFT_OUT));
}

#[test]
fn what_is_shown_says_its_age_when_it_is_old() {
    let mut seen = real().seen;
    let page = |seen: &Seen| text(&overview_of(seen));
    assert!(!page(&seen).contains("What is shown of"));
    seen.queues.at = Some(now() - jiff::SignedDuration::from_secs(90));
    seen.runs.at = Some(now() - jiff::SignedDuration::from_mins(3));
    let text = page(&seen);
    assert!(
        text.contains("What is shown of queues, runs is from up to 3 min ago."),
        "{text}"
    );
}

#[test]
fn the_day_has_all_that_failed_though_more_ran_than_is_drawn() {
    let mut fleet = real();
    let mut failed = fleet.history.clone();
    let newest = fleet.history.value.as_mut().unwrap();
    newest.cursor = Some("1-x".to_owned());
    newest.runs.retain(|run| !run.ending.kind().is_bad());
    let all = failed.value.as_mut().unwrap();
    all.runs.retain(|run| run.ending.kind().is_bad());
    let count = all.runs.len();
    let page = |until: &str, failed: &_| day_of(&fleet, until, &fleet.history, failed);
    let html = page("", &failed);
    let text = text(&html);
    assert!(
        count > 2 && text.contains(&format!("Failed {count}")),
        "{text}"
    );
    assert!(!text.contains("Nothing failed"), "{text}");
    for bar in ["<rect class=\"f\"", "<rect class=\"l\""] {
        assert!(html.contains(bar), "{html}");
    }
    failed.value.as_mut().unwrap().cursor = Some("1-y".to_owned());
    for (until, bounds) in [
        ("", "since=24h\""),
        (
            "2026-11-26T12:00:00Z",
            "since=2026-11-25T12%3A00%3A00Z&amp;until=2026-11-26T12%3A00%3A00Z\"",
        ),
    ] {
        let html = page(until, &failed);
        for filter in ["result=any_failure", "on=web2"] {
            let link = format!("/history?{filter}&amp;{bounds}");
            assert!(html.contains(&link), "{link}: {html}");
        }
    }
    let text = self::text(&page("", &Part::default()));
    assert!(!text.contains("Nothing failed"), "nobody knows: {text}");
    let none_failed = failed.value.as_mut().unwrap();
    (none_failed.cursor, none_failed.runs) = (None, Vec::new());
    let text = self::text(&page("", &failed));
    assert!(text.contains("✓ Nothing failed."), "{text}");
    failed.error = Some("cannot reach db".to_owned());
    let text = self::text(&page("", &failed));
    assert!(text.contains("What is shown is from "), "{text}");
    assert!(!text.contains("Nothing failed"), "nobody knows: {text}");
}

#[test]
fn a_run_of_more_than_a_day_is_shown_when_it_ends() {
    let mut seen = well();
    let mut long = runs(&["ran 1"]);
    let day = jiff::SignedDuration::from_hours(24);
    (long[0].requested, long[0].at) = (now() - day - day, now() - day - day);
    long[0].until = Some(now() - jiff::SignedDuration::from_hours(1));
    seen.runs = known([("migrate".to_owned(), long)].into());
    let overview = text(&overview_of(&seen));
    assert!(
        overview.contains("1 command of dblock run failed"),
        "{overview}"
    );
    let mut nothing = real().history;
    nothing.value.as_mut().unwrap().runs.clear();
    let page = |seen: &Seen, until: &str| {
        let asked = timeline::Asked {
            until: until.to_owned(),
            by: "job".to_owned(),
        };
        let html = timeline::page(&view(), seen, &asked, &nothing, &nothing).into_string();
        text(&html)
    };
    let today = page(&seen, "");
    assert!(
        today.contains("Failed 1") && today.contains("migrate: exit 1 on web2, since 2026-11-24"),
        "{today}"
    );
    assert!(today.contains("✗1 failed"), "it is drawn: {today}");
    let before = page(&seen, "2026-11-24");
    assert!(
        before.contains("Failed 0") && before.contains("Nothing ran."),
        "{before}"
    );
}

#[test]
fn a_day_ends_at_a_date_or_a_time_and_what_is_none_is_said() {
    let fleet = real();
    let page = |until: &str, runs: &_| text(&day_of(&fleet, until, runs, runs));
    for (until, shown) in [
        ("2026-11-26", "2026-11-26 00:00:00"),
        ("2026-11-26 08:30", "2026-11-26 08:30:00"),
        ("2026-11-26T08:30:00+01:00", "2026-11-26 07:30:00"),
    ] {
        let text = page(until, &fleet.history);
        assert!(text.contains(&format!("until {shown}")), "{text}");
        assert!(!text.contains("is no moment"), "{text}");
    }
    for none in [
        "12h",
        "-1",
        "2026-02-30",
        "9999-12-31",
        "1970-01-01",
        "0001-01-01T00:00:00Z",
    ] {
        let text = page(none, &fleet.history);
        assert!(text.contains(&format!("{none} is no moment")), "{text}");
        assert!(text.contains("1970 and 9999"), "{text}");
        assert_eq!(questions::of_a_day(none), questions::of_a_day(""));
    }
    let mut nothing = fleet.history.clone();
    nothing.value.as_mut().unwrap().runs.clear();
    let text = page("", &nothing);
    assert!(
        text.contains("Nothing ran.") && !text.contains("Nothing failed"),
        "{text}"
    );
}

#[test]
fn what_nobody_sees_is_shown_and_sent_as_it_is() {
    let name = "back\u{202e}up\u{200b}";
    let question = forms::Question {
        title: &format!("Pause the job {name}?"),
        facts: &[("job", name.to_owned())],
        consequence: "",
        command: name,
        url: "/actions/pause",
        fields: &[("job", name.to_owned())],
        verb: "Pause",
        back: &links::job(name),
    };
    let html = forms::question(&view(), &question).into_string();
    assert!(text(&html).contains(r"Pause the job back\u{202e}up\u{200b}?"));
    assert!(!text(&html).contains(['\u{202e}', '\u{200b}']));
    assert_eq!(attributes(&html, "value"), [name]);
}

#[test]
fn nothing_is_wrong_is_said() {
    let mut seen = well();
    let html = overview_of(&seen);
    assert!(text(&html).contains("✓ Nothing is wrong"), "{html}");
    seen.cron.value.as_mut().unwrap().daemons.clear();
    let html = overview_of(&seen);
    assert!(text(&html).contains("No dblock cron run is alive, so none of 3 jobs runs."));
}

#[test]
fn a_server_that_is_away_is_said_with_the_age_of_what_is_shown() {
    let mut seen = real().seen;
    let line = "cannot reach db.example.com:3306: connection refused";
    seen.is_away(line);
    let later = View {
        now: now() + jiff::SignedDuration::from_mins(3),
        ..view()
    };
    let html = overview::page(&later, &seen, &overview::Asked::default()).into_string();
    let text = text(&html);
    assert!(text.contains("The server does not answer"));
    // When the outage began nobody knows: nothing is asked while nobody looks.
    assert!(!text.contains("since 3 min ago"), "{text}");
    assert!(text.contains("No answer: locks, crontab, queues, runs. What is shown are the last answers, the oldest of 2026-11-26 14:57:42 3 min ago. "), "{text}");
    assert_eq!(html.matches(line).count(), 1, "once");
    let mut seen = real().seen;
    seen.queues.error = Some("the answer is too long".to_owned());
    let html = overview::page(&later, &seen, &overview::Asked::default()).into_string();
    let text = self::text(&html);
    assert!(text.contains("No answer: queues. What is shown is the last answer, of 2026-11-26 14:57:42 3 min ago. "), "{text}");
    // Where this account may not read the tables there are locks all the same.
    let seen = Seen {
        locks: real().seen.locks,
        cron: Part {
            error: Some("no right".to_owned()),
            ..Part::default()
        },
        ..Seen::default()
    };
    let text = self::text(&overview_of(&seen));
    assert!(
        text.contains("Not shown: crontab. no right") && !text.contains("does not answer"),
        "{text}"
    );
}

#[test]
fn jobs_are_found_by_a_part_of_their_names_and_shown_by_pages() {
    let seen = of_jobs(120).seen;
    let asked = |find: &str, after: &str| overview::Asked {
        find: find.to_owned(),
        after: after.to_owned(),
    };
    let rows = |asked| {
        let html = overview::page(&view(), &seen, &asked).into_string();
        let jobs = html
            .split("id=\"jobs\"")
            .nth(1)
            .unwrap()
            .split("</section>")
            .next()
            .unwrap()
            .to_owned();
        (jobs.matches("<tr>").count().saturating_sub(1), jobs)
    };
    assert_eq!(rows(asked("JOB-01", "")).0, 10);
    let (number, html) = rows(asked("", ""));
    assert_eq!(number, overview::JOBS);
    assert!(html.contains("/?after=nightly-job-049#jobs"), "{html}");
    let (number, html) = rows(asked("", "nightly-job-099"));
    assert_eq!(number, 20);
    assert!(
        html.contains("nightly-job-100") && !html.contains("the next"),
        "{html}"
    );
    assert!(
        rows(asked("no such", ""))
            .1
            .contains("No job has this in its name.")
    );
}

#[test]
fn a_run_says_why_and_shows_its_output() {
    let fleet = real();
    let mut run = a_run(&fleet);
    run.message = Some("ended after 1s, for --timeout".into());
    let output = whole("curl: (22) 503\n");
    let text = text(&run_of(&view(), &run, &output));
    assert!(
        text.contains("Why: ended after 1s, for --timeout") && text.contains("curl: (22) 503"),
        "{text}"
    );
    let html = run_of(&view(), &run, &Part::default());
    assert!(html.contains("None is kept"), "{html}");
}

#[test]
fn what_is_not_known_of_an_output_and_what_is_missing_in_it_is_said() {
    let mut run = a_run(&real());
    let text_of = |run: &Run, output: &_| text(&run_of(&view(), run, output));
    let unknown = Part {
        error: Some("cannot reach db".to_owned()),
        ..Part::default()
    };
    let text = text_of(&run, &unknown);
    assert!(
        text.contains("No answer about the output. cannot reach db"),
        "{text}"
    );
    assert!(!text.contains("None is kept"), "{text}");
    let mut part = whole("a\nz\n");
    part.value.as_mut().unwrap().as_mut().unwrap().left_out = Some("70000 bytes".into());
    let words = "Left out between them: 70000 bytes; --keep-output=SIZE keeps more.";
    assert!(text_of(&run, &part).contains(words));
    assert!(!text_of(&run, &whole("a\n")).contains("Left out"));
    run.times.ended = None;
    for (outcome, words) in [
        ("running", "It has not ended."),
        ("unknown", "Nobody knows whether it has ended."),
    ] {
        run.ending.outcome = outcome.into();
        let text = text_of(&run, &Part::default());
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_run_says_when_it_was_due_and_what_it_took_and_its_fence() {
    let fleet = real();
    let mut runs = fleet.history.value.as_ref().unwrap().runs.iter();
    let run = runs.find(|run| &*run.run == "01a2185c2b807f23aa950e074e45ce1d");
    let html = run_of(&view(), run.unwrap(), &Part::default());
    for (name, value) in [
        ("Due", "2026-11-26 14:57:02 39 s ago"),
        ("Requested", "2026-11-26 14:57:03 39 s ago"),
        ("Lock acquired", "2026-11-26 14:57:03 39 s ago"),
        ("Command started", "2026-11-26 14:57:03 39 s ago"),
        ("Ended", "2026-11-26 14:57:03 39 s ago"),
        ("Ran for", "7 ms"),
        ("Waited for the lock", "5 ms"),
        ("Host", "web2"),
        ("Attempt", "1"),
        ("Fence", "6"),
    ] {
        assert_eq!(fact(&html, name), value, "{name}");
    }
}

#[test]
fn locks_say_how_old_the_answer_is() {
    let mut seen = real().seen;
    seen.locks.at = Some(now() - Duration::from_secs(18));
    let text_of = |seen: &Seen| text(&locks::page(&view(), seen).into_string());
    assert!(text_of(&seen).contains("As of 18 s ago."));
    // Then that is said with the reason.
    seen.locks.error = Some("cannot reach db".to_owned());
    assert!(!text_of(&seen).contains("As of"));
}

#[test]
fn locks_have_the_names_of_those_who_hold_them_and_of_those_who_wait() {
    let view = View {
        may_act: false,
        ..view()
    };
    let rows = rows(&locks::page(&view, &real().seen).into_string());
    let [_, deploy, migrate] = &rows[..] else {
        panic!("two locks: {rows:?}");
    };
    let held = "dblock on web1, pid 880 (ops), owner release 2026.11, for 1 h 7 min, durable, fence 7, !expired";
    let killed = "! dblock on web2, pid 901 (ops) ends the holder of slot 0";
    let waiting = "deploy on web3, pid 902 (ops), for 1 min 2 s";
    assert_eq!(
        deploy[..],
        [
            "deploy".to_owned(),
            format!("{held}{killed}"),
            format!("{waiting}a program"),
        ]
    );
    let held = "sleep on web3, pid 32582 (ops), for 38 s";
    assert_eq!(migrate[..], ["migrate", held, "nobody"]);
}

#[test]
fn the_overview_says_who_holds_each_lock_since_when_and_how_many_wait() {
    let html = overview_of(&real().seen);
    let (_, locks) = html.split_once("id=\"locks\"").unwrap();
    let rows = rows(locks.split("</section>").next().unwrap());
    assert_eq!(rows[0], ["Lock", "Held by", "For", "Waiting"]);
    let deploy = ["deploy", "dblock on web1, pid 880 (ops)", "1 h 7 min", "2"];
    let migrate = ["migrate", "sleep on web3, pid 32582 (ops)", "38 s", "0"];
    assert_eq!(rows[1..], [deploy, migrate]);
}

#[test]
fn a_queue_says_what_is_done_and_what_fails_a_minute() {
    let fleet = real();
    let rates = |name: &str| {
        let html = either(queue::page(&view(), &fleet.seen, name, &fleet.dead)).into_string();
        ["Done a minute", "Failed a minute"].map(|rate| fact(&html, rate))
    };
    assert_eq!(rates("mails"), ["30.8", "0"]);
    assert_eq!(rates("webhooks"), ["0", "1.2"]);
}

#[test]
fn a_queue_names_the_commands_that_show_its_dead_jobs_and_the_payload_and_the_output_of_one() {
    let fleet = real();
    let mut dead = fleet.dead.clone();
    let jobs = &mut dead.value.as_mut().unwrap().jobs;
    *jobs = vec![jobs[0].clone(); 12];
    for (name, commands) in [
        (
            "mails",
            [
                "dblock queue show mails JOB",
                "dblock output 'mails#JOB'",
                "and 2 more: dblock queue list --state dead --limit 0 mails",
            ],
        ),
        (
            "-x y",
            [
                "dblock queue show -- '-x y' JOB",
                "dblock output -- '-x y#JOB'",
                "dblock queue list --state dead --limit 0 -- '-x y'",
            ],
        ),
    ] {
        let mut seen = fleet.seen.clone();
        let queues = &mut seen.queues.value.as_mut().unwrap().queues;
        let has_dead = queues.iter_mut().find(|queue| queue.dead > 0);
        has_dead.unwrap().name = name.into();
        for show_data in [true, false] {
            let view = View {
                show_data,
                ..view()
            };
            let html = either(queue::page(&view, &seen, name, &dead)).into_string();
            let text = text(&html);
            for command in commands {
                assert!(text.contains(command), "{command}: {text}");
            }
        }
    }
}

#[test]
fn a_queue_has_its_workers_what_they_run_and_when_they_were_last_there() {
    let fleet = real();
    let html = either(queue::page(&view(), &fleet.seen, "mails", &fleet.dead)).into_string();
    let (_, workers) = html.split_once("id=\"workers\"").unwrap();
    let workers = workers.split("</section>").next().unwrap();
    assert!(text(workers).contains("Workers 2"), "two are alive");
    let rows = rows(workers);
    let [_, alive, _, gone] = &rows[..] else {
        panic!("three workers: {rows:?}");
    };
    let (started, there) = ("14:56:53 49 s ago", "14:57:33 8 s ago");
    assert_eq!(
        alive[..],
        ["✓web1", "31613", "ops", "mailer", "0 of 2", started, there]
    );
    let (started, there) = ("09:56:53 5 h ago", "12:57:33 2 h ago");
    assert_eq!(
        gone[..],
        [
            "!web3 (gone)",
            "31700",
            "mail",
            "mailer",
            "0 of 2",
            started,
            there
        ]
    );
}

#[test]
fn how_a_run_ended_is_said_once_and_why_only_if_that_is_recorded() {
    let fleet = real();
    let hidden = View {
        show_data: false,
        ..view()
    };
    let said = |ending: &serde_json::Value, message: Option<&str>| {
        let mut run = a_run(&fleet);
        run.ending = serde_json::from_value(ending.clone()).unwrap();
        run.message = message.map(Into::into);
        let page = run_of(&hidden, &run, &Part::default());
        let mut history = fleet.history.clone();
        history.value.as_mut().unwrap().runs = vec![run];
        let history = history_of(&hidden, &history);
        [page, history].map(|page| text(page.split("</form>").last().unwrap()))
    };
    let ended = |outcome: &str, code: u32, signal: Option<&str>| json!({ "outcome": outcome, "exit_code": code, "signal": signal });
    for (ending, how) in [
        (ended("ran", 3, None), "exit 3"),
        (ended("ran", 137, Some("SIGKILL")), "SIGKILL"),
        (ended("timed_out", 124, Some("SIGTERM")), "timed out"),
        (ended("running", 0, None), "running"),
    ] {
        let [run, history] = said(&ending, None);
        let run = run.split("When and where").next().unwrap();
        assert!(run.contains(how) && !run.contains("Why"), "{run}");
        assert_eq!(history.matches(how).count(), 1, "{history}");
        assert!(!history.contains("It "), "{history}");
        let [run, history] = said(&ending, Some("s3cret"));
        assert!(run.contains("Why: Error hidden"), "{run}");
        assert!(history.contains("Error hidden"), "{history}");
    }
}

#[test]
fn what_is_not_there_is_said_so_only_by_an_answer_of_now() {
    let shown = |seen: &Seen| {
        let job = job::page(&view(), seen, "none", &[]);
        let queue = queue::page(&view(), seen, "none", &Part::default());
        [job.is_err(), queue.is_err()]
    };
    assert_eq!(shown(&well()), [true, true]);
    let known_of = |change: fn(&mut Seen)| {
        let mut seen = well();
        change(&mut seen);
        shown(&seen)
    };
    assert_eq!(known_of(|seen| seen.is_away("cannot reach db")), [false; 2]);
    assert_eq!(known_of(|seen| seen.runs = Part::default()), [false, true]);
    assert_eq!(known_of(|seen| seen.cron = Part::default()), [false, true]);
    assert_eq!(
        known_of(|seen| seen.queues = Part::default()),
        [true, false]
    );
    let mut seen = well();
    seen.new_until = None;
    assert_eq!(shown(&seen), [false, false]);
    let page = text(&either(job::page(&view(), &seen, "none", &[])).into_string());
    assert!(!page.contains("It has not run yet"), "nobody knows: {page}");
    let mut seen = well();
    let old = now() - jiff::SignedDuration::from_mins(2);
    (seen.cron.at, seen.queues.at) = (Some(old), Some(old));
    assert_eq!(shown(&seen), [false, false]);
    let unknown = known(None);
    assert!(run::page(&view(), &seen, "none", &unknown, &Part::default()).is_err());
    assert!(run::page(&view(), &seen, "none", &Part::default(), &Part::default()).is_ok());
}
