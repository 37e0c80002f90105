//! Every buffer of a forward pass, allocated once per worker.
//!
//! A pass uses the first rows of each buffer; no buffer grows after construction, except `order`.

use kernels::{AlignedFloats, Reach, Workspace};

use crate::config::Config;
use crate::tokenizer::{Buffers, WORD_CHARS_MAX};

/// The memory of one worker. Made by [`Encoder::scratch`](crate::Encoder::scratch), for models of that encoder's shape
/// only.
pub struct Scratch {
    /// Shape that the buffers are allocated for.
    pub(crate) shape: Shape,
    /// Buffers of the tokenizer.
    pub(crate) words: Buffers,
    /// Token ids of the text in progress.
    pub(crate) text: Vec<u32>,
    /// Token ids of all texts of a pass, back to back.
    pub(crate) tokens: Vec<u32>,
    /// End of each text of a pass in `tokens`.
    pub(crate) ends: Vec<usize>,
    /// Index in the batch of each text of a pass.
    pub(crate) texts: Vec<usize>,
    /// The texts of a batch in processing order. Grows to the largest batch so far.
    pub(crate) order: Vec<usize>,
    pub(crate) rows: Activations,
    /// The kernels' memory and threads.
    pub(crate) workspace: Workspace,
}

/// Activations of a pass, one row per token.
pub(crate) struct Activations {
    /// The hidden state of each token, `hidden` wide.
    pub(crate) state: AlignedFloats,
    /// The residual that a block adds to the state, `hidden` wide.
    pub(crate) change: AlignedFloats,
    /// Query, key and value side by side, three times `hidden` wide.
    pub(crate) query_key_value: AlignedFloats,
    /// The output of attention, `hidden` wide.
    pub(crate) gathered: AlignedFloats,
    /// The intermediate activations of the feed-forward layer, `inner` wide.
    pub(crate) inner: AlignedFloats,
}

/// The sizes that determine the buffers.
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
            // The last word is split as a whole before the excess is cut off.
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

    /// Removes the texts of the pass.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.ends.clear();
        self.texts.clear();
    }

    /// Adds the text tokenized last to the pass; `text` is its index in the batch.
    pub(crate) fn add(&mut self, text: usize) {
        self.tokens.extend_from_slice(&self.text);
        self.ends.push(self.tokens.len());
        self.texts.push(text);
    }
}
