//! The body of a form, which must be short, and be there soon.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::PATIENCE;
use super::connections::Connection;
use crate::access::headers;

/// The longest, in bytes.
const LONGEST: usize = 16 * 1024;

/// Reads all of it before a page sees the request.
pub async fn read(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(PATIENCE, Limited::new(body, LONGEST).collect()).await {
        Ok(Ok(body)) => {
            // Who has yet to send it is as idle as one that has asked for nothing.
            let connection = head.extensions.get::<Connection>();
            let _answering = connection.map(Connection::answers);
            next.run(Request::from_parts(head, Body::from(body.to_bytes())))
                .await
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => refused(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => refused(StatusCode::BAD_REQUEST),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT),
    }
}

/// What was not read of the body must not be taken for the next request.
fn refused(status: StatusCode) -> Response {
    let words = "The form is too long, or takes too long.\n";
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    let mut response = (status, close, words).into_response();
    headers::add(response.headers_mut(), false);
    response
}
