//! Packed weights, patched or arbitrary, under correct or wrong checksums: they are rejected with the broken rule, or
//! encode.

use std::sync::OnceLock;

use encoder::{Encoder, Kernels, OpenError, Precision, Remedy};

/// The valid model's weights at each precision.
fn good() -> &'static [Vec<u8>; 3] {
    static GOOD: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    GOOD.get_or_init(|| {
        let files = crate::model::good();
        [Precision::F32, Precision::F16, Precision::Int8].map(|precision| {
            let packed = encoder::pack(&files.borrowed(), precision).expect("a good model");
            packed.as_ref().to_vec()
        })
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else { return };
    let which = usize::from(how & 0x3f) % Precision::ALL.len();
    let mut packed =
        if how & 0x40 == 0 { crate::patched(&good()[which], bytes) } else { bytes.to_vec() };
    if how & 0x80 == 0 {
        let _unreadable = crate::reseal::weights(&mut packed);
    }
    let files = crate::model::good();
    // The expected source hash is the file's own, so that the source check passes.
    let source = packed.get(48..80).and_then(|source| source.try_into().ok()).unwrap_or_default();
    let (settings, kernels) = (files.borrowed().settings(), Kernels::detect());
    let precision = Precision::ALL[which];
    match Encoder::open_packed(&settings, packed, source, kernels, precision) {
        Err(error) => {
            assert!(matches!(error, OpenError::Packed { .. }), "{error}");
            assert_eq!(error.remedy(), Remedy::PackAgain);
        }
        Ok(encoder) => {
            let mut vector = vec![0.0; encoder.dimensions()];
            encoder.encode(&mut encoder.scratch(), "The cats. ABC", &mut vector);
        }
    }
}
