//! Writes the pinned model's `tokenizer.json` to standard output, found or fetched as the service
//! does it: `cargo run -p support-server --example tokenizer_json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(support_server::original_model::borrowed().tokenizer)
}
