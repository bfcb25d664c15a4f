//! Who may look, and who may not.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;

use crate::harness::{FORM, Fleet, Response, Web, private, until};

fn password(fleet: &Fleet) -> String {
    private(&fleet.path("password"), "Grüße, 100% & more\n")
}

const TYPED: &str = "password=Gr%C3%BC%C3%9Fe%2C+100%25+%26+more";

/// Logs in by the form, and returns the answer.
fn log_in(web: &Web, to: &str, form: &str) -> Response {
    web.post(&format!("/login{to}"), form)
}

#[test]
fn the_token_lets_in_once_and_a_cookie_from_then_on() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]);
    let token = web.url.split("?token=").nth(1).unwrap().to_owned();
    assert!(
        token.len() == 32 && token.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{token}"
    );
    web.get("/")
        .expect(403)
        .has("Open the URL")
        .lacks("No lock");
    web.get("/?token=").expect(403);
    web.get(&format!("/?token={}", "0".repeat(32))).expect(403);

    let first = web
        .get(&format!("/history?result=lost&token={token}"))
        .expect(303);
    assert_eq!(first.header("location"), Some("/history?result=lost"));
    let cookie = first.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(
        !cookie.contains("Secure") && !cookie.contains(&token),
        "{cookie}"
    );

    let web = web.enter();
    web.get("/").expect(200);
    // Who has the cookie gets rid of the token, too.
    assert_eq!(
        web.get(web.first_path()).expect(303).header("location"),
        Some("/")
    );
}

#[test]
fn a_cookie_of_another_name_or_value_is_none() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let (name, value) = web.cookie.split_once('=').unwrap();
    let wrong = [
        format!("{name}={}", &value[1..]),
        format!("x{name}={value}"),
        format!("{name}="),
    ];
    for cookie in wrong {
        web.send("GET", "/", &[("Cookie", &cookie)], "").expect(403);
    }
    let among_others = format!("a=é; {name}={value}; c=d");
    web.send("GET", "/", &[("Cookie", &among_others)], "")
        .expect(200);
}

#[test]
fn every_answer_says_how_it_may_be_used() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    until("all is known", || web.get("/jobs/none").status == 404);
    for (path, status) in [
        ("/", 200),
        ("/nowhere", 404),
        ("/jobs/none", 404),
        ("/actions/pause", 403),
    ] {
        let answer = web.get(path).expect(status);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert!(
            !answer.body.contains(" style=") && !answer.body.contains("<style"),
            "{path}"
        );
        assert!(
            !answer.body.contains(" onclick") && !answer.body.contains("<script>"),
            "{path}"
        );
    }
}

#[test]
fn what_has_a_hash_in_its_name_is_kept_and_needs_no_token() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let page = web.get("/").expect(200);
    let style = page
        .body
        .split("href=\"")
        .find(|part| part.starts_with("/assets/style"))
        .expect("a style sheet");
    let style = style.split('"').next().unwrap();
    let answer = web.send("GET", style, &[("Cookie", "")], "").expect(200);
    assert!(
        answer
            .header("cache-control")
            .unwrap()
            .contains("immutable")
    );
    assert_eq!(
        answer.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    let none = web.get("/assets/style.0000000000.css").expect(404);
    assert_eq!(none.header("cache-control"), Some("no-store"));
}

#[test]
fn a_name_that_is_not_this_servers_is_refused() {
    let fleet = Fleet::new();
    let web = fleet
        .serve(&["--host-name", "fleet.example,Other.Example"])
        .enter();
    for host in [
        "localhost:80",
        "127.0.0.1",
        "fleet.example",
        "other.example:8443",
    ] {
        web.send("GET", "/", &[("Host", host)], "").expect(200);
    }
    for host in [
        "evil.example",
        "fleet.example.evil",
        "127.0.0.1.evil.example:8080",
    ] {
        web.send("GET", "/", &[("Host", host)], "")
            .expect(403)
            .has("--host-name");
    }
    web.send("GET", "/", &[("Host", "<script>")], "")
        .expect(403)
        .lacks("<script>");
    let without = web.request("GET", "/", &[("Host", "")], "");
    assert_eq!(Response::of(&web.raw(without.as_bytes())).status, 403);
    let twice = web.request("GET", "/", &[("Host", "localhost\r\nHost: localhost")], "");
    assert_eq!(Response::of(&web.raw(twice.as_bytes())).status, 403);
}

#[test]
fn a_form_that_another_server_sends_is_refused() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    let own = format!("http://{}", web.address());
    let secure = format!("https://{}", web.address());
    let send = |headers: &[(&str, &str)]| {
        let headers = [headers, &[FORM]].concat();
        web.send("POST", "/actions/pause", &headers, "job=report")
            .status
    };
    for wrong in [
        &[][..],
        &[("Origin", "null")],
        &[("Origin", "http://evil.example")],
        &[("Origin", &*secure), ("Sec-Fetch-Site", "same-origin")],
        &[("Origin", &*own), ("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
    ] {
        assert_eq!(send(wrong), 403, "{wrong:?}");
    }
    assert_eq!(fleet.asked(&["cron", "pause"]), 0);
    // Nor does another server bring somebody in front of the button; it may link to what is only read.
    let link = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    web.send("GET", "/actions/pause?job=report", &link, "")
        .expect(403);
    web.send("GET", "/", &link, "").expect(200);
    assert_eq!(
        send(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]),
        200
    );
    assert_eq!(fleet.asked(&["cron", "pause"]), 1);
}

#[test]
fn a_link_of_another_server_leads_to_the_page_by_way_of_one_of_this_server() {
    let fleet = Fleet::new();
    let file = password(&fleet);
    let of = |site| {
        [
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", "document"),
        ]
    };
    let link = of("cross-site");
    for (more, status) in [(&[][..], 403), (&["--password-file", &*file], 303)] {
        // It comes without the cookie.
        let web = fleet.serve(more);
        let get = |path: &str| web.send("GET", path, &link, "");
        get("/history?name=a&on=%22")
            .expect(200)
            .has("content=\"0;url=/history?name=a&amp;on=%22\"")
            .lacks("<script");
        get("//evil.example/").expect(200).has("\"0;url=/\"");
        get("/actions/pause?job=report").expect(403);
        // That page is of this server, and the cookie may still be missing.
        web.send("GET", "/history", &of("same-origin"), "")
            .expect(status);
    }
}

#[test]
fn the_password_is_asked_for_and_lets_in() {
    let fleet = Fleet::new();
    let mut web = fleet.serve(&["--password-file", &password(&fleet)]);
    assert_eq!(web.first_path(), "/");
    let asked = web.get("/history?result=lost").expect(303);
    let login = asked.header("location").unwrap().to_owned();
    web.get(&login).expect(200).has("type=\"password\"");
    // The script is not sent to another page, and knows that no proxy answers.
    let refused = web.send("GET", "/", &[("X-Dblock-Main", "1")], "");
    assert_eq!(refused.expect(403).header("x-dblock-main"), Some("1"));

    log_in(&web, "", "password=wrong")
        .expect(403)
        .has("not the password");
    log_in(&web, "", "password=").expect(403);
    log_in(&web, "", "other=x").expect(422);
    let right = web.post(&login, TYPED);
    assert_eq!(web.keep_cookie(right), "/history?result=lost");
    web.get("/").expect(200);
    let (code, said) = web.end(Signal::SIGTERM);
    assert!(
        code == Some(0) && said.contains("wrong password") && !said.contains("100%"),
        "{said}"
    );
}

#[test]
fn where_there_is_no_password_nobody_types_a_wrong_one() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]);
    assert_eq!(web.get("/login").expect(303).header("location"), Some("/"));
    log_in(&web, "", "password=guess")
        .expect(404)
        .has("There is no such page.")
        .lacks("type=\"password\"");
    web.post("/logout", "").expect(404);
    let web = web.enter();
    web.get("/").expect(200).lacks("/logout");
    assert_eq!(web.end(Signal::SIGTERM), (Some(0), String::new()));
}

#[test]
fn who_logs_out_is_let_in_no_more_and_others_stay() {
    let fleet = Fleet::new();
    let mut web = fleet.serve(&["--password-file", &password(&fleet)]);
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let first = log_in(&web, "", TYPED);
        web.keep_cookie(first);
        cookies.push(web.cookie.clone());
        web.get("/").expect(200).has("action=\"/logout\"");
    }
    assert_ne!(cookies[0], cookies[1]);
    // Neither a link nor a form of another server does it.
    assert_eq!(web.get("/logout").expect(303).header("location"), Some("/"));
    web.send("POST", "/logout", &[], "").expect(403);
    web.get("/").expect(200);
    let left = web.post("/logout", "").expect(303);
    assert_eq!(left.header("location"), Some("/login"));
    let (name, _) = web.cookie.split_once('=').unwrap();
    let cookie = left.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with(&format!("{name}=;")) && cookie.ends_with("; Max-Age=0"),
        "{cookie}"
    );
    web.get("/").expect(303);
    web.get("/login").expect(200).lacks("/logout");
    // The same once more, after the login is over.
    web.post("/logout", "").expect(303);
    web.cookie.clone_from(&cookies[0]);
    web.get("/").expect(200);
}

#[test]
fn a_login_leads_to_no_other_server_and_to_no_action() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--password-file", &password(&fleet)]);
    for to in [
        "?to=//evil.example",
        "?to=https://evil.example/",
        "?to=/%5Cevil.example",
        "?to=/%09/evil.example",
        "?to=%09//evil.example",
        "?to=%0d%0aX-Evil:%201",
        // Nor to a button that changes something.
        "?to=/actions/kill%3Flock=backup",
        "?to=/./actions/kill%3Flock=backup",
    ] {
        let answer = log_in(&web, to, TYPED).expect(303);
        assert_eq!(answer.header("location"), Some("/"), "{to}");
        assert_eq!(answer.header("x-evil"), None);
    }
}

#[test]
fn whoever_guesses_the_password_is_slowed() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--password-file", &password(&fleet)]);
    let refused = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while log_in(&web, "", "password=guess").status == 429 {
                    refused.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(50));
                }
            });
        }
    });
    // Two at once, for a second each.
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(2900), "{elapsed:?}");
    assert!(refused.into_inner() > 0);
}

#[test]
fn an_attempt_lasts_as_long_for_a_client_that_closes_at_once() {
    let fleet = Fleet::new();
    let mut web = fleet.serve(&["--password-file", &password(&fleet)]);
    let guess = web.form("/login", "password=guess");
    let start = Instant::now();
    for _ in 0..40 {
        web.connect().write_all(guess.as_bytes()).unwrap();
        sleep(Duration::from_millis(20));
    }
    // It may not have come to any of them yet.
    let first = web.says();
    let (_, rest) = web.end(Signal::SIGTERM);
    let elapsed = start.elapsed();
    let guesses = (first + &rest).matches("wrong password").count() as u64;
    let most = 2 * (elapsed.as_secs() + 2);
    assert!((1..=most).contains(&guesses), "{guesses} in {elapsed:?}");
}

#[test]
fn a_wrong_password_is_answered_when_nobody_reads_stderr() {
    let fleet = Fleet::new();
    let mut web = fleet.serve(&["--password-file", &password(&fleet)]);
    web.close_stderr();
    log_in(&web, "", "password=wrong").expect(403);
}

#[test]
fn a_wrong_password_is_answered_when_stderr_has_no_room() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--password-file", &password(&fleet)]);
    let mut options = File::options();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let mut stderr = options.open(format!("/proc/{}/fd/2", web.pid())).unwrap();
    for piece in [4096, 1] {
        while stderr.write(&vec![b'\n'; piece]).is_ok() {}
    }
    log_in(&web, "", "password=wrong").expect(403);
}

#[test]
fn a_new_password_is_read_at_sighup_and_ends_what_was_let_in() {
    let fleet = Fleet::new();
    let mut web = fleet.serve(&["--password-file", &password(&fleet)]);
    let first = log_in(&web, "", TYPED);
    web.keep_cookie(first);
    web.get("/").expect(200);
    private(&fleet.path("password"), "new\n");
    web.signal(Signal::SIGHUP);
    until("the cookie is void", || web.get("/").status == 303);
    log_in(&web, "", "password=new").expect(303);
}

#[test]
fn a_proxy_that_does_the_tls_makes_the_cookie_secure_and_its_log_says_who_came() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--behind-proxy", "--password-file", &password(&fleet)]);
    let origin = format!("https://{}", web.address());
    let headers = [("Origin", &*origin), FORM];
    // Where a client of the proxy is, its log says: a header that names it is not believed.
    let claims = [&headers[..], &[("X-Forwarded-For", "192.0.2.1")]].concat();
    web.send("POST", "/login", &claims, "password=wrong")
        .expect(403);
    let answer = web.send("POST", "/login", &headers, TYPED).expect(303);
    assert!(
        answer.header("set-cookie").unwrap().contains("; Secure"),
        "{answer:?}"
    );
    let (_, said) = web.end(Signal::SIGTERM);
    assert!(
        said.contains("was typed by a client of the proxy") && !said.contains("192.0.2.1"),
        "{said}"
    );
}

#[test]
fn a_password_that_others_can_read_is_not_used_and_one_that_its_group_can_read_is() {
    let fleet = Fleet::new();
    let file = password(&fleet);
    let may_be = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let refused = || {
        let args = ["--listen", "127.0.0.1:0", "--password-file", &file];
        let output = crate::harness::output(&mut fleet.command(&args));
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for mode in [0o644, 0o602] {
        may_be(mode);
        assert!(refused().contains("others can read it; chmod 600 it"));
    }
    private(&fleet.path("password"), "\nsecond line\n");
    assert!(refused().contains("first line is empty"));
    password(&fleet);
    // As that of a secret which Kubernetes has mounted.
    may_be(0o440);
    let web = fleet.serve(&["--password-file", &file]);
    log_in(&web, "", TYPED).expect(303);
}
