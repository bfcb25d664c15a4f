//! `dblock output`.

/// What a command wrote, as far as it is kept.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its beginning and its end.
    pub bytes: Vec<u8>,
    /// How much was left out between them, as dblock says it; None: nothing.
    pub left_out: Option<Box<str>>,
}
