//! Regenerates the golden stores of the newest format version: `cargo run -p support-engine --example golden`.

fn main() -> std::io::Result<()> {
    for golden in support_engine::golden::made() {
        golden.keep()?;
        println!("{}: {} files", golden.name, golden.files.len());
    }
    Ok(())
}
