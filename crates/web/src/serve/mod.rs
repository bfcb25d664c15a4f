//! Listening, and what is answered.

mod routes;

use crate::options::Options;

/// Serves until a signal ends it.
pub fn run(options: &Options) {
    drop(routes::router(options));
}
