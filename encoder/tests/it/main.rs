//! The encoder compared with the original model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod original;
mod original_model;
