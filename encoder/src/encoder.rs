//! The encoder as a caller has it: open once, then encode from as many threads as there are scratches.

use std::path::Path;

use kernels::{Kernels, Level};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::files::{ModelDirectory, TOKENIZER};
use crate::forward::{Network, ranges};
use crate::pool::pool;
use crate::scratch::Shape;
use crate::tokenizer::{Buffers, Tokenizer};
use crate::weights::Weights;
use crate::{ModelFiles, OpenError, Scratch};

/// What a fingerprint is a fingerprint of, and by which rules. A change to how text becomes a vector
/// is a new number.
const FINGERPRINT_TAG: &[u8] = b"sentence encoder fingerprint 1\n";

/// A sentence encoder: a tokenizer, a network and the kernels it runs on. Shared freely between
/// threads; each brings its own [`Scratch`].
pub struct Encoder {
    config: Config,
    tokenizer: Tokenizer,
    network: Network,
    kernels: Kernels,
    fingerprint: [u8; 32],
}

impl Encoder {
    /// Opens a model on the fastest kernels this CPU has.
    pub fn open(files: &ModelFiles<'_>) -> Result<Encoder, OpenError> {
        Encoder::open_with(files, Kernels::detect())
    }

    /// Opens a model on kernels of the caller's choice.
    pub fn open_with(files: &ModelFiles<'_>, kernels: Kernels) -> Result<Encoder, OpenError> {
        let config = Config::read(files)?;
        let weights = Weights::open(files.weights)?;
        // Hashing 90 MB takes as long as all the rest, so it goes beside it.
        let (tokenizer, network, fingerprint) = std::thread::scope(|scope| {
            let hashing = scope.spawn(|| fingerprint(files, &config));
            let tokenizer = Tokenizer::open(files.tokenizer, config.vocabulary, config.lowercase);
            let network = tokenizer.is_ok().then(|| Network::load(&weights, &config));
            (tokenizer, network, hashing.join())
        });
        let tokenizer = tokenizer?;
        let network = network.expect("loaded unless the tokenizer failed")?;
        let fingerprint = fingerprint.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if tokenizer.frame() == 0 || tokenizer.frame() > config.tokens_max {
            return Err(OpenError::Unsupported {
                file: TOKENIZER,
                field: "post_processor".into(),
                found: format!("{} tokens around a text", tokenizer.frame()),
                wanted: format!("from 1 to the {} tokens a text may have", config.tokens_max),
            });
        }
        Ok(Encoder { config, tokenizer, network, kernels, fingerprint })
    }

    /// Reads and opens a model directory, laid out as models are published.
    pub fn open_dir(directory: &Path) -> Result<Encoder, OpenError> {
        Encoder::open(&ModelDirectory::read(directory)?.files())
    }

    /// How many floats a vector has.
    pub fn dimensions(&self) -> usize {
        self.config.hidden
    }

    /// Most tokens read of a text, the two around it included; what is beyond is cut off.
    pub fn tokens_max(&self) -> usize {
        self.config.tokens_max
    }

    /// The kernels in use.
    pub fn level(&self) -> Level {
        self.kernels.level()
    }

    /// Names this way of making vectors: two encoders with the same fingerprint give vectors that
    /// may be compared. Covers the weights, the tokenizer, and the settings that change vectors;
    /// not the level, whose rounding is far below what a comparison can see.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The memory one thread needs to encode.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.config)
    }

    /// Encodes a text as one unit-length vector. Tokens past [`tokens_max`](Encoder::tokens_max) are
    /// not looked at.
    ///
    /// # Panics
    /// If `out` is not [`dimensions`](Encoder::dimensions) long, or `scratch` was made for a model of
    /// another shape.
    pub fn encode(&self, scratch: &mut Scratch, text: &str, out: &mut [f32]) {
        self.encode_batch(scratch, &[text], out);
    }

    /// Encodes many texts, one vector after the other. Short texts share a pass through the network,
    /// so that its weights are read once for all of them; a text's vector has the same bits as alone.
    ///
    /// # Panics
    /// If `out` is not `texts.len()` times [`dimensions`](Encoder::dimensions) long, or `scratch` was
    /// made for a model of another shape.
    pub fn encode_batch(&self, scratch: &mut Scratch, texts: &[&str], out: &mut [f32]) {
        assert!(scratch.shape == Shape::of(&self.config), "the scratch is another model's");
        let wanted = texts.len().checked_mul(self.config.hidden);
        assert_eq!(Some(out.len()), wanted, "one vector per text");
        let tokens_max = self.config.tokens_max;
        scratch.tokens.clear();
        scratch.ends.clear();
        let mut done = out;
        for text in texts {
            let Scratch { words, text: ids, tokens, .. } = scratch;
            self.tokenizer.encode(text, tokens_max, words, ids);
            if tokens.len() + ids.len() > tokens_max {
                done = self.pass(scratch, done);
            }
            let Scratch { text: ids, tokens, ends, .. } = scratch;
            tokens.extend_from_slice(ids);
            ends.push(tokens.len());
        }
        self.pass(scratch, done);
    }

    /// How many tokens a text has, the two around it included and none cut off.
    pub fn tokens(&self, text: &str) -> usize {
        self.ids(text, usize::MAX).len()
    }

    /// The ids of a text's tokens, as the network gets them, cut off at `tokens_max`.
    pub fn ids(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, tokens_max, &mut Buffers::new(), &mut ids);
        ids
    }

    /// Runs the texts gathered in `scratch`, writes their vectors to the front of `out` and returns
    /// what is left of it.
    fn pass<'a>(&self, scratch: &mut Scratch, out: &'a mut [f32]) -> &'a mut [f32] {
        let d = self.config.hidden;
        self.network.forward(&self.kernels, scratch);
        let (vectors, rest) = out.split_at_mut(scratch.ends.len() * d);
        for (text, vector) in ranges(&scratch.ends).zip(vectors.chunks_exact_mut(d)) {
            let rows = &scratch.rows.state[text.start * d..text.end * d];
            pool(&self.kernels, self.config.pooling, rows, vector);
        }
        scratch.tokens.clear();
        scratch.ends.clear();
        rest
    }
}

fn fingerprint(files: &ModelFiles<'_>, config: &Config) -> [u8; 32] {
    let weights = files.weights_sha256.unwrap_or_else(|| Sha256::digest(files.weights).into());
    let mut hash = Sha256::new();
    hash.update(FINGERPRINT_TAG);
    hash.update(weights);
    hash.update(Sha256::digest(files.tokenizer));
    hash.update(config.facts());
    hash.finalize().into()
}
