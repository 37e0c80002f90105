//! The fuzz targets, each a function of one input.

pub mod access_tokens;
pub mod bodies;
pub mod control;
pub mod encoder_open;
pub mod forms;
pub mod grounding;
pub mod http;
pub mod index;
pub mod ledger;
pub mod lines;
pub mod log;
pub mod manifest;
pub mod mcp;
pub mod operations;
pub mod origins;
pub mod readers;
pub mod remote_record;
pub mod segment;
pub mod state;
pub mod tls;
pub mod tokenizer;
pub mod tokens;
pub mod weights;
pub mod words;

/// Runs one input.
pub type Target = fn(&[u8]);

/// Returns the target of this name.
pub fn named(name: &str) -> Option<Target> {
    let target: Target = match name {
        "access_tokens" => access_tokens::run,
        "bodies" => bodies::run,
        "control" => control::run,
        "encoder_open" => encoder_open::run,
        "forms" => forms::run,
        "grounding" => grounding::run,
        "http" => http::run,
        "index" => index::run,
        "ledger" => ledger::run,
        "lines" => lines::run,
        "log" => log::run,
        "manifest" => manifest::run,
        "mcp" => mcp::run,
        "operations" => operations::run,
        "origins" => origins::run,
        "readers" => readers::run,
        "remote_record" => remote_record::run,
        "segment" => segment::run,
        "state" => state::run,
        "tls" => tls::run,
        "tokenizer" => tokenizer::run,
        "tokens" => tokens::run,
        "weights" => weights::run,
        "words" => words::run,
        _ => return None,
    };
    Some(target)
}
