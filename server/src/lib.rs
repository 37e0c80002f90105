//! recalld: the service around the engine and the encoder.
#![forbid(unsafe_code)]

pub mod auth;
pub mod govern;
pub mod ingest;
pub mod limits;
pub mod model;
pub mod net;
pub mod validate;
