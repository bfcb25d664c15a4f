//! Whether a form was sent by a page of this server: a browser says so itself, and no page of another server can change what it says.

use axum::http::{HeaderMap, header};

/// Whether it says so, and nothing else. The schemes are those by which browsers reach this server, or the proxy in front of it: a page of
/// another scheme is another server's, also on this host.
pub fn is_own(headers: &HeaderMap, schemes: &[&str]) -> bool {
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return false;
    }
    match headers.get(header::ORIGIN) {
        Some(origin) => {
            let origin = origin.to_str().unwrap_or_default();
            let (scheme, place) = origin.split_once("://").unwrap_or_default();
            let host = headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok());
            schemes.contains(&scheme) && host.is_some_and(|host| place.eq_ignore_ascii_case(host))
        }
        None => site.is_some(),
    }
}

/// Whether a page of another server asks for this.
pub fn is_of_another(headers: &HeaderMap) -> bool {
    is_one_of(headers, "sec-fetch-site", &["cross-site", "same-site"])
}

/// Whether a page of another server asks for a part of this one. With `may_be_linked` a link does not count: whoever follows it wants to
/// look. A page with a button that changes something may not be linked, as a second click would be on that button.
pub fn is_elsewhere(headers: &HeaderMap, may_be_linked: bool) -> bool {
    let is_link = may_be_linked
        && is_one_of(headers, "sec-fetch-mode", &["navigate"])
        && is_one_of(headers, "sec-fetch-dest", &["document"]);
    is_of_another(headers) && !is_link
}

fn is_one_of(headers: &HeaderMap, name: &str, values: &[&str]) -> bool {
    let value = headers.get(name);
    value.is_some_and(|value| values.iter().any(|one| value == one))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_of_this_server_is_taken_and_no_other() {
        let is_own_by = |schemes: &[&str], all: &[(&'static str, &'static str)]| {
            let own = [("host", "h:8080")];
            let all = own
                .iter()
                .chain(all)
                .map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            is_own(&all.collect(), schemes)
        };
        let check = |all: &[_]| is_own_by(&["http"], all);
        assert!(check(&[("origin", "http://h:8080")]));
        let secure = [
            ("origin", "https://H:8080"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(is_own_by(&["https"], &secure));
        assert!(is_own_by(&["http", "https"], &secure));
        // It has no page of the other scheme. Whoever is in between can be the server's name without TLS.
        assert!(!check(&secure));
        assert!(!is_own_by(&["https"], &[("origin", "http://h:8080")]));
        assert!(check(&[("sec-fetch-site", "same-origin")]));
        for wrong in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "http://h")],
            &[("origin", "h:8080")],
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

    #[test]
    fn a_page_of_another_server_may_link_here_and_no_more() {
        let check = |site: &'static str, mode: &'static str, dest: &'static str| {
            let all = [
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            let all =
                all.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            [true, false].map(|linked| is_elsewhere(&all.clone().into_iter().collect(), linked))
        };
        for (site, mode, dest) in [
            ("cross-site", "no-cors", "image"),
            ("same-site", "no-cors", "script"),
            ("cross-site", "navigate", "iframe"),
        ] {
            assert_eq!(check(site, mode, dest), [true; 2], "{site} {mode} {dest}");
        }
        assert_eq!(check("cross-site", "navigate", "document"), [false, true]);
        for (site, mode, dest) in [
            ("same-origin", "cors", "empty"),
            ("none", "navigate", "document"),
        ] {
            assert_eq!(check(site, mode, dest), [false; 2], "{site} {mode} {dest}");
        }
        assert!(!is_elsewhere(&HeaderMap::new(), false), "no browser");
    }
}
