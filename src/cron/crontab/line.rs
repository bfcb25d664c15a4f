//! One line of a crontab: a variable's setting, or a schedule and a command. They are read as in cronie (`src/env.c`, `src/entry.c`,
//! `src/do_command.c`).

/// The characters that `isspace` accepts.
const SPACE: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// The characters between the fields of a job's line, and before any line.
pub const BLANK: [char; 2] = [' ', '\t'];

/// The name and the value of a variable's setting, without their quotes; `None` for any other line. White space around the `=` and after
/// the value is dropped, unless it is in quotes.
pub fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = match quoted(line) {
        Some((name, rest)) => (name, rest),
        None if line.starts_with(['"', '\'']) => return None,
        None => line.split_at(line.find(|c| c == '=' || SPACE.contains(&c))?),
    };
    let value = rest.trim_start_matches(SPACE).strip_prefix('=')?;
    let value = value.trim_start_matches(SPACE);
    let is_whole = !name.contains('=');
    match quoted(value) {
        Some((value, behind)) => {
            let is_all = behind.trim_matches(SPACE).is_empty();
            (is_whole && is_all).then_some((name, value))
        }
        None if value.starts_with(['"', '\'']) => None,
        None => is_whole.then(|| (name, value.trim_end_matches(SPACE))),
    }
}

/// The quoted text at the start, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    text[1..].split_once(quote)
}

/// Whether a line that is no setting was probably meant as one: a variable's name and `=`.
pub fn looks_like_setting(line: &str) -> bool {
    let Some((name, _)) = line.split_once('=') else {
        return false;
    };
    let name = name.trim_end_matches(SPACE);
    let mut letters = name.chars();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(is_of_name)
}

/// The schedule of a job's line, as its five fields or its nickname, and the rest of the line. Fields may be missing.
pub fn schedule_and_rest(line: &str) -> (Vec<&str>, &str) {
    let count = if line.starts_with('@') { 1 } else { 5 };
    let mut fields = Vec::new();
    let mut rest = line.trim_start_matches(BLANK);
    while fields.len() < count && !rest.is_empty() {
        let (field, behind) = rest.split_at(rest.find(BLANK).unwrap_or(rest.len()));
        fields.push(field);
        rest = behind.trim_start_matches(BLANK);
    }
    (fields, rest)
}

/// The command for the shell, and its stdin. The first `%` without a backslash ends the command. Each later one is a line break, and the
/// last line ends with one. `\%` is a `%`. Every other backslash is kept.
pub fn command_and_input(text: &str) -> (String, String) {
    let mut command = String::new();
    let mut letters = text.chars();
    let mut is_escaped = false;
    while let Some(letter) = letters.next() {
        match letter {
            '%' if is_escaped => {
                command.pop();
                command.push('%');
            }
            '%' => return (command, input(letters.as_str())),
            letter => command.push(letter),
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    (command, String::new())
}

/// The text after the first `%`. Here the second of two backslashes also escapes; in the command it does not. This is as in cronie.
fn input(text: &str) -> String {
    let mut input = String::new();
    let mut is_escaped = false;
    for letter in text.chars() {
        match letter {
            '%' if is_escaped => {
                input.pop();
                input.push('%');
            }
            '%' => input.push('\n'),
            letter => input.push(letter),
        }
        is_escaped = letter == '\\';
    }
    if !input.is_empty() && !input.ends_with('\n') {
        input.push('\n');
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_set_with_or_without_spaces_and_quotes() {
        for (line, name, value) in [
            ("MAILTO=root", "MAILTO", "root"),
            ("MAILTO = root", "MAILTO", "root"),
            ("MAILTO\t=\troot \t", "MAILTO", "root"),
            ("MAILTO=", "MAILTO", ""),
            ("MAILTO=  ", "MAILTO", ""),
            ("MAILTO=\"\"", "MAILTO", ""),
            ("MAILTO=''", "MAILTO", ""),
            ("A=\" b \"", "A", " b "),
            ("A=' b '  ", "A", " b "),
            ("A='\"'", "A", "\""),
            ("'A'='b'", "A", "b"),
            ("\"A B\" = c", "A B", "c"),
            ("A=b c  # d", "A", "b c  # d"),
            ("A=b=c", "A", "b=c"),
            ("A=b\"c", "A", "b\"c"),
            ("PATH=/usr/bin:$HOME/bin", "PATH", "/usr/bin:$HOME/bin"),
            ("=b", "", "b"),
        ] {
            assert_eq!(setting(line), Some((name, value)), "{line:?}");
        }
        for line in [
            "* * * * * A=b c",
            "@daily A=b c",
            "export A=b",
            "A",
            "A b",
            "\"A=b",
            "\"A=b\"=c",
            "A=\"b",
            "A='b\"",
            "A=\"b\" c",
            "0 5 * * * x --a=b",
        ] {
            assert_eq!(setting(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_fields_are_what_stands_in_front_of_the_command() {
        for (line, fields, rest) in [
            ("* * * * * a  b ", &["*", "*", "*", "*", "*"][..], "a  b "),
            ("1\t2  3 4\t\t5 \ta", &["1", "2", "3", "4", "5"], "a"),
            ("@daily\ta b", &["@daily"], "a b"),
            ("1 2 3", &["1", "2", "3"], ""),
            ("1 2 3 4 5", &["1", "2", "3", "4", "5"], ""),
            ("@daily", &["@daily"], ""),
        ] {
            assert_eq!(schedule_and_rest(line), (fields.to_vec(), rest), "{line}");
        }
    }

    #[test]
    fn a_percent_sign_ends_the_command_and_its_input_s_lines() {
        for (text, command, input) in [
            ("a b", "a b", ""),
            ("a%", "a", ""),
            ("a%b", "a", "b\n"),
            ("a%b%c", "a", "b\nc\n"),
            ("a%%b%%", "a", "\nb\n\n"),
            (
                "mail -s \"It's 10pm\" joe%Joe,%%Where are your kids?%",
                "mail -s \"It's 10pm\" joe",
                "Joe,\n\nWhere are your kids?\n",
            ),
            (r"date +\%F", "date +%F", ""),
            (r"date +\%F\%T%a\%b", "date +%F%T", "a%b\n"),
            (r"a\b\\c\", r"a\b\\c\", ""),
            (r"a\\%b", r"a\\", "b\n"),
            (r"a\\\%b", r"a\\%b", ""),
            (r"a%b\\%c", "a", "b\\%c\n"),
            (r"a%b\", "a", "b\\\n"),
        ] {
            assert_eq!(
                command_and_input(text),
                (command.to_owned(), input.to_owned()),
                "{text}"
            );
        }
    }
}
