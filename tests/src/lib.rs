//! What the whole-system tests share: the real program, a client's side of the wire and documents for the service.

pub mod bare_mcp;
pub mod contract;
pub mod desk;
pub mod documents;
pub mod door;
pub mod hostile;
pub mod house;
pub mod kept;
pub mod mail_sink;
pub mod markdown;
pub mod mcp_client;
pub mod original_model;
pub mod pdf;
pub mod sample_catalog;
pub mod schema;
pub mod service;
pub mod tiny_model;
pub mod tls;
pub mod tree;
pub mod wire;
