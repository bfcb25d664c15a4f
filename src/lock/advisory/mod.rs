//! A lock held by PostgreSQL's advisory locks, for as long as its session lives.

mod line;
#[cfg(test)]
mod model;
