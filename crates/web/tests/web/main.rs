//! Drives the built dblock-web with a dblock that the tests make.
