//! The forward pass: BERT's encoder (Devlin et al. 2018; Vaswani et al. 2017, section 3).
//!
//! Several texts share a pass, back to back and without padding. Attention works within one text, everything else on
//! single rows; and a row's bits do not depend on the rows around it (`Kernels::linear`), so a text's vector is the
//! same in any batch. This module has no intrinsics and allocates nothing: arithmetic is in the kernels, memory in the
//! scratch.

use std::ops::Range;

use kernels::{Cells, Codes, Kernels, Linear, Norm, Precision, Rows, RowsMut, Then, Workspace};

use crate::config::Config;
use crate::packed::{BlockSections, Cell, DenseSections, Held, Layout, NormSections, Section};
use crate::scratch::{Activations, Scratch};

/// All weights of a network, read in place.
pub(crate) struct Network {
    packed: Held,
    layout: Layout,
    hidden: usize,
    heads: usize,
    inner: usize,
    epsilon: f32,
}

/// The weights of a network, borrowed for one pass.
#[derive(Clone, Copy)]
struct Weights<'a> {
    bytes: &'a [u8],
    epsilon: f32,
}

impl Network {
    /// Runs the texts whose ids are in `scratch.tokens`, delimited by `scratch.ends`, and leaves each token's row in
    /// `scratch.rows.state`.
    pub(crate) fn forward(&self, kernels: &Kernels, scratch: &mut Scratch) {
        let Scratch { tokens, ends, rows, workspace, .. } = scratch;
        let weights = Weights { bytes: self.packed.bytes(), epsilon: self.epsilon };
        self.embed(kernels, weights, tokens, ends, rows);
        let blocks = &self.layout.blocks;
        for (i, block) in blocks.iter().enumerate() {
            self.attend(kernels, workspace, weights, block, ends, rows);
            let pair = (block, blocks.get(i + 1));
            self.feed_forward(kernels, workspace, weights, pair, tokens.len(), rows);
        }
    }

    /// Computes a token's first state: its word's row plus its position's row, normalized. The position rows already
    /// include the first segment's row, the only segment used.
    fn embed(
        &self,
        kernels: &Kernels,
        weights: Weights<'_>,
        tokens: &[u32],
        ends: &[usize],
        rows: &mut Activations,
    ) {
        let d = self.hidden;
        let state = &mut rows.state[..tokens.len() * d];
        let positions = weights.floats(&self.layout.positions);
        for text in ranges(ends) {
            for (position, token) in text.enumerate() {
                let x = &mut state[token * d..][..d];
                weights.word(&self.layout, tokens[token] as usize, x);
                kernels.add(x, &positions[position * d..][..d]);
            }
        }
        let Norm { gain, bias, epsilon } = weights.norm(&self.layout.embedded);
        kernels.layer_norm(RowsMut::dense(state, d), gain, bias, epsilon);
    }

    /// Multi-head attention with its residual and layer norm (Vaswani et al., 3.2.2 and 3.1).
    fn attend(
        &self,
        kernels: &Kernels,
        workspace: &mut Workspace,
        weights: Weights<'_>,
        block: &BlockSections,
        ends: &[usize],
        rows: &mut Activations,
    ) {
        let d = self.hidden;
        let n = ends.last().copied().unwrap_or(0);
        let Activations { state, change, query_key_value, gathered, .. } = rows;
        let (state, change) = (&mut state[..n * d], &mut change[..n * d]);
        let (projected, gathered) = (&mut query_key_value[..n * 3 * d], &mut gathered[..n * d]);

        let attention_out = weights.dense(&block.attention_out);
        let layers = (weights.dense(&block.query_key_value), Some(attention_out));
        let out = RowsMut::dense(projected, 3 * d);
        kernels.linear(workspace, Rows::dense(state, d), layers, Then::Keep, out);
        let (projected, out) = (Rows::dense(projected, 3 * d), RowsMut::dense(gathered, d));
        kernels.attend(workspace, projected, ends, self.heads, out);
        let (gathered, out) = (Rows::dense(gathered, d), RowsMut::dense(change, d));
        let layers = (attention_out, Some(weights.dense(&block.feed_in)));
        kernels.linear(workspace, gathered, layers, Then::Keep, out);
        let state = RowsMut::dense(state, d);
        let norm = weights.norm(&block.attended);
        kernels.add_norm(workspace, state, Rows::dense(change, d), norm);
    }

    /// Position-wise feed-forward layer with its residual and layer norm (Vaswani et al., 3.3; GELU in place of ReLU as
    /// in Devlin et al.).
    fn feed_forward(
        &self,
        kernels: &Kernels,
        workspace: &mut Workspace,
        weights: Weights<'_>,
        (block, next): (&BlockSections, Option<&BlockSections>),
        n: usize,
        rows: &mut Activations,
    ) {
        let (d, wide) = (self.hidden, self.inner);
        let Activations { state, change, inner, .. } = rows;
        let (state, change) = (&mut state[..n * d], &mut change[..n * d]);
        let inner = &mut inner[..n * wide];
        let (feed_in, feed_out) = (weights.dense(&block.feed_in), weights.dense(&block.feed_out));
        let opened = RowsMut::dense(inner, wide);
        let layers = (feed_in, Some(feed_out));
        kernels.linear(workspace, Rows::dense(state, d), layers, Then::Gelu, opened);
        let (inner, out) = (Rows::dense(inner, wide), RowsMut::dense(change, d));
        let layers = (feed_out, next.map(|next| weights.dense(&next.query_key_value)));
        kernels.linear(workspace, inner, layers, Then::Keep, out);
        let state = RowsMut::dense(state, d);
        kernels.add_norm(workspace, state, Rows::dense(change, d), weights.norm(&block.fed));
    }
}

/// Typed views of the sections. Their lengths and types were checked at opening, and the cost of a cast, which checks
/// an address and a length, is negligible beside a product.
impl<'a> Weights<'a> {
    fn floats(self, section: &Section) -> &'a [f32] {
        bytemuck::cast_slice(&self.bytes[section.range()])
    }

    fn dense(self, of: &DenseSections) -> Linear<'a> {
        let bytes = &self.bytes[of.cells.range()];
        let cells = match (of.cells.cell, &of.codes) {
            (_, Some((scales, offsets))) => Cells::Int8(Codes {
                codes: bytemuck::cast_slice(bytes),
                scales: self.floats(scales),
                offsets: bytemuck::cast_slice(&self.bytes[offsets.range()]),
            }),
            (Cell::F16, None) => Cells::F16(bytemuck::cast_slice(bytes)),
            (_, None) => Cells::F32(bytemuck::cast_slice(bytes)),
        };
        Linear::new(cells, self.floats(&of.bias), of.depth, of.width)
    }

    fn norm(self, of: &NormSections) -> Norm<'a> {
        let Weights { epsilon, .. } = self;
        Norm { gain: self.floats(&of.gain), bias: self.floats(&of.bias), epsilon }
    }

    /// Reads the row of a word, converted to f32.
    fn word(self, layout: &Layout, word: usize, row: &mut [f32]) {
        let d = row.len();
        if layout.words.cell == Cell::F32 {
            row.copy_from_slice(&self.floats(&layout.words)[word * d..][..d]);
            return;
        }
        let halves: &[u16] = bytemuck::cast_slice(&self.bytes[layout.words.range()]);
        for (x, &half) in row.iter_mut().zip(&halves[word * d..][..d]) {
            *x = widened(half);
        }
    }
}

/// Converts a finite f16 to f32, exactly. Free of branches, so that a row of them is vectorized: the bits of an f16,
/// shifted to a float's position, are its value times 2^-112 for any exponent.
fn widened(half: u16) -> f32 {
    const RANGE: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = f32::from_bits(u32::from(half & 0x7FFF) << 13) * RANGE;
    f32::from_bits(magnitude.to_bits() | u32::from(half & 0x8000) << 16)
}

/// Returns the token range of each text from the ends of the texts.
pub(crate) fn ranges(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| start..end)
}

impl Network {
    /// Makes a network from packed weights, which were checked to have this layout.
    pub(crate) fn of(packed: Held, layout: Layout, config: &Config) -> Network {
        let Config { hidden, heads, inner, epsilon, .. } = *config;
        Network { packed, layout, hidden, heads, inner, epsilon }
    }

    pub(crate) fn precision(&self) -> Precision {
        self.layout.precision
    }
}

#[cfg(test)]
mod tests {
    use kernels::f16;

    use super::*;

    #[test]
    fn every_finite_half_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(widened(bits).to_bits(), half.to_f32().to_bits(), "{half}");
            }
        }
    }
}
