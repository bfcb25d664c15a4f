//! SVG that is made on the server. What a color says a shape says, too, and words beside it.

pub mod day;
pub mod depth;
pub mod durations;
pub mod strip;

#[cfg(test)]
mod tests;
