//! What may be done, with the page in between.
