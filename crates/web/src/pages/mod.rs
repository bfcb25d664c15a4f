//! One file for each page: functions from what is known to HTML.

mod answers;
pub mod forms;
pub mod history;
pub mod job;
pub mod layout;
pub mod links;
pub mod locks;
pub mod overview;
pub mod queue;
pub mod run;
pub mod timeline;
mod trouble;
mod view;
mod visible;
mod why;
mod words;

pub use view::{MAIN_ONLY, View};

#[cfg(test)]
mod tests;
