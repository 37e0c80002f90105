//! Encoders and vectors: model files are fetched and checked, encoders opened, texts embedded in batches.
#![forbid(unsafe_code)]

pub mod company;
pub mod embed;
pub mod encoders;
pub mod encoding;
pub mod gather;
pub mod inflow;
pub mod model;
pub mod model_file;

limit_table::limits! {
    pub const LIMITS = [company, embed, inflow, model];
}
