//! Parts of a URL: their percent-encoding, and what an error may show of them.

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

/// A part of a URL without its percent-encoding.
pub fn decoded(text: &str, what: &str) -> Result<Zeroizing<String>, String> {
    let is_encoded = |code: &str| {
        let code = code.as_bytes().get(..2);
        code.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return Err(format!(
            "a % in the {what} of the URL must be written as %25"
        ));
    }
    let text = percent_decode_str(text).decode_utf8();
    match text {
        Ok(text) if text.contains('\0') => Err(format!("the {what} in the URL has a byte 0")),
        Ok(text) => Ok(Zeroizing::new(text.into_owned())),
        Err(_) => Err(format!("the {what} in the URL is not UTF-8")),
    }
}

/// ` "word"`, or nothing if the word may be part of a password. If a password contains an unencoded `/`, `?` or `#`, the rest of it
/// follows there, with its `@`.
pub fn quoted(word: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let tail = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
    let harmless = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if harmless && !tail.contains('@') {
        format!(" {word:?}")
    } else {
        String::new()
    }
}
