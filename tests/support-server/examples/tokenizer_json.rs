//! Writes the pinned model's `tokenizer.json` to standard output, found or downloaded as the server does: `cargo run -p
//! support-server --example tokenizer_json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(support_server::original_model::borrowed().tokenizer)
}
