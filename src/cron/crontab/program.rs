//! Which program a shell command runs first, if that is clear without a shell. Variables set for it alone, as `NAME=value` before it, may
//! be secrets. They are never part of the answer.

use std::iter::Peekable;
use std::str::Chars;

/// A command begins after these words.
const IN_FRONT: [&str; 11] = [
    "!", "{", "if", "then", "else", "elif", "while", "until", "do", "time", "exec",
];

/// After these words there is no simple command.
const OTHERS: [&str; 5] = ["for", "case", "select", "function", "[["];

/// The characters that end a word, besides white space.
const OPERATORS: [char; 7] = [';', '&', '|', '(', ')', '<', '>'];

/// Stands for a part that only the shell knows.
const UNKNOWN: char = '\0';

/// The program without its folder; `None`: it is not clear.
pub fn program(command: &str) -> Option<String> {
    let mut letters = command.chars().peekable();
    loop {
        while letters.next_if(char::is_ascii_whitespace).is_some() {}
        match *letters.peek()? {
            '#' => return None,
            '<' | '>' => {
                while letters.next_if(|c| "<>&|- \t".contains(*c)).is_some() {}
                word(&mut letters)?;
            }
            c if OPERATORS.contains(&c) => {
                letters.next();
            }
            _ => {
                let word = word(&mut letters)?;
                let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
                let is_redirected = matches!(letters.peek(), Some('<' | '>'));
                let is_passed_over = word.is_assignment
                    || is_number && is_redirected
                    || IN_FRONT.contains(&&*word.text);
                if !is_passed_over {
                    return of_path(&word.text);
                }
            }
        }
    }
}

fn of_path(word: &str) -> Option<String> {
    let program = word.rsplit('/').next().unwrap_or_default();
    let is_told = !program.is_empty() && !program.contains(UNKNOWN) && !OTHERS.contains(&word);
    is_told.then(|| program.to_owned())
}

/// A word of the shell.
#[derive(Default)]
struct Word {
    /// The word without its quotes, and with [`UNKNOWN`] in place of `$NAME` and similar.
    text: String,
    /// Whether it sets a variable.
    is_assignment: bool,
}

/// The next word; `None`: it has no end.
fn word(letters: &mut Peekable<Chars>) -> Option<Word> {
    let mut word = Word::default();
    let mut is_name = true;
    while let Some(&letter) = letters.peek() {
        if letter.is_ascii_whitespace() || OPERATORS.contains(&letter) {
            break;
        }
        letters.next();
        let is_first = word.text.is_empty();
        match letter {
            '\'' => until(letters, '\'', Some(&mut word.text))?,
            '"' => until(letters, '"', Some(&mut word.text))?,
            '\\' => word.text.extend(letters.next()),
            '`' | '$' => {
                word.text.push(UNKNOWN);
                expansion(letter, letters)?;
            }
            // `NAME[1]=` of bash.
            '[' if is_name && !is_first => until(letters, ']', None)?,
            '+' if is_name && letters.peek() == Some(&'=') => {}
            '=' if is_name && !is_first => {
                word.is_assignment = true;
                // `NAME=(a b)` of bash.
                if letters.next_if_eq(&'(').is_some() {
                    until(letters, ')', None)?;
                }
            }
            letter => word.text.push(letter),
        }
        let is_letter = letter == '_' || letter.is_ascii_alphabetic();
        is_name &= is_letter || !is_first && (letter.is_ascii_digit() || "[+".contains(letter));
    }
    Some(word)
}

/// Skips an expansion of the shell, after its first character.
fn expansion(first: char, letters: &mut Peekable<Chars>) -> Option<()> {
    match (first, letters.peek()) {
        ('`', _) => until(letters, '`', None),
        (_, Some('(')) => {
            letters.next();
            until(letters, ')', None)
        }
        (_, Some('{')) => {
            letters.next();
            until(letters, '}', None)
        }
        _ => {
            let is_of_name = |c: &char| c.is_ascii_alphanumeric() || "_?!#@*".contains(*c);
            while letters.next_if(is_of_name).is_some() {}
            Some(())
        }
    }
}

/// Skips everything up to this character, with quoted and bracketed parts in between. `None`: it is missing. The unquoted text is added to
/// `text`.
fn until(letters: &mut Peekable<Chars>, end: char, mut text: Option<&mut String>) -> Option<()> {
    loop {
        let letter = letters.next()?;
        let is_literal = end == '\'';
        let mut meant = letter;
        match letter {
            _ if letter == end => return Some(()),
            _ if is_literal => {}
            '\\' => meant = letters.next()?,
            '`' | '$' => {
                meant = UNKNOWN;
                expansion(letter, letters)?;
            }
            '"' | '\'' if end != '"' && end != '`' => until(letters, letter, None)?,
            '(' if end == ')' => until(letters, ')', None)?,
            _ => {}
        }
        if let Some(text) = &mut text {
            text.push(meant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_and_what_is_set_for_it_is_not() {
        for (command, name) in [
            ("report", "report"),
            ("  /usr/local/bin/report --all=1 x", "report"),
            ("TOKEN=secret report", "report"),
            (
                "TOKEN='two words' OTHER=\"a \\\" b\" /bin/report x=y",
                "report",
            ),
            ("TOKEN=two\\ words report", "report"),
            ("TOKEN=$(cat \"/etc/a b\") report", "report"),
            ("TOKEN=$(cat $(ls -d x) ) report", "report"),
            ("TOKEN=`cat /etc/a b` report", "report"),
            ("TOKEN=\"$(echo \"a b\")\" report", "report"),
            ("TOKEN=${A:-x y} report", "report"),
            ("TOKEN=a; report", "report"),
            ("TOKEN=a;report --all", "report"),
            ("A=1 && B=2 && report", "report"),
            ("A=(one two) report", "report"),
            ("A[1]=one A+=two report", "report"),
            ("(cd /x && report)", "cd"),
            ("{ report; }", "report"),
            ("! report", "report"),
            ("if report; then x; fi", "report"),
            (">/dev/null 2>&1 report", "report"),
            ("2>/dev/null report", "report"),
            ("> \"/tmp/a b\" report", "report"),
            ("exec /opt/report", "report"),
            ("[ -x /usr/bin/report ] && report", "["),
            ("test -x /usr/bin/report || true", "test"),
            ("\"/opt/my programs/report\" x", "report"),
            ("$HOME/bin/report", "report"),
            ("\"$HOME\"/bin/report", "report"),
            ("/opt/my\\ report x", "my report"),
            ("env TOKEN=secret report", "env"),
            ("export TOKEN=secret; report", "export"),
            ("7zip x", "7zip"),
            ("1=2 x", "1=2"),
        ] {
            assert_eq!(program(command).as_deref(), Some(name), "{command}");
        }
        for command in [
            "",
            "TOKEN=secret",
            "TOKEN='secret report",
            "TOKEN=\"secret report",
            "TOKEN=$(secret report",
            "TOKEN=(secret report",
            "$REPORT x",
            "/opt/$REPORT x",
            "`secret` x",
            "/opt/ x",
            "# report",
            "for a in secret; do report $a; done",
        ] {
            assert_eq!(program(command), None, "{command}");
        }
    }
}
