//! Pages are sent packed to those who can unpack them: a page of many jobs says much that is alike.

use std::io::Write;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;

/// What is shorter is sent as it is, in bytes.
const SHORTEST: usize = 1000;

/// Packs an answer by gzip.
pub async fn pack(request: Request, next: Next) -> Response {
    let is_understood = understands_gzip(request.headers());
    let (mut head, body) = next.run(request).await.into_parts();
    // All answers are in memory, and none fails.
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    head.headers
        .insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_understood || bytes.len() < SHORTEST {
        return Response::from_parts(head, Body::from(bytes));
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    match packed.write_all(&bytes).and_then(|()| packed.finish()) {
        Ok(packed) => {
            head.headers
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(head, Body::from(packed))
        }
        Err(_) => Response::from_parts(head, Body::from(bytes)),
    }
}

/// Whether the client says so, and does not say that it weighs nothing.
fn understands_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip")
            && parts.all(|weight| !matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

#[cfg(test)]
mod tests {
    use super::understands_gzip;
    use axum::http::{HeaderMap, HeaderValue, header};

    #[test]
    fn who_does_not_want_it_packed_gets_it_as_it_is() {
        let understands = |accepted: &'static str| {
            let accepted = HeaderValue::from_static(accepted);
            understands_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted)]))
        };
        assert!(understands("gzip, deflate, br, zstd") && understands("br;q=1.0, gzip;q=0.5"));
        assert!(!understands("") && !understands("gzip;q=0") && !understands("br, x-gzip"));
        assert!(!understands_gzip(&HeaderMap::new()));
    }
}
