//! Whether a form was sent by a page of this server: a browser says so itself, and no page of another server can change what it says.

use axum::http::{HeaderMap, header};

/// Whether it says so, and nothing else.
pub fn is_own(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return false;
    }
    match headers.get(header::ORIGIN) {
        Some(origin) => {
            let origin = origin.to_str().unwrap_or_default();
            // A proxy may do the TLS: the name and the port decide.
            let place = origin
                .strip_prefix("https://")
                .or_else(|| origin.strip_prefix("http://"));
            let host = headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok());
            place.is_some_and(|place| host.is_some_and(|host| place.eq_ignore_ascii_case(host)))
        }
        None => site.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_of_this_server_is_taken_and_no_other() {
        let check = |all: &[(&'static str, &'static str)]| {
            let own = [("host", "h:8080")];
            let all = own
                .iter()
                .chain(all)
                .map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            is_own(&all.collect())
        };
        assert!(check(&[("origin", "http://h:8080")]));
        assert!(check(&[
            ("origin", "https://H:8080"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(check(&[("sec-fetch-site", "same-origin")]));
        for wrong in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "http://h")],
            &[("origin", "http://evil"), ("sec-fetch-site", "same-origin")],
            &[
                ("origin", "http://h:8080"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
        ] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }
}
