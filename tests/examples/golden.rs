//! Makes the golden stores of the newest format version again: `cargo run -p tests --example golden`.

fn main() -> std::io::Result<()> {
    for golden in tests::golden::made() {
        golden.keep()?;
        println!("{}: {} files", golden.name, golden.files.len());
    }
    Ok(())
}
