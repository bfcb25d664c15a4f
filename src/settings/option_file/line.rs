//! One line of an option file: its name, its value, its quotes, escapes and comment.

use zeroize::Zeroizing;

/// The name and value of a line that begins with neither white space nor a comment. The name is in lower case, with `-` for `_`, and
/// without `loose-`.
pub fn option(line: &[u8]) -> (String, Option<Zeroizing<Vec<u8>>>) {
    let line = without_comment(line);
    let equals = line.iter().position(|&byte| byte == b'=');
    let key = line[..equals.unwrap_or(line.len())].trim_ascii_end();
    let key = String::from_utf8_lossy(key)
        .replace('_', "-")
        .to_ascii_lowercase();
    let key = key.strip_prefix(LOOSE).unwrap_or(&key).to_owned();
    (key, equals.map(|equals| value(&line[equals + 1..])))
}

/// The prefix of an option that not every program knows.
const LOOSE: &str = "loose-";

/// Whether the line's name begins with `loose-`.
pub fn is_loose(line: &[u8]) -> bool {
    let start = line
        .get(..LOOSE.len())
        .unwrap_or_default()
        .to_ascii_lowercase();
    matches!(start.as_slice(), b"loose-" | b"loose_")
}

/// A line up to its comment, which begins with a `#` outside of quotes.
pub fn without_comment(line: &[u8]) -> &[u8] {
    let mut quote = None;
    let mut escaped = false;
    for (at, &byte) in line.iter().enumerate() {
        if !escaped && matches!(byte, b'"' | b'\'') {
            quote = match quote {
                None => Some(byte),
                Some(open) if open == byte => None,
                open => open,
            };
        }
        if byte == b'#' && quote.is_none() {
            return &line[..at];
        }
        // Outside of quotes a backslash does not escape a quote.
        escaped = quote.is_some() && byte == b'\\' && !escaped;
    }
    line
}

/// A value without its quotes, and with its escapes replaced.
fn value(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let text = text.trim_ascii();
    let text = match text {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        text => text,
    };
    let mut value = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        // A backslash at the end stands for itself.
        let escaped = if byte == b'\\' { bytes.next() } else { None };
        match escaped {
            None => value.push(byte),
            Some(b'n') => value.push(b'\n'),
            Some(b't') => value.push(b'\t'),
            Some(b'r') => value.push(b'\r'),
            Some(b'b') => value.push(8),
            Some(b's') => value.push(b' '),
            Some(&quoted @ (b'"' | b'\'' | b'\\')) => value.push(quoted),
            Some(&other) => value.extend([b'\\', other]),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_in_quotes_with_escapes_is_that_value(text in "[a-z \\t\\n\"'\\\\#;=é]{0,30}") {
            let mut escaped = String::new();
            for character in text.chars() {
                match character {
                    '\n' => escaped.push_str("\\n"),
                    '\t' => escaped.push_str("\\t"),
                    '"' | '\\' => escaped.extend(['\\', character]),
                    other => escaped.push(other),
                }
            }
            let (key, value) = option(format!("some_key = \"{escaped}\" # comment").as_bytes());
            prop_assert_eq!(key, "some-key");
            prop_assert_eq!(value.map(|value| value.to_vec()), Some(text.into_bytes()));
        }
    }
}
