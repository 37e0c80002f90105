//! The network, top to bottom: BERT's encoder (Devlin et al. 2018; Vaswani et al. 2017, section 3).
//!
//! Several texts go through together, back to back and without padding. Everything but attention
//! works on single rows, attention within one text; and a row's bits do not depend on the rows
//! around it (`Kernels::matmul`), so a text's vector is the same in any company. Holds no
//! intrinsics and allocates nothing: arithmetic is the kernels', memory the scratch's.

use std::ops::Range;

use kernels::{Kernels, PackedLinear, Precision, Rows, RowsMut, Then, Workspace};

use crate::OpenError;
use crate::config::Config;
use crate::scratch::{Activations, Scratch};
use crate::weights::Weights;

/// All weights, packed for the kernels.
pub(crate) struct Network {
    hidden: usize,
    heads: usize,
    inner: usize,
    /// One row per word of the vocabulary.
    words: Vec<f32>,
    /// One row per position; the row of the first segment, the only one used, is in the sum
    /// already.
    positions: Vec<f32>,
    embedded: Norm,
    blocks: Vec<Block>,
}

/// One transformer block.
struct Block {
    /// The three projections W_Q, W_K, W_V side by side: one product instead of three.
    query_key_value: PackedLinear,
    attention_out: PackedLinear,
    attended: Norm,
    feed_in: PackedLinear,
    feed_out: PackedLinear,
    fed: Norm,
}

/// Gain and bias of a layer normalisation.
struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

impl Network {
    /// Runs the texts whose ids are in `scratch.tokens`, cut at `scratch.ends`, and leaves each
    /// token's row in `scratch.rows.state`.
    pub(crate) fn forward(&self, kernels: &Kernels, scratch: &mut Scratch) {
        let Scratch { tokens, ends, rows, workspace, .. } = scratch;
        self.embed(kernels, tokens, ends, rows);
        for (i, block) in self.blocks.iter().enumerate() {
            self.attend(kernels, workspace, block, ends, rows);
            let blocks = (block, self.blocks.get(i + 1));
            self.feed_forward(kernels, workspace, blocks, tokens.len(), rows);
        }
    }

    /// A token's first state: its word's row plus its position's, normalised.
    fn embed(&self, kernels: &Kernels, tokens: &[u32], ends: &[usize], rows: &mut Activations) {
        let d = self.hidden;
        let state = &mut rows.state[..tokens.len() * d];
        for text in ranges(ends) {
            for (position, token) in text.enumerate() {
                let x = &mut state[token * d..][..d];
                x.copy_from_slice(&self.words[tokens[token] as usize * d..][..d]);
                kernels.add(x, &self.positions[position * d..][..d]);
            }
        }
        self.embedded.apply(kernels, state);
    }

    /// Multi-head attention, its residual and its normalisation (Vaswani et al., 3.2.2 and 3.1).
    fn attend(
        &self,
        kernels: &Kernels,
        workspace: &mut Workspace,
        block: &Block,
        ends: &[usize],
        rows: &mut Activations,
    ) {
        let d = self.hidden;
        let n = ends.last().copied().unwrap_or(0);
        let Activations { state, change, query_key_value, gathered, .. } = rows;
        let (state, change) = (&mut state[..n * d], &mut change[..n * d]);
        let (projected, gathered) = (&mut query_key_value[..n * 3 * d], &mut gathered[..n * d]);

        let layers = (block.query_key_value.view(), Some(block.attention_out.view()));
        let out = RowsMut::dense(projected, 3 * d);
        kernels.linear(workspace, Rows::dense(state, d), layers, Then::Keep, out);
        let (projected, out) = (Rows::dense(projected, 3 * d), RowsMut::dense(gathered, d));
        kernels.attend(workspace, projected, ends, self.heads, out);
        let (gathered, out) = (Rows::dense(gathered, d), RowsMut::dense(change, d));
        let layers = (block.attention_out.view(), Some(block.feed_in.view()));
        kernels.linear(workspace, gathered, layers, Then::Keep, out);
        let state = RowsMut::dense(state, d);
        kernels.add_norm(workspace, state, Rows::dense(change, d), block.attended.view());
    }

    /// The position-wise feed-forward layer, its residual and its normalisation (Vaswani et al.,
    /// 3.3; GELU in place of ReLU as in Devlin et al.).
    fn feed_forward(
        &self,
        kernels: &Kernels,
        workspace: &mut Workspace,
        (block, next): (&Block, Option<&Block>),
        n: usize,
        rows: &mut Activations,
    ) {
        let (d, wide) = (self.hidden, self.inner);
        let Activations { state, change, inner, .. } = rows;
        let (state, change) = (&mut state[..n * d], &mut change[..n * d]);
        let inner = &mut inner[..n * wide];
        let opened = RowsMut::dense(inner, wide);
        let layers = (block.feed_in.view(), Some(block.feed_out.view()));
        kernels.linear(workspace, Rows::dense(state, d), layers, Then::Gelu, opened);
        let (inner, out) = (Rows::dense(inner, wide), RowsMut::dense(change, d));
        let layers = (block.feed_out.view(), next.map(|next| next.query_key_value.view()));
        kernels.linear(workspace, inner, layers, Then::Keep, out);
        let state = RowsMut::dense(state, d);
        kernels.add_norm(workspace, state, Rows::dense(change, d), block.fed.view());
    }
}

impl Norm {
    fn view(&self) -> kernels::Norm<'_> {
        kernels::Norm { gain: &self.gain, bias: &self.bias, epsilon: self.epsilon }
    }

    fn apply(&self, kernels: &Kernels, rows: &mut [f32]) {
        let rows = RowsMut::dense(rows, self.gain.len());
        kernels.layer_norm(rows, &self.gain, &self.bias, self.epsilon);
    }
}

/// The tokens of each text, given where each ends.
pub(crate) fn ranges(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| start..end)
}

/// Loading: names are those of the published files.
impl Network {
    /// Checks and packs all weights. Half of the blocks go to a second thread: packing is bound by
    /// memory and page faults, of which two threads take about twice as many a second.
    pub(crate) fn load(
        weights: &Weights<'_>,
        config: &Config,
        precision: Precision,
    ) -> Result<Network, OpenError> {
        let d = config.hidden;
        let load_blocks = |range: Range<usize>| -> Result<Vec<Block>, OpenError> {
            range.map(|i| Block::load(weights, config, precision, i)).collect()
        };
        // The tables weigh about as much as all blocks of a small model.
        let half = config.layers / 2;
        let (tables, front, back) = std::thread::scope(|scope| {
            let back = scope.spawn(|| load_blocks(half..config.layers));
            let front = load_blocks(0..half);
            let words = front.is_ok().then(|| load_tables(weights, config));
            (words, front, back.join())
        });
        let mut blocks = front?;
        let back = back.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        blocks.extend(back?);
        let (words, positions) = tables.expect("loaded unless the front blocks failed")?;
        Ok(Network {
            hidden: d,
            heads: config.heads,
            inner: config.inner,
            words,
            positions,
            embedded: Norm::load(weights, config, "embeddings.LayerNorm")?,
            blocks,
        })
    }
}

/// The word table, and the position table with the first segment's row added to every row.
fn load_tables(weights: &Weights<'_>, config: &Config) -> Result<(Vec<f32>, Vec<f32>), OpenError> {
    let d = config.hidden;
    let table = |name: &str, rows: usize| {
        weights.floats(&format!("embeddings.{name}_embeddings.weight"), &[rows, d])
    };
    let words = table("word", config.vocabulary)?;
    let mut positions = table("position", config.positions)?;
    let segments = table("token_type", config.types)?;
    for row in positions.chunks_exact_mut(d) {
        for (x, segment) in row.iter_mut().zip(&segments) {
            *x += segment;
        }
    }
    Ok((words, positions))
}

impl Block {
    fn load(
        weights: &Weights<'_>,
        config: &Config,
        precision: Precision,
        block: usize,
    ) -> Result<Block, OpenError> {
        let (d, wide) = (config.hidden, config.inner);
        let name = |part: &str| format!("encoder.layer.{block}.{part}");
        let dense = |part: &str, out: usize, width: usize| {
            let cells = weights.floats(&name(&format!("{part}.weight")), &[out, width])?;
            let bias = weights.floats(&name(&format!("{part}.bias")), &[out])?;
            Ok::<_, OpenError>((cells, bias))
        };
        let packed = |(cells, bias): (Vec<f32>, Vec<f32>), width: usize| {
            PackedLinear::pack(precision, Rows::dense(&cells, width), &bias)
        };
        let (mut cells, mut bias) = dense("attention.self.query", d, d)?;
        for part in ["attention.self.key", "attention.self.value"] {
            let (more_cells, more_bias) = dense(part, d, d)?;
            cells.extend(more_cells);
            bias.extend(more_bias);
        }
        Ok(Block {
            query_key_value: packed((cells, bias), d),
            attention_out: packed(dense("attention.output.dense", d, d)?, d),
            attended: Norm::load(weights, config, &name("attention.output.LayerNorm"))?,
            feed_in: packed(dense("intermediate.dense", wide, d)?, d),
            feed_out: packed(dense("output.dense", d, wide)?, wide),
            fed: Norm::load(weights, config, &name("output.LayerNorm"))?,
        })
    }
}

impl Norm {
    fn load(weights: &Weights<'_>, config: &Config, name: &str) -> Result<Norm, OpenError> {
        Ok(Norm {
            gain: weights.floats(&format!("{name}.weight"), &[config.hidden])?,
            bias: weights.floats(&format!("{name}.bias"), &[config.hidden])?,
            epsilon: config.epsilon,
        })
    }
}
