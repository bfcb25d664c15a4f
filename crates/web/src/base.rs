//! What dblock has below everything else, as far as this program needs it, too: exit codes, and texts for people.

#[expect(dead_code, reason = "no command's end is handed on here")]
#[path = "../../../src/base/exit.rs"]
pub mod exit;
#[expect(dead_code, reason = "formats that no page has")]
#[path = "../../../src/base/text.rs"]
pub mod text;
