//! The encoder as its callers use it: opened once, then shared by as many threads as there are scratches.

use std::path::Path;

use kernels::{Kernels, Level, Precision};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::files::{ModelDirectory, TOKENIZER};
use crate::forward::{Network, ranges};
use crate::packed::{self, Held, Source};
use crate::pool::pool;
use crate::scratch::Shape;
use crate::tokenizer::{Buffers, Tokenizer};
use crate::weights::Weights;
use crate::{ModelFiles, OpenError, PackedWeights, Scratch, SettingsFiles};

/// Domain tag and version of the fingerprint. A change to how text becomes a vector needs a new number.
const FINGERPRINT_TAG: &[u8] = b"sentence encoder fingerprint 1\n";

/// A sentence encoder: a tokenizer, a network and the kernels that it runs on. Shared freely between threads; each
/// thread has its own [`Scratch`].
pub struct Encoder {
    config: Config,
    tokenizer: Tokenizer,
    network: Network,
    kernels: Kernels,
    fingerprint: [u8; 32],
}

/// Returns the default precision of a model: the fastest faithful one. [`Precision::Int8`] is the fastest at every
/// level with vector instructions, and its vectors have a cosine of 0.9997 with those of f32 on average (at least
/// 0.995, which a test enforces). The scalar level is equally slow at any precision, so it defaults to f32.
pub fn default_precision(kernels: Kernels) -> Precision {
    match kernels.level() {
        Level::Scalar => Precision::F32,
        _ => Precision::Int8,
    }
}

/// Packs a model's weights for [`Encoder::open_packed`], as `format-spec/weights.md` describes. Equal files and
/// precision give equal bytes.
pub fn pack(files: &ModelFiles<'_>, precision: Precision) -> Result<PackedWeights, OpenError> {
    pack_weights(files, &Config::read(&files.settings())?, precision).map(|(packed, _)| packed)
}

/// Packs the weights and returns their SHA-256 as well.
fn pack_weights(
    files: &ModelFiles<'_>,
    config: &Config,
    precision: Precision,
) -> Result<(PackedWeights, [u8; 32]), OpenError> {
    let weights = Weights::open(files.weights)?;
    std::thread::scope(|scope| {
        // Hashing 90 MB takes as long as packing them, so it runs in parallel.
        let hashing = scope.spawn(|| weights_sha256(files));
        let mut sha256 = [0; 32];
        let packed = packed::pack(&weights, config, precision, || {
            sha256 = hashing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Source { sha256, bytes: files.weights.len() }
        })?;
        Ok((packed, sha256))
    })
}

fn weights_sha256(files: &ModelFiles<'_>) -> [u8; 32] {
    files.weights_sha256.unwrap_or_else(|| Sha256::digest(files.weights).into())
}

impl Encoder {
    /// Opens a model on the fastest kernels of this CPU, at their [`default_precision`].
    pub fn open(files: &ModelFiles<'_>) -> Result<Encoder, OpenError> {
        let kernels = Kernels::detect();
        Encoder::open_as(files, kernels, default_precision(kernels))
    }

    /// Opens a model on the given kernels and at the given precision: packs its weights into memory, and opens the
    /// packed weights.
    pub fn open_as(
        files: &ModelFiles<'_>,
        kernels: Kernels,
        precision: Precision,
    ) -> Result<Encoder, OpenError> {
        let parts = Parts::read(&files.settings())?;
        let (packed, sha256) = pack_weights(files, &parts.config, precision)?;
        parts.with(packed, sha256, kernels, precision)
    }

    /// Opens a model with packed weights of the given precision, made from the `model.safetensors` with the given
    /// SHA-256. The weights are in memory, or a map of a file that never changes. All rules of `format-spec/weights.md`
    /// are checked. The bytes are used in place; if they do not start on a multiple of 64 bytes, they are copied.
    ///
    /// # Errors
    /// [`OpenError::Packed`] if the packed weights break a rule, in which case packing them again helps.
    pub fn open_packed(
        files: &SettingsFiles<'_>,
        packed: impl AsRef<[u8]> + Send + Sync + 'static,
        weights_sha256: [u8; 32],
        kernels: Kernels,
        precision: Precision,
    ) -> Result<Encoder, OpenError> {
        Parts::read(files)?.with(packed, weights_sha256, kernels, precision)
    }

    /// Reads and opens a model directory in its published layout.
    pub fn open_dir(directory: &Path) -> Result<Encoder, OpenError> {
        Encoder::open(&ModelDirectory::read(directory)?.files())
    }

    /// Floats of a vector.
    pub fn dimensions(&self) -> usize {
        self.config.hidden
    }

    /// Most tokens of a text, the two special tokens around it included; further tokens are cut off.
    pub fn tokens_max(&self) -> usize {
        self.config.tokens_max
    }

    /// Kernel level in use.
    pub fn level(&self) -> Level {
        self.kernels.level()
    }

    /// Precision of the weights.
    pub fn precision(&self) -> Precision {
        self.network.precision()
    }

    /// Identifies this way of making vectors: vectors of two encoders with equal fingerprints can be compared. The
    /// fingerprint covers the published weights, the tokenizer, and the settings that change vectors. The level is
    /// excluded, since no comparison can detect its rounding. The precision is excluded, too, so that a store can be
    /// used with any precision. An int8 vector has a cosine of 0.9997 with that of f32 on average and at least 0.999 on
    /// the sentences that were tried, which changes only the order of near equals.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Allocates the memory that one thread needs to encode.
    pub fn scratch(&self) -> Scratch {
        self.scratch_with(1)
    }

    /// Allocates the memory for passes that several threads work on together, the caller's included: at least one, at
    /// most [`THREADS_MAX`](crate::THREADS_MAX). The vectors have the same bits for any number of threads. More threads
    /// reduce the latency of one text; the throughput of many texts is best with one scratch per thread.
    pub fn scratch_with(&self, threads: usize) -> Scratch {
        Scratch::new(&self.config, threads)
    }

    /// Encodes a text as one unit-length vector. Tokens past [`tokens_max`](Encoder::tokens_max) are ignored.
    ///
    /// # Panics
    /// `out` is not [`dimensions`](Encoder::dimensions) long, or `scratch` was made for a model of another shape.
    pub fn encode(&self, scratch: &mut Scratch, text: &str, out: &mut [f32]) {
        self.encode_batch(scratch, &[text], out);
    }

    /// Encodes many texts, one vector after the other. Short texts share a pass through the network, so that its
    /// weights are read once for all of them; a text's vector has the same bits as alone.
    ///
    /// # Panics
    /// `out` is not `texts.len()` times [`dimensions`](Encoder::dimensions) long, or `scratch` was made for a model of
    /// another shape.
    pub fn encode_batch(&self, scratch: &mut Scratch, texts: &[&str], out: &mut [f32]) {
        assert!(scratch.shape == Shape::of(&self.config), "the scratch is another model's");
        let wanted = texts.len().checked_mul(self.config.hidden);
        assert_eq!(Some(out.len()), wanted, "one vector per text");
        let tokens_max = self.config.tokens_max;
        // Long texts go first, so that short ones fill the rest of a pass. There is no padding to save, but fuller
        // passes read the weights less often. The length in bytes is a good enough estimate.
        let mut order = std::mem::take(&mut scratch.order);
        order.clear();
        order.extend(0..texts.len());
        order.sort_unstable_by_key(|&text| (std::cmp::Reverse(texts[text].len()), text));
        scratch.clear();
        for &text in &order {
            let Scratch { words, text: ids, tokens, .. } = scratch;
            self.tokenizer.encode(texts[text], tokens_max, words, ids);
            if tokens.len() + ids.len() > tokens_max {
                self.pass(scratch, out);
            }
            scratch.add(text);
        }
        self.pass(scratch, out);
        scratch.order = order;
    }

    /// Counts the tokens of a text, the two special tokens around it included, without a limit.
    pub fn tokens(&self, text: &str) -> usize {
        self.ids(text, usize::MAX).len()
    }

    /// Returns the ids of a text's tokens as the network receives them, cut off at `tokens_max`.
    pub fn ids(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, tokens_max, &mut Buffers::new(), &mut ids);
        ids
    }

    /// Runs the texts collected in `scratch` and writes each vector to its position in `out`.
    fn pass(&self, scratch: &mut Scratch, out: &mut [f32]) {
        let d = self.config.hidden;
        self.network.forward(&self.kernels, scratch);
        for (text, rows) in scratch.texts.iter().zip(ranges(&scratch.ends)) {
            let rows = &scratch.rows.state[rows.start * d..rows.end * d];
            pool(&self.kernels, self.config.pooling, rows, &mut out[text * d..][..d]);
        }
        scratch.clear();
    }
}

/// Contents of a model's files besides the weights.
struct Parts {
    config: Config,
    tokenizer: Tokenizer,
    tokenizer_sha256: [u8; 32],
}

impl Parts {
    fn read(files: &SettingsFiles<'_>) -> Result<Parts, OpenError> {
        let config = Config::read(files)?;
        let tokenizer = Tokenizer::open(files.tokenizer, config.vocabulary, config.lowercase)?;
        if tokenizer.frame() == 0 || tokenizer.frame() > config.tokens_max {
            return Err(OpenError::Unsupported {
                file: TOKENIZER,
                field: "post_processor".into(),
                found: format!("{} tokens around a text", tokenizer.frame()),
                wanted: format!("from 1 to the {} tokens a text may have", config.tokens_max),
            });
        }
        let tokenizer_sha256 = Sha256::digest(files.tokenizer).into();
        Ok(Parts { config, tokenizer, tokenizer_sha256 })
    }

    fn with(
        self,
        packed: impl AsRef<[u8]> + Send + Sync + 'static,
        weights_sha256: [u8; 32],
        kernels: Kernels,
        precision: Precision,
    ) -> Result<Encoder, OpenError> {
        let held = Held::of(packed);
        let layout = packed::check(held.bytes(), &self.config, precision, &weights_sha256)?;
        let fingerprint = self.fingerprint(&weights_sha256);
        let network = Network::of(held, layout, &self.config);
        let Parts { config, tokenizer, .. } = self;
        Ok(Encoder { config, tokenizer, network, kernels, fingerprint })
    }

    fn fingerprint(&self, weights_sha256: &[u8; 32]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(FINGERPRINT_TAG);
        hash.update(weights_sha256);
        hash.update(self.tokenizer_sha256);
        hash.update(self.config.facts());
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use kernels::Level;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tiny::{HIDDEN, POSITIONS, Tiny, TinyFiles};

    const TEXTS: &[&str] = &[
        "",
        "a",
        "unaffable!",
        "a b a b",
        "Caf\u{e9} [SEP] \u{4e2d}\u{6587}.",
        "b a b a b a b a b a b a b a b a b a b a b a b a b",
    ];

    impl Tiny {
        fn open(&self) -> Result<Encoder, OpenError> {
            self.files().open()
        }

        fn open_at(&self, level: Level) -> Option<Encoder> {
            let kernels = Kernels::for_level(level)?;
            Some(Encoder::open_as(&self.files().borrowed(), kernels, Precision::F32).unwrap())
        }
    }

    impl TinyFiles {
        fn open(&self) -> Result<Encoder, OpenError> {
            Encoder::open(&self.borrowed())
        }
    }

    fn encode(encoder: &Encoder, text: &str) -> Vec<f32> {
        let mut out = vec![f32::NAN; encoder.dimensions()];
        encoder.encode(&mut encoder.scratch(), text, &mut out);
        out
    }

    /// The tolerance covers the rounding of a tiny model: a few hundred operations on numbers near one.
    fn assert_near(got: &[f32], want: &[f64], what: &str) {
        for (got, want) in got.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 2e-5, "{what}: {got} is not {want}");
        }
    }

    #[test]
    fn vectors_mean_what_the_paper_says_at_every_level() {
        let mut tiny = Tiny::new();
        for (mode, first_only) in [("mean_tokens", false), ("cls_token", true)] {
            tiny.pooling = Some(json!({ format!("pooling_mode_{mode}"): true }));
            for level in Level::ALL {
                let Some(encoder) = tiny.open_at(*level) else { continue };
                assert_eq!(encoder.level(), *level);
                for text in TEXTS {
                    let want = tiny.meaning(&encoder.ids(text, POSITIONS), first_only);
                    assert_near(&encode(&encoder, text), &want, &format!("{level:?} {text:?}"));
                }
            }
        }
    }

    #[test]
    fn a_text_has_the_same_bits_in_every_batch() {
        for level in Level::ALL {
            let Some(encoder) = Tiny::new().open_at(*level) else { continue };
            let mut scratch = encoder.scratch();
            for turn in 0..TEXTS.len() {
                let mut texts = TEXTS.repeat(3);
                texts.rotate_left(turn);
                let mut out = vec![f32::NAN; texts.len() * HIDDEN];
                encoder.encode_batch(&mut scratch, &texts, &mut out);
                for (text, vector) in texts.iter().zip(out.chunks(HIDDEN)) {
                    assert_eq!(vector, encode(&encoder, text), "{level:?} {text:?}");
                }
            }
            encoder.encode_batch(&mut scratch, &[], &mut []);
        }
    }

    /// Empty texts, of two tokens each, and one longer text fill a pass to every possible token count.
    #[test]
    fn a_pass_takes_as_many_tokens_as_the_scratch_holds_and_no_more() {
        let encoder = Tiny::new().open().unwrap();
        for letters in 0..POSITIONS {
            let last = "a ".repeat(letters);
            for shorts in 0..POSITIONS {
                let mut texts = vec![""; shorts];
                texts.push(&last);
                let mut out = vec![f32::NAN; texts.len() * HIDDEN];
                encoder.encode_batch(&mut encoder.scratch(), &texts, &mut out);
                assert_eq!(out[shorts * HIDDEN..], encode(&encoder, &last));
            }
        }
    }

    #[test]
    fn encoding_does_not_move_the_scratch() {
        let encoder = Tiny::new().open().unwrap();
        let mut scratch = encoder.scratch();
        let places = |scratch: &Scratch| {
            (
                scratch.text.as_ptr(),
                scratch.tokens.as_ptr(),
                scratch.ends.as_ptr(),
                scratch.texts.as_ptr(),
            )
        };
        let before = places(&scratch);
        let long = "unaffable ".repeat(1000);
        let texts = [TEXTS[5], long.as_str(), "", "", "", "", "", "", "", "", "", "", "", ""];
        let mut out = vec![0.0; texts.len() * HIDDEN];
        encoder.encode_batch(&mut scratch, &texts, &mut out);
        assert_eq!(places(&scratch), before);
    }

    #[test]
    fn a_long_text_is_its_first_tokens() {
        let mut tiny = Tiny::new();
        tiny.sentence = Some(json!({"max_seq_length": 6}));
        let encoder = tiny.open().unwrap();
        assert_eq!(encoder.tokens_max(), 6);
        assert_eq!(encoder.tokens("a b a b a b"), 8);
        assert_eq!(encode(&encoder, "a b a b a b"), encode(&encoder, "a b a b"));
        assert_ne!(encode(&encoder, "a b a b"), encode(&encoder, "a b a"));
    }

    #[test]
    fn half_precision_weights_and_prefixed_names_open_to_the_same_vectors() {
        let plain = Tiny::new();
        let want = encode(&plain.open().unwrap(), TEXTS[4]);
        let mut halves = Tiny::new();
        halves.halves = true;
        assert_eq!(encode(&halves.open().unwrap(), TEXTS[4]), want);
        let mut prefixed = Tiny::new();
        let tensors = std::mem::take(&mut prefixed.tensors).into_iter();
        prefixed.tensors = tensors.map(|(name, tensor)| (format!("bert.{name}"), tensor)).collect();
        assert_eq!(encode(&prefixed.open().unwrap(), TEXTS[4]), want);
    }

    #[test]
    fn the_fingerprint_names_everything_that_changes_vectors() {
        let plain = Tiny::new().open().unwrap().fingerprint();
        assert_eq!(Tiny::new().open().unwrap().fingerprint(), plain);
        let bent: &[fn(&mut Tiny)] = &[
            |tiny| tiny.pooling = Some(json!({"pooling_mode_cls_token": true})),
            |tiny| tiny.sentence = Some(json!({"max_seq_length": 10})),
            |tiny| tiny.sentence = Some(json!({"do_lower_case": true})),
            |tiny| tiny.tokenizer["normalizer"]["lowercase"] = json!(false),
            |tiny| tiny.config["num_attention_heads"] = json!(4),
            |tiny| tiny.config["num_hidden_layers"] = json!(2),
            |tiny| tiny.config["layer_norm_eps"] = json!(1e-5),
            |tiny| tiny.halves = true,
        ];
        let mut seen = vec![plain];
        for bend in bent {
            let mut tiny = Tiny::new();
            bend(&mut tiny);
            seen.push(tiny.open().unwrap().fingerprint());
        }
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }

    #[test]
    fn a_hash_brought_along_is_the_one_used() {
        let files = Tiny::new().files();
        let mut borrowed = files.borrowed();
        let own = Encoder::open(&borrowed).unwrap().fingerprint();
        borrowed.weights_sha256 = Some(Sha256::digest(borrowed.weights).into());
        assert_eq!(Encoder::open(&borrowed).unwrap().fingerprint(), own);
        borrowed.weights_sha256 = Some([7; 32]);
        assert_ne!(Encoder::open(&borrowed).unwrap().fingerprint(), own);
    }

    #[test]
    fn one_encoder_serves_many_threads() {
        fn crosses_threads<T: Send + Sync>() {}
        crosses_threads::<Encoder>();
        crosses_threads::<Scratch>();
        let encoder = Tiny::new().open().unwrap();
        let want = encode(&encoder, TEXTS[2]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(encode(&encoder, TEXTS[2]), want));
            }
        });
    }

    #[test]
    #[should_panic(expected = "one vector per text")]
    fn a_short_output_is_refused() {
        let encoder = Tiny::new().open().unwrap();
        encoder.encode(&mut encoder.scratch(), "a", &mut [0.0; HIDDEN - 1]);
    }

    #[test]
    #[should_panic(expected = "another model's")]
    fn the_scratch_of_another_shape_is_refused() {
        let mut other = Tiny::new();
        other.sentence = Some(json!({"max_seq_length": 6}));
        let encoder = Tiny::new().open().unwrap();
        encoder.encode(&mut other.open().unwrap().scratch(), "a", &mut [0.0; HIDDEN]);
    }

    #[test]
    fn a_model_without_a_place_for_text_is_refused() {
        let mut tiny = Tiny::new();
        let separators = vec![json!({"SpecialToken": {"id": "[SEP]"}}); 7];
        let single = tiny.tokenizer["post_processor"]["single"].as_array_mut().unwrap();
        single.splice(.., separators.into_iter().chain([json!({"Sequence": {"id": "A"}})]));
        tiny.sentence = Some(json!({"max_seq_length": 5}));
        let message = tiny.open().map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("7 tokens around a text"), "{message}");
    }

    proptest! {
        #[test]
        fn a_bent_file_is_an_error_or_a_model(
            places: [prop::sample::Index; 3],
            bits in 1_u8..,
            cut: prop::sample::Index,
        ) {
            let mut files = Tiny::new().files();
            let header = 8 + usize::from(u16::from_le_bytes([files.weights[0], files.weights[1]]));
            for place in places {
                files.weights[place.index(header)] ^= bits;
            }
            let _ = files.open();
            files.weights.truncate(cut.index(files.weights.len()));
            prop_assert!(files.open().is_err());
        }
    }
}
