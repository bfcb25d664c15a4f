//! Every page in a real browser, as people use it: by keyboard, on a telephone, in the dark, without scripts, with a screen reader.

mod driver;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "../web/harness.rs"]
mod harness;

use std::collections::BTreeSet;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use driver::{Browser, ENTER, TAB};
use harness::{Fleet, Web, private};

/// A run of the fixtures that failed, and whose output is kept.
const FAILED_RUN: &str = "01a2185c2f3179d990179b24699585d2";

/// The page of each kind, of the fleet in the fixtures; the run is [`FAILED_RUN`].
const PAGES: [&str; 10] = [
    "/",
    "/timeline",
    "/timeline?by=job",
    "/jobs/invoices",
    "/runs/01a2185c2f3179d990179b24699585d2",
    "/queues/mails",
    "/locks",
    "/history",
    "/actions/pause?job=backup",
    "/no-such-page",
];

/// How wide the narrowest telephone is, and a desk.
const NARROW: u32 = 360;
const WIDE: u32 = 1280;

/// What is read on the page that is open.
const MAIN: &str = "return document.querySelector('main').innerText";

const FIXTURES: [(&str, &str); 5] = [
    ("cron-list", include_str!("../fixtures/cron-list.json")),
    ("history", include_str!("../fixtures/history.json")),
    ("queue-list", include_str!("../fixtures/queue-list.json")),
    (
        "queue-status",
        include_str!("../fixtures/queue-status.json"),
    ),
    ("status", include_str!("../fixtures/status.json")),
];

/// A fleet in which much is wrong, and the page that shows it, and may do all.
fn a_fleet() -> (Fleet, Web) {
    let fleet = Fleet::new();
    for (question, answer) in FIXTURES {
        fleet.answers(question, answer);
        if question == "history" {
            let mut history: Value = serde_json::from_str(answer).unwrap();
            let runs = history["runs"].as_array_mut().unwrap();
            runs.retain(|run| run["run"] == FAILED_RUN && run["has_output"] == true);
            assert_eq!(runs.len(), 1);
            fleet.answers("history-of-a-run", &history.to_string());
        }
    }
    fleet.write("output", "reading 1200 orders\n<script>alert(1)</script>\n");
    let web = fleet.serve(&["--allow-actions", "--show-data", "--refresh", "1s"]);
    (fleet, web.enter())
}

/// A browser that has opened the page as its first line says, when all is known.
fn a_browser(web: &Web) -> Browser {
    let browser = Browser::new();
    web.until_all_is_known();
    browser.open(&web.url);
    // On a busy machine the first page may come before the fleet has answered.
    browser.until(
        "the jobs are there",
        "return document.querySelector('.jobs a') !== null",
    );
    browser
}

fn url(web: &Web, page: &str) -> String {
    format!("http://{}{page}", web.address())
}

/// The script of axe-core.
fn axe_script() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = Command::new("script/axe")
        .current_dir(root)
        .output()
        .unwrap();
    assert!(
        script.status.success(),
        "{}",
        String::from_utf8_lossy(&script.stderr)
    );
    String::from_utf8(script.stdout).unwrap()
}

/// What axe-core finds in the page that is open, in a few words each.
fn axe(browser: &Browser, script: &str) -> Vec<String> {
    browser.run(script);
    let found = browser.run_until_done(
        "axe.run({ resultTypes: ['violations', 'incomplete'] }).then(found => done(found.violations.map(one => \
         one.id + ': ' + one.help + ': ' + one.nodes.map(node => node.html.slice(0, 200)).join(' ')))).catch(error => done(['' + error]))",
    );
    let found = found.as_array().cloned().unwrap_or_default();
    found
        .iter()
        .map(|one| one.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn axe_finds_nothing_in_any_page_and_none_is_wider_than_a_telephone() {
    let script = axe_script();
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    let mut wrong = Vec::new();
    for page in PAGES {
        for (scheme, width) in [("light", WIDE), ("dark", NARROW)] {
            browser.prefer(scheme);
            browser.resize(width, 800);
            browser.open(&url(&web, page));
            wrong.extend(
                axe(&browser, &script)
                    .into_iter()
                    .map(|found| format!("{page}, {scheme}, {width}: {found}")),
            );
            let real = browser
                .run("return document.documentElement.scrollWidth")
                .as_u64()
                .unwrap();
            if real > width.into() {
                wrong.push(format!(
                    "{page}, {width}: it is {real} wide: {}",
                    widest(&browser)
                ));
            }
        }
        // An answer of 404 is an error in the console, and meant.
        let console = browser
            .console()
            .into_iter()
            .filter(|line| page != "/no-such-page" || !line.contains("404"));
        wrong.extend(console.map(|line| format!("{page}: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_whole_day_is_seen_on_a_telephone() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    browser.resize(NARROW, 800);
    browser.open(&url(&web, "/timeline"));
    let outside = browser.text(
        "const parts = [...document.querySelectorAll('.timeline, .timeline .day, .timeline .day text, .timeline .counts span')]; \
         const seen = document.querySelector('.scroll').getBoundingClientRect(); \
         const is_outside = part => { const { left, right } = part.getBoundingClientRect(); return left < seen.left || right > seen.right }; \
         const [hours, counts] = ['.day text', '.counts span'].map(one => document.querySelectorAll('.timeline ' + one).length); \
         return [hours === 8 && counts > 0, ...parts.filter(is_outside).map(part => part.outerHTML)].join(' ')",
    );
    assert_eq!(outside, "true");
}

#[test]
fn somebody_logs_in_and_out_by_the_keyboard_and_an_open_page_says_that_the_login_is_over() {
    let script = axe_script();
    let fleet = Fleet::new();
    let file = private(&fleet.path("password"), "secret\n");
    let web = fleet.serve(&["--password-file", &file, "--refresh", "1s"]);
    let browser = Browser::new();
    let is_sound = |page: &str| {
        for (scheme, width) in [("light", WIDE), ("dark", NARROW)] {
            browser.prefer(scheme);
            browser.resize(width, 800);
            assert_eq!(axe(&browser, &script), Vec::<String>::new(), "{page}");
            let real = browser.run("return document.documentElement.scrollWidth");
            assert!(real.as_u64() <= Some(width.into()), "{page}: {real}");
        }
    };
    let log_in = || {
        browser.open(&url(&web, "/locks"));
        browser.run("document.getElementById('password').focus()");
        for letter in "secret".chars() {
            browser.press(letter);
        }
        browser.press(ENTER);
        browser.until(
            "the page that was asked for",
            "return location.pathname === '/locks' && document.querySelector('footer button') !== null",
        );
    };
    browser.open(&url(&web, "/"));
    is_sound("login");
    log_in();
    is_sound("locks");
    browser.allow_scripts(false);
    browser.open(&url(&web, "/locks"));
    browser.run("document.querySelector('footer button').focus()");
    browser.press(ENTER);
    browser.until(
        "the login",
        "return location.pathname === '/login' && document.getElementById('password') !== null",
    );
    browser.open(&url(&web, "/"));
    assert_eq!(browser.text("return location.pathname"), "/login");
    browser.allow_scripts(true);
    log_in();
    private(&fleet.path("password"), "another\n");
    web.signal(Signal::SIGHUP);
    browser.until(
        "a line that says so",
        "return document.getElementById('stale').textContent.includes('load this page again to log in')",
    );
    let stale = browser.text("return document.getElementById('stale').textContent");
    assert!(!stale.contains("does not answer"), "{stale}");
}

/// The innermost elements that stand out of the window.
fn widest(browser: &Browser) -> String {
    browser.text(
        "const out = [...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll > *')); \
         return out.slice(-5).map(one => one.outerHTML.slice(0, 120)).join(' ')",
    )
}

#[test]
fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    for page in PAGES {
        browser.open(&url(&web, page));
        // What can be clicked, by its words and place; what the script changes does not count, such as until when a day is.
        let names = "const name = one => one.nodeName + ' ' + (one.id || one.getAttribute('href')?.replace(/until=[^&]*/, '') || one.getAttribute('name') || one.getAttribute('aria-label') || one.textContent);";
        let all = browser.run(&format!(
            "{names} return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, [tabindex=\"0\"]')].map(name)"
        ));
        let all: BTreeSet<String> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect();
        let mut reached = BTreeSet::new();
        for _ in 0..400 {
            browser.press(TAB);
            let here = browser.run(&format!(
                "{names} const here = document.activeElement; if (here === document.body) return null; \
                 const style = getComputedStyle(here); \
                 return [name(here), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]"
            ));
            let Some(name) = here[0].as_str() else { break };
            assert_eq!(here[1], true, "{page}: the focus is seen on {name}");
            if reached.len() >= all.len() && reached.contains(name) {
                break;
            }
            reached.insert(name.to_owned());
        }
        let missed: Vec<&String> = all.difference(&reached).collect();
        assert!(missed.is_empty(), "{page}: {missed:?}");
    }
}

#[test]
fn enter_follows_a_link_and_a_slash_goes_to_the_filter() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    browser.press(TAB);
    assert_eq!(
        browser.text("return document.activeElement.textContent"),
        "Skip to the contents"
    );
    browser.press(ENTER);
    browser.until(
        "the contents have the focus",
        "return document.activeElement.id === 'main'",
    );
    browser.press(TAB);
    let first = browser.text("return document.activeElement.getAttribute('href')");
    assert_eq!(first, "/jobs/sync-stock", "the first that is wrong");
    browser.press(ENTER);
    browser.until(
        "the page of the job",
        "return location.pathname === '/jobs/sync-stock' && document.readyState === 'complete'",
    );
    browser.open(&url(&web, "/"));
    browser.press('/');
    browser.until(
        "the filter has the focus",
        "return document.activeElement.id === 'filter'",
    );
    for letter in "inv".chars() {
        browser.press(letter);
    }
    browser.press(ENTER);
    browser.until("the jobs that are found", "return location.search === '?find=inv' && document.querySelectorAll('.jobs tbody tr').length === 1");
    assert_eq!(
        browser.text("return document.querySelector('.jobs a').textContent"),
        "invoices"
    );
}

#[test]
fn a_link_of_another_server_leads_to_the_page() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    let link = url(&web, "/history?result=lost");
    browser.open(&format!("data:text/html,<a href='{link}'>here</a>"));
    browser.run("document.querySelector('a').click()");
    browser.until(
        "the page that it names",
        "return location.pathname + location.search === '/history?result=lost' && document.querySelector('h1')?.textContent === 'History'",
    );
}

#[test]
fn a_page_is_refreshed_in_place() {
    let (fleet, web) = a_fleet();
    let browser = a_browser(&web);
    // The focus is on a row below what comes and goes, and the page is scrolled.
    let focused = "document.querySelector('.jobs a[href=\"/jobs/reindex\"]')";
    browser.run(&format!("{focused}.focus(); window.scrollTo(0, 200); window.same = {focused}; document.body.dataset.mark = 'same page'"));
    let late = FIXTURES[0]
        .1
        .replace("\"late_seconds\":912.4", "\"late_seconds\":null");
    let added = late.replacen("{\"changed_by\"", "{\"changed_by\":null,\"in_no_file\":false,\"last\":null,\"late_seconds\":null,\"name\":\"a-new-job\",\"next\":null,\"paused_since\":null,\"schedule\":\"1 1 1 1 1\",\"seen\":null,\"time_zone\":\"UTC\",\"triggered\":null,\"under_way\":[]},{\"changed_by\"", 1);
    assert_ne!(added, late);
    fleet.answers("cron-list", &added);
    browser.until(
        "the new job",
        "return document.querySelector('.jobs a').textContent === 'a-new-job'",
    );
    assert_eq!(
        browser.text("return document.body.dataset.mark"),
        "same page",
        "it was not loaded again"
    );
    assert_eq!(
        browser.run(&format!(
            "return document.activeElement === window.same && window.same === {focused}"
        )),
        true
    );
    assert!(
        browser
            .text("return document.title")
            .contains("things are wrong")
    );
    // Who types is not disturbed.
    browser.press('/');
    browser.press('x');
    fleet.answers("cron-list", FIXTURES[0].1);
    browser.until(
        "the new job to be gone",
        "return document.querySelector('.jobs a').textContent === 'backup'",
    );
    assert_eq!(browser.text("return document.activeElement.value"), "x");
    assert_eq!(
        browser.text("return document.getElementById('stale').textContent"),
        ""
    );
    // The page itself is gone.
    drop(web);
    browser.until(
        "a line that says so",
        "return document.getElementById('stale').textContent.startsWith('Not refreshed for ')",
    );
}

#[test]
fn an_answer_that_comes_after_a_later_one_is_not_shown() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    browser.run(
        "window.answers = []; \
         window.fetch = () => new Promise((resolve) => window.answers.push((words) => resolve(new Response(`<title>t</title><h1>${words}</h1>`)))); \
         for (const round of [0, 1]) document.dispatchEvent(new Event('visibilitychange')); \
         window.answers[1]('the newer');",
    );
    let headline = "return document.querySelector('h1').textContent";
    browser.until("the newer", &format!("{headline} === 'the newer'"));
    let shown = browser.run_until_done(
        "window.answers[0]('the older'); setTimeout(() => done(document.querySelector('h1').textContent), 100);",
    );
    assert_eq!(shown, "the newer");
}

#[test]
fn a_page_that_gets_no_answer_says_so_soon_and_for_how_long_and_waits_for_a_slow_one() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    // As dblock web while it is stopped, or behind an ssh -L that hangs: nothing comes, and no error.
    let stale = "document.getElementById('stale').textContent";
    let slow = browser.run_until_done(&format!(
        "window.real = window.fetch; window.fetch = () => new Promise(() => {{}}); \
         document.dispatchEvent(new Event('visibilitychange')); \
         setTimeout(() => done({stale}), 8000);"
    ));
    assert_eq!(slow, "", "an answer of a slow server may still come");
    browser.until(
        "a line that says so",
        &format!("return /^Not refreshed for .*: dblock web does not answer/.test({stale})"),
    );
    browser.run(
        "const real = Date; \
         window.Date = class extends real { constructor(...all) { if (all.length) super(...all); else super(real.now() + 125000); } }",
    );
    browser.until(
        "its age",
        &format!("return /^Not refreshed for [2-9] min: /.test({stale})"),
    );
    let answers_again =
        "window.fetch = window.real; document.dispatchEvent(new Event('visibilitychange'))";
    browser.run(answers_again);
    browser.until("an answer", &format!("return {stale} === ''"));
}

#[test]
fn a_page_of_what_is_gone_says_so_and_comes_back_with_it() {
    let fleet = Fleet::new();
    let there = r#"{"server":"db1","cursor":null,"runs":[{"run":"01a2","name":"x","requested":"2026-11-26T12:00:00.000Z","outcome":"running"}]}"#;
    let gone = r#"{"server":"db1","cursor":null,"runs":[]}"#;
    fleet.answers("history", there);
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    let browser = a_browser(&web);
    browser.open(&url(&web, "/runs/01a2"));
    for (answer, words) in [
        (there, "▸ x: running"),
        (gone, "No run 01a2"),
        (there, "▸ x: running"),
    ] {
        fleet.answers("history", answer);
        browser.until(
            words,
            &format!("return document.querySelector('h1').textContent === '{words}' && document.getElementById('stale').textContent === ''"),
        );
    }
}

/// Prints it: a machine that has other things to do says nothing of a page.
#[test]
fn the_first_paint_is_measured() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    browser.open(&url(&web, "/"));
    browser.until(
        "the first paint",
        "return performance.getEntriesByName('first-contentful-paint').length === 1",
    );
    let times = browser.run(
        "const page = performance.getEntriesByType('navigation')[0]; \
         return [page.responseStart - page.requestStart, performance.getEntriesByName('first-contentful-paint')[0].startTime]",
    );
    println!(
        "first byte after {} ms, first paint after {} ms",
        times[0], times[1]
    );
}

#[test]
fn pages_say_the_same_without_scripts() {
    let (_fleet, web) = a_fleet();
    let browser = a_browser(&web);
    let words = |page: &str| {
        browser.open(&url(&web, page));
        // That an answer is old it says from one moment to the next.
        let text = browser.text(
            "const main = document.querySelector('main'); \
             return main.innerText.replace(main.querySelector('#away .note')?.innerText ?? '', '')",
        );
        // Ages differ from one moment to the next, and so do their units.
        let is_age = |word: &&str| {
            word.starts_with(|first: char| first.is_ascii_digit())
                || ["ms", "s", "min", "h", "d"].contains(word)
        };
        text.split_whitespace()
            .filter(|word| !is_age(word))
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for page in PAGES {
        browser.allow_scripts(true);
        let with = words(page);
        browser.allow_scripts(false);
        assert_eq!(words(page), with, "{page}");
        assert!(with.len() > 30, "{page}: {with}");
    }
    browser.console();
    // The page in between needs none, and neither has what it does.
    browser.open(&url(&web, "/actions/pause?job=backup"));
    browser.run("document.querySelector('.ask button').focus()");
    browser.press(ENTER);
    browser.until(
        "what was done",
        "return document.body.innerText.includes('Done.')",
    );
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn what_became_of_an_action_is_said_the_same_without_scripts() {
    let (fleet, web) = a_fleet();
    let browser = a_browser(&web);
    let after = |scripts: bool| {
        browser.allow_scripts(scripts);
        browser.open(&url(&web, "/actions/pause?job=backup"));
        browser.run("document.querySelector('.ask button').focus()");
        browser.press(ENTER);
        browser.until(
            "what became of it",
            "return document.readyState === 'complete' && document.querySelector('main p[role=status]') !== null",
        );
        browser.text(MAIN)
    };
    for words in ["Done.", "It failed."] {
        let with = after(true);
        assert_eq!(after(false), with);
        assert!(with.contains(words), "{with}");
        fleet.write("refuse", "dblock: backup is not there\n");
    }
}

#[test]
fn the_login_says_the_same_without_scripts() {
    let fleet = Fleet::new();
    let file = private(&fleet.path("password"), "secret\n");
    let web = fleet.serve(&["--password-file", &file]);
    let browser = Browser::new();
    let is_there = |what: &str, condition: &str| {
        browser.until(
            what,
            &format!("return document.readyState === 'complete' && {condition}"),
        );
    };
    let said = |scripts: bool| {
        browser.allow_scripts(scripts);
        browser.open(&url(&web, "/locks"));
        let mut said = vec![browser.text(MAIN)];
        for (password, condition) in [
            ("wrong", "document.querySelector('[role=alert]') !== null"),
            ("secret", "location.pathname === '/locks'"),
        ] {
            browser.run("document.getElementById('password').focus()");
            for letter in password.chars() {
                browser.press(letter);
            }
            browser.press(ENTER);
            is_there(password, condition);
            if password == "wrong" {
                said.push(browser.text(MAIN));
            }
        }
        browser.run("document.querySelector('footer button').focus()");
        browser.press(ENTER);
        is_there("the login", "location.pathname === '/login'");
        said.push(browser.text(MAIN));
        said
    };
    let with = said(true);
    assert_eq!(said(false), with);
    assert!(with[1].contains("This is not the password."), "{with:?}");
    // Whoever has logged out is asked as at first.
    assert_eq!(with[0], with[2]);
}

#[test]
fn nothing_that_a_table_has_is_run_or_loaded() {
    let (fleet, web) = a_fleet();
    let hostile = "<img src=x onerror=alert(1)><script>alert(2)</script> / 100% \"Grüße\"";
    let text = Value::String(hostile.to_owned()).to_string();
    for (question, answer) in FIXTURES {
        let answer = ["web1", "backup", "mailer", "deploy", "ops"]
            .iter()
            .fold(answer.to_owned(), |answer, word| {
                answer.replace(&json!(word).to_string(), &text)
            });
        fleet.answers(question, &answer);
    }
    let browser = a_browser(&web);
    browser.until(
        "the hostile job",
        &format!("return document.body.innerText.includes({text})"),
    );
    let link = browser.text(&format!("return [...document.querySelectorAll('.jobs a')].find(one => one.textContent === {text}).href"));
    for page in [
        &link,
        &url(&web, "/history"),
        &url(&web, "/locks"),
        &url(&web, "/timeline"),
        &url(&web, "/queues/mails"),
    ] {
        browser.open(page);
        assert_eq!(
            browser.run("return document.querySelectorAll('main img, main script').length"),
            0,
            "{page}"
        );
        assert_eq!(browser.console(), Vec::<String>::new(), "{page}");
    }
    browser.open(&link);
    assert_eq!(
        browser.text("return document.querySelector('h1').textContent"),
        hostile,
        "{link}"
    );
}
