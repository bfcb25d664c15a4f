//! Who may look.
