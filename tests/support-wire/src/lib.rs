//! Support for tests of the program: the real program and its data, the client side of the wire, documents, tiny
//! models, and this repository's files. The crate MUST NOT depend on any crate of this workspace.

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
