//! Every buffer a forward pass writes, allocated once per worker.
//!
//! Owns memory and no arithmetic. A pass takes the first rows of each buffer; nothing here grows
//! after it is made.

use kernels::{AlignedFloats, Reach, Workspace};

use crate::config::Config;
use crate::tokenizer::{Buffers, WORD_CHARS_MAX};

/// The memory one worker encodes with. Made by [`Encoder::scratch`](crate::Encoder::scratch), for
/// that encoder's model and no other shape.
pub struct Scratch {
    /// What the buffers were sized for.
    pub(crate) shape: Shape,
    /// The tokenizer's.
    pub(crate) words: Buffers,
    /// The text being cut up, one id per token.
    pub(crate) text: Vec<u32>,
    /// All texts of a pass, back to back.
    pub(crate) tokens: Vec<u32>,
    /// Where in `tokens` each text of a pass ends.
    pub(crate) ends: Vec<usize>,
    /// Which text of the batch each text of a pass is.
    pub(crate) texts: Vec<usize>,
    /// The texts of a batch in the order they are taken. Grows to the largest batch there was.
    pub(crate) order: Vec<usize>,
    pub(crate) rows: Activations,
    /// The kernels' memory and threads.
    pub(crate) workspace: Workspace,
}

/// Rows of floats, one per token of a pass.
pub(crate) struct Activations {
    /// The running state of each token, `hidden` wide.
    pub(crate) state: AlignedFloats,
    /// What a block adds to the state, `hidden` wide.
    pub(crate) change: AlignedFloats,
    /// Query, key and value side by side, three times `hidden` wide.
    pub(crate) query_key_value: AlignedFloats,
    /// What attention gathered, `hidden` wide.
    pub(crate) gathered: AlignedFloats,
    /// The inside of the feed-forward layer, `inner` wide.
    pub(crate) inner: AlignedFloats,
}

/// The sizes that decide how large buffers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    hidden: usize,
    heads: usize,
    inner: usize,
    tokens_max: usize,
}

impl Shape {
    pub(crate) fn of(config: &Config) -> Shape {
        let Config { hidden, heads, inner, tokens_max, .. } = *config;
        Shape { hidden, heads, inner, tokens_max }
    }
}

impl Scratch {
    pub(crate) fn new(config: &Config, threads: usize) -> Scratch {
        let Config { hidden, heads, inner, tokens_max, .. } = *config;
        let reach = Reach {
            rows: tokens_max,
            depth: hidden.max(inner),
            text: tokens_max,
            head: hidden / heads,
        };
        Scratch {
            shape: Shape::of(config),
            words: Buffers::new(),
            // The last word is cut up whole before what is too much is dropped.
            text: Vec::with_capacity(tokens_max + WORD_CHARS_MAX),
            tokens: Vec::with_capacity(tokens_max),
            ends: Vec::with_capacity(tokens_max),
            texts: Vec::with_capacity(tokens_max),
            order: Vec::new(),
            rows: Activations {
                state: AlignedFloats::zeros(tokens_max * hidden),
                change: AlignedFloats::zeros(tokens_max * hidden),
                query_key_value: AlignedFloats::zeros(tokens_max * 3 * hidden),
                gathered: AlignedFloats::zeros(tokens_max * hidden),
                inner: AlignedFloats::zeros(tokens_max * inner),
            },
            workspace: Workspace::new(reach, threads),
        }
    }

    /// Forgets the texts of the pass.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.ends.clear();
        self.texts.clear();
    }

    /// Takes the text that was cut up last into the pass; in the batch it is number `text`.
    pub(crate) fn add(&mut self, text: usize) {
        self.tokens.extend_from_slice(&self.text);
        self.ends.push(self.tokens.len());
        self.texts.push(text);
    }
}
