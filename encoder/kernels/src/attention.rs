//! Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), head by head and text by text.
//!
//! This module defines the order in which the level's products and softmax run, and how heads are divided among
//! threads.

use std::ops::Range;

use crate::rows::{Rows, RowsMut, SharedRows};
use crate::table::Table;
use crate::workspace::{Memory, QUERY_ROWS, Workspace};

/// The parameters of an attention layer that all heads share.
#[derive(Clone, Copy)]
struct Layer<'a> {
    table: &'static Table,
    /// Query, key and value side by side, each `heads` times `head` wide.
    projected: Rows<'a>,
    heads: usize,
    /// Width of a head.
    head: usize,
    out: SharedRows<'a>,
}

/// Implements `Kernels::attend`, which has checked the shapes.
///
/// # Safety
/// The CPU has the features of the table's level.
pub(crate) unsafe fn attend(
    table: &'static Table,
    workspace: &mut Workspace,
    projected: Rows<'_>,
    ends: &[usize],
    heads: usize,
    mut out: RowsMut<'_>,
) {
    let Workspace { team, memories, .. } = workspace;
    let head = out.width() / heads;
    let layer = Layer { table, projected, heads, head, out: out.shared() };
    team.run(ends.len() * heads, &|unit, thread| {
        let text = text(ends, unit / heads);
        // SAFETY: a thread runs one piece of work at a time.
        let memory = unsafe { memories.of(thread) };
        // SAFETY: the features are the caller's promise; no two units share rows and head.
        unsafe { layer.gather(text, unit % heads, memory) };
    });
}

/// Returns the rows of text `index`.
fn text(ends: &[usize], index: usize) -> Range<usize> {
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    start..ends[index]
}

impl Layer<'_> {
    /// Computes one head of one text: `softmax(Q K^T / sqrt(d_k)) V`.
    ///
    /// # Safety
    /// The CPU has the features of the table's level, and no other thread writes these rows of this head.
    unsafe fn gather(&self, text: Range<usize>, head: usize, memory: &mut Memory) {
        let Layer { table, projected, heads, head: width, out } = *self;
        let Memory { keys, values, scores, gathered, .. } = memory;
        let part = |part: usize, rows: Range<usize>| {
            projected.part(rows).columns((part * heads + head) * width, width)
        };
        keys.fill_transposed(part(1, text.clone()));
        values.fill(part(2, text.clone()));
        let n = text.len();
        let scale = 1.0 / (width as f32).sqrt();
        for first in text.clone().step_by(QUERY_ROWS) {
            let queries = first..text.end.min(first + QUERY_ROWS);
            let scores = &mut scores[..queries.len() * n];
            let gathered = &mut gathered[..queries.len() * width];
            let q = part(0, queries.clone());
            // SAFETY: the features are the caller's promise.
            unsafe { (table.matmul)(q, keys, RowsMut::dense(scores, n)) };
            // SAFETY: as above.
            unsafe { (table.softmax)(RowsMut::dense(scores, n), scale) };
            let out_rows = RowsMut::dense(gathered, width);
            // SAFETY: as above.
            unsafe { (table.matmul)(Rows::dense(scores, n), values, out_rows) };
            for (row, gathered) in queries.zip(gathered.chunks_exact(width)) {
                // SAFETY: these rows of this head are this thread's, by the caller's promise.
                let to = unsafe { out.piece(row, head * width, width) };
                to.copy_from_slice(gathered);
            }
        }
    }
}
