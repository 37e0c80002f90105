//! Writes the pinned model's `tokenizer.json` to standard output, found or fetched as the service
//! does it: `cargo run -p tests --example tokenizer_json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(tests::original_model::borrowed().tokenizer)
}
