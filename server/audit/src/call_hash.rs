//! Hash of a call, recorded in its audit entry in place of the content. Equal calls have equal hashes.

use serde::Serialize;
use sha2::{Digest, Sha256};

use recalld_common::each_piece::EachPiece;

/// SHA-256 of a call's operation and arguments, as JSON with sorted keys. Streams the JSON without a copy, as arguments
/// may have megabytes.
pub fn hash_call(operation: &str, arguments: &impl Serialize) -> [u8; 32] {
    /// The fields must be in alphabetical order.
    #[derive(Serialize)]
    struct Called<'a, A> {
        arguments: &'a A,
        tool: &'a str,
    }
    hash_json(&Called { arguments, tool: operation })
}

/// SHA-256 of JSON. The keys must be sorted.
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
