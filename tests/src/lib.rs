//! What the whole-system tests share: a still ground and disks in memory for the engine; the real
//! program, a client's side of the wire and documents for the service.

pub mod bare_mcp;
pub mod contract;
pub mod courier;
pub mod desk;
pub mod documents;
pub mod failing_disk;
pub mod golden;
pub mod ground;
pub mod hostile;
pub mod house;
pub mod kept;
pub mod listing;
pub mod load;
pub mod mail_sink;
pub mod markdown;
pub mod mcp_client;
pub mod memory_disk;
pub mod original_model;
pub mod other_model;
pub mod patience;
pub mod pdf;
pub mod random_store;
pub mod remake;
pub mod reseal;
pub mod sample;
pub mod sample_catalog;
pub mod schema;
pub mod scripted_far;
pub mod service;
pub mod sim;
pub mod small_store;
pub mod tiny_model;
pub mod tls;
pub mod tree;
pub mod wire;
