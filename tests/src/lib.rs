//! What whole-system tests share: the real program, a client's side of the wire, documents.

pub mod documents;
pub mod mcp_client;
pub mod original_model;
pub mod service;
pub mod wire;
