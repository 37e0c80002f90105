//! Both tokenizers under one setting, and minimization of a text on which they differ.

use encoder::Encoder;
use tokenizers::{Tokenizer, TruncationParams};

use crate::Outcome;
use crate::settings::Setting;

#[path = "../../../fuzz/src/model.rs"]
#[expect(dead_code, reason = "fuzz targets need more of it")]
mod model;

/// Most texts tried during one minimization.
const TRIES_MAX: usize = 3000;
/// Most bytes tokenized during one minimization.
const TRIED_BYTES_MAX: usize = 200 << 20;

/// Two tokenizers of one file.
pub struct Pair {
    name: String,
    reference: Tokenizer,
    ours: Encoder,
}

impl Pair {
    /// Opens both tokenizers. Ours needs a network, which is minimal and unused.
    pub fn open(setting: &Setting) -> Outcome<Pair> {
        let tokenizer = setting.tokenizer();
        let mut reference = Tokenizer::from_bytes(tokenizer.to_string())?;
        reference.with_padding(None);
        let files = model::with(&tokenizer, setting.ids);
        Ok(Pair { name: setting.name.clone(), reference, ours: files.open()? })
    }

    /// Name of the setting.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ids of the reference.
    pub fn reference(&mut self, text: &str, limit: Option<usize>) -> Outcome<Vec<u32>> {
        let truncation =
            limit.map(|max_length| TruncationParams { max_length, ..TruncationParams::default() });
        self.reference.with_truncation(truncation)?;
        Ok(self.reference.encode_fast(text, true)?.get_ids().to_vec())
    }

    /// Ids of our tokenizer.
    pub fn ours(&self, text: &str, limit: Option<usize>) -> Vec<u32> {
        self.ours.ids(text, limit.unwrap_or(usize::MAX))
    }

    /// Returns a minimal text on which both still differ: pieces of halving length, down to one character, are removed
    /// while the difference remains.
    pub fn shrink(&mut self, text: &str, limit: Option<usize>) -> Outcome<String> {
        let mut chars: Vec<char> = text.chars().collect();
        let mut width = chars.len().div_ceil(2);
        let (mut tries, mut tried_bytes) = (0, 0);
        loop {
            let before = chars.len();
            let mut at = 0;
            while at < chars.len() {
                let end = (at + width).min(chars.len());
                let fewer: String = chars[..at].iter().chain(&chars[end..]).collect();
                tries += 1;
                tried_bytes += fewer.len();
                if tries > TRIES_MAX || tried_bytes > TRIED_BYTES_MAX {
                    return Ok(chars.into_iter().collect());
                }
                if self.reference(&fewer, limit)? == self.ours(&fewer, limit) {
                    at = end;
                } else {
                    chars.drain(at..end);
                }
            }
            if width == 1 && chars.len() == before {
                return Ok(chars.into_iter().collect());
            }
            width = width.div_ceil(2);
        }
    }
}
