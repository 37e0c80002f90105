//! The encoder beside the model that it is an implementation of.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod original;
mod original_model;
