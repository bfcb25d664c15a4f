//! One file for each page: functions from what is known to HTML.

pub mod history;
pub mod job;
pub mod locks;
pub mod overview;
pub mod queue;
pub mod run;
pub mod timeline;
mod view;

pub use view::View;
