//! Support for tests that link the server crates.

pub mod bare_mcp;
pub mod contract;
pub mod desk;
pub mod door;
pub mod house;
pub mod original_model;
pub mod sample_catalog;
pub mod schema;
pub mod settings;
pub mod tiny_model;
