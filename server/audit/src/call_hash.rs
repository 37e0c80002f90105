//! The hash of a call, which its entry in the ledger has in place of what was said.
//!
//! Owns that equal calls have equal hashes. Must not know what an entry is.

use serde::Serialize;
use sha2::{Digest, Sha256};

use recalld_common::each_piece::EachPiece;

/// Hash of a call: of its operation and arguments, as JSON with sorted keys. Nothing is copied for it: arguments may
/// have megabytes.
pub fn hash_call(operation: &str, arguments: &impl Serialize) -> [u8; 32] {
    /// Its fields are in the order of their names.
    #[derive(Serialize)]
    struct Called<'a, A> {
        arguments: &'a A,
        tool: &'a str,
    }
    hash_json(&Called { arguments, tool: operation })
}

/// Hash of JSON, whose keys must be sorted.
pub fn hash_json(json: &impl Serialize) -> [u8; 32] {
    let mut hash = Sha256::new();
    let pieces = EachPiece(|piece: &[u8]| hash.update(piece));
    serde_json::to_writer(pieces, json).expect("JSON can be written, and a hash takes all");
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_hashed_as_the_json_that_it_is() {
        let arguments = json!({"z": 1, "a": {"c": "\u{e9}\n\"", "b": [null, 0.5]}});
        let json = json!({"tool": "brain_remember", "arguments": arguments}).to_string();
        let wanted: [u8; 32] = Sha256::digest(json.as_bytes()).into();
        assert_eq!(hash_call("brain_remember", &arguments), wanted);
        assert_ne!(hash_call("brain_forget", &arguments), wanted);
        assert_ne!(hash_call("brain_remember", &json!({"z": 1})), wanted);
    }
}
