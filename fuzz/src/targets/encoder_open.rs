//! Opening a model: a patched or arbitrary file is rejected with an error, and a model that opens encodes.

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&which, bytes)) = data.split_first() else { return };
    let mut files = crate::model::good();
    let file = match which % 3 {
        0 => &mut files.config,
        1 => &mut files.tokenizer,
        _ => &mut files.weights,
    };
    *file = if which & 0x80 == 0 { crate::patched(file, bytes) } else { bytes.to_vec() };
    match files.open() {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(encoder) => {
            let mut vector = vec![0.0; encoder.dimensions()];
            encoder.encode(&mut encoder.scratch(), "The cats. ABC", &mut vector);
        }
    }
}
