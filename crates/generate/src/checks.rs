//! Tests: mandoc and man have no warnings, and the pages describe exactly the options that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use super::page::{self, Page};
use super::{at, cli};

/// The variables that dblock sets for its command.
const OF_THE_COMMAND: [&str; 9] = [
    "DBLOCK_NAME",
    "DBLOCK_SLOT",
    "DBLOCK_SLOT_NAME",
    "DBLOCK_CONNECTION_ID",
    "DBLOCK_FENCE",
    "DBLOCK_TICK",
    "DBLOCK_RESULT",
    "DBLOCK_EXIT_CODE",
    "DBLOCK_SIGNAL",
];

/// The variable that is no setting: it names a token where no lock is named.
const TOKEN: &str = "DBLOCK_TOKEN";

/// Options that the pages speak of and that no command of dblock's has: those of a job of a crontab, and what dblock does not have.
const OF_OTHERS: [&str; 6] = [
    "--retries",
    "--missed",
    "--deadline",
    "--overlap",
    "--jitter",
    "--password",
];

/// Runs a program that comes with a package of Debian's.
fn run(program: &str, package: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).envs([
        ("LC_ALL", "C.UTF-8"),
        ("MANWIDTH", "80"),
        ("MANPAGER", "cat"),
    ]);
    let outcome = command.output();
    outcome.unwrap_or_else(|error| {
        panic!("{program}: {error}; script/bootstrap installs it, or: apt-get install {package}")
    })
}

/// The committed file of a page.
fn file(page: &Page) -> String {
    let path = at("man").join(page.file_name());
    assert!(
        path.exists(),
        "{} is missing: script/generate",
        path.display()
    );
    path.display().to_string()
}

/// What `man` says of a page, and warns of. Each is asked for once: it takes a tenth of a second.
fn of_man(page: &Page) -> Output {
    static KNOWN: Mutex<BTreeMap<String, Output>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = known.entry(page.name.clone()).or_insert_with(|| {
        let args = ["--warnings", "-E", "UTF-8", "-l", &file(page)];
        run("man", "man-db", &args)
    });
    output.clone()
}

/// A page as `man` shows it.
fn shown(page: &Page) -> String {
    String::from_utf8(of_man(page).stdout).expect("UTF-8")
}

/// One section of it, without its name.
fn section(page: &Page, name: &str) -> String {
    let shown = shown(page);
    let lines = shown.lines().skip_while(|line| *line != name).skip(1);
    let lines: Vec<_> = lines
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .collect();
    assert!(!lines.is_empty(), "no {name} in {}:\n{shown}", page.name);
    lines.join("\n")
}

/// The page of a command, say `run`.
fn page_of(command: &str) -> Page {
    let name = format!("dblock-{command}");
    let page = page::all().into_iter().find(|page| page.name == name);
    page.expect("a command has a page")
}

/// The words of letters, digits, dashes and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_')
}

/// The numbers with which the paragraphs of a section begin.
fn codes(section: &str) -> BTreeSet<u8> {
    let firsts = section
        .lines()
        .filter_map(|line| line.strip_prefix("       ")?.split(' ').next());
    firsts.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn mandoc_and_man_have_nothing_to_warn_of() {
    for page in page::all() {
        let warn = |program: &str, found: &Output, said: &[u8]| {
            let said = String::from_utf8_lossy(said);
            let is_well = found.status.success() && said.is_empty();
            assert!(is_well, "{program} of {}:\n{said}", page.name);
        };
        let man = of_man(&page);
        warn("man", &man, &man.stderr);
        // Its lint is its output.
        let mandoc = run("mandoc", "mandoc", &["-Tlint", "-Wall", &file(&page)]);
        warn(
            "mandoc",
            &mandoc,
            &[mandoc.stderr.clone(), mandoc.stdout.clone()].concat(),
        );
    }
}

#[test]
fn each_page_has_the_sections_of_a_manual_page() {
    for page in page::all() {
        let shown = shown(&page);
        let is_name = |line: &&str| line.starts_with(char::is_uppercase) && !line.contains('(');
        let sections: Vec<_> = shown.lines().filter(is_name).collect();
        let mut expected = vec![
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "EXIT STATUS",
            "ENVIRONMENT",
            "FILES",
            "EXAMPLES",
            "SEE ALSO",
        ];
        let more: &[(usize, &str)] = match &*page.name {
            "dblock" | "dblock-cron" | "dblock-queue" => &[(4, "COMMANDS")],
            "dblock-run" => &[(5, "SIGNALS"), (8, "CAVEATS")],
            "dblock-check" => &[(7, "CAVEATS")],
            _ => &[],
        };
        for &(at, name) in more {
            expected.insert(at, name);
        }
        assert_eq!(sections, expected, "{}", page.name);
    }
}

#[test]
fn each_option_of_the_command_line_has_its_place() {
    for page in page::all() {
        let options = section(&page, "OPTIONS");
        let begins = |what: &str| {
            let mut lines = options.lines().map(str::trim_start);
            lines.any(|line| {
                let spellings = line
                    .split(", ")
                    .filter_map(|word| word.split([' ', '[']).next());
                line.starts_with('-') && spellings.into_iter().any(|word| word == what)
            })
        };
        let arguments = page.command.get_arguments();
        for option in arguments.filter_map(clap::Arg::get_long) {
            assert!(
                begins(&format!("--{option}")),
                "--{option} in {}",
                page.name
            );
        }
    }
}

#[test]
fn what_is_run_is_no_part_of_the_connection() {
    for page in [page_of("run"), page_of("config")] {
        let options = section(&page, "OPTIONS");
        let (before, behind) = options.split_once("   Connection").expect("a heading");
        assert!(
            before.contains("COMMAND") && !behind.contains("COMMAND"),
            "{options}"
        );
    }
}

#[test]
fn no_option_is_spoken_of_that_does_not_exist() {
    let pages = page::all();
    let options = |page: &Page| {
        let options = page.command.get_arguments().filter_map(clap::Arg::get_long);
        options
            .map(|option| format!("--{option}"))
            .collect::<Vec<_>>()
    };
    let known: BTreeSet<_> = pages.iter().flat_map(options).collect();
    for page in &pages {
        let shown = shown(page);
        let spoken_of = words(&shown).filter(|word| word.starts_with("--") && word.len() > 2);
        for option in spoken_of.filter(|option| !OF_OTHERS.contains(option)) {
            assert!(known.contains(option), "{option} in {}", page.name);
        }
    }
}

#[test]
fn each_exit_code_is_described() {
    // `Self::Usage => 64,` and `pub const CONFLICT: u8 = 75;`
    let source = include_str!("../../../src/base/exit.rs");
    let numbers = source.lines().filter_map(|line| {
        let line = line.trim();
        let arm = line
            .strip_prefix("Self::")
            .and_then(|arm| arm.split_once(" => ")?.1.strip_suffix(','));
        let constant = || {
            line.strip_prefix("pub const ")?
                .split_once(": u8 = ")?
                .1
                .strip_suffix(';')
        };
        arm.or_else(constant)?.parse().ok()
    });
    let codes_of_dblock: BTreeSet<u8> = numbers.collect();
    for (what, code) in [("usage", 64), ("a conflict", 75)] {
        assert!(
            codes_of_dblock.contains(&code),
            "{what}: {codes_of_dblock:?}"
        );
    }
    let described = codes(&section(&page_of("run"), "EXIT STATUS"));
    assert_eq!(described, codes_of_dblock);
}

#[test]
fn a_page_has_the_exit_codes_of_the_help() {
    for page in page::all() {
        let Some(help) = page.command.get_after_help() else {
            continue;
        };
        let help = help.to_string();
        let sentence = help
            .split("Exit codes:")
            .nth(1)
            .expect("the help lists them");
        let sentence = sentence.split("\n\n").next().unwrap_or_default();
        // 128 + n is no code, and not every number is one.
        let numbers = words(sentence).filter_map(|word| word.parse::<u8>().ok());
        let of_help: BTreeSet<_> = numbers.filter(|&number| number != 128).collect();
        assert_eq!(
            codes(&section(&page, "EXIT STATUS")),
            of_help,
            "{}",
            page.name
        );
    }
}

#[test]
fn each_variable_is_described_and_none_that_does_not_exist() {
    let own = cli::variables().map(|(_, variable)| variable);
    let own = own.filter(|variable| variable.starts_with("DBLOCK_"));
    let known: BTreeSet<_> = own.chain(OF_THE_COMMAND).chain([TOKEN]).collect();
    let environment = section(&page_of("run"), "ENVIRONMENT");
    let described: BTreeSet<_> = words(&environment)
        .filter(|word| word.starts_with("DBLOCK_") && *word != "DBLOCK_")
        .collect();
    assert_eq!(described, known);
}

#[test]
fn each_table_is_named_by_the_page_of_init() {
    // `    name: "dblock_meta",`
    let source = include_str!("../../../src/schema/tables.rs");
    let names = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\","));
    let tables: BTreeSet<_> = names.filter(|name| name.starts_with("dblock_")).collect();
    assert!(tables.contains("dblock_meta"), "{tables:?}");
    let description = section(&page_of("init"), "DESCRIPTION");
    let described: BTreeSet<_> = words(&description)
        .filter(|word| word.starts_with("dblock_"))
        .collect();
    assert_eq!(described, tables);
}

#[test]
fn the_page_of_the_daemon_names_the_variable_of_its_sendmail() {
    let source = include_str!("../../../src/crond/mail.rs");
    let variable = source.split("SENDMAIL_VARIABLE: &str = \"").nth(1);
    let variable = variable.and_then(|text| text.split('"').next());
    let variable = variable.expect("a constant");
    assert!(section(&page_of("cron-run"), "ENVIRONMENT").contains(variable));
}
