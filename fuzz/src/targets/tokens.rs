//! Text to token ids and to a vector: ids of the vocabulary, within the limit; vectors of unit length.

use std::sync::OnceLock;

use encoder::Encoder;

fn model() -> &'static Encoder {
    static MODEL: OnceLock<Encoder> = OnceLock::new();
    MODEL.get_or_init(|| crate::model::good().open().expect("a good model"))
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let model = model();
    let limit = model.tokens_max();
    let ids = model.ids(text, limit);
    assert!(ids.len() <= limit, "{} of {limit}", ids.len());
    assert!(ids.iter().all(|id| (*id as usize) < crate::model::words()), "{ids:?}");
    let mut vector = vec![0.0f32; model.dimensions()];
    model.encode(&mut model.scratch(), text, &mut vector);
    let length: f32 = vector.iter().map(|x| x * x).sum();
    assert!((length - 1.0).abs() < 1e-3, "{length}");
}
