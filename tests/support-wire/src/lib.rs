//! What tests of the program share: the real program and its data, a client's side of the wire, documents, models of a few
//! letters, and this repository's files. Must not depend on anything of ours.

pub mod documents;
pub mod hostile;
pub mod kept;
pub mod mail_sink;
pub mod markdown;
pub mod mcp_client;
#[path = "../../support-engine/src/patience.rs"]
pub mod patience;
pub mod pdf;
pub mod schema;
pub mod service;
pub mod tiny_model;
pub mod tls;
pub mod tree;
pub mod wire;
