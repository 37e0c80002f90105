use half::f16;

#[cfg(target_arch = "aarch64")]
use crate::aarch64;
use crate::attention;
use crate::level::Level;
use crate::linear::Linear;
use crate::lookups::{LOOKUP_ROWS, LookupTables};
use crate::product::{Asked, Then};
use crate::questions::{Bars, CodeQueries, QUESTIONS_MAX, RowFacts};
use crate::rows::{Rows, RowsMut};
use crate::scalar;
use crate::table::Table;
use crate::workspace::{Reach, Workspace};
#[cfg(target_arch = "x86_64")]
use crate::x86_64;

/// Parameters of a layer normalization.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Factors, one per column.
    pub gain: &'a [f32],
    /// Offsets, one per column.
    pub bias: &'a [f32],
    /// Constant added to the variance.
    pub epsilon: f32,
}

/// Rows that one thread adds to and normalizes at a time.
const ROWS_TOGETHER: usize = 8;

/// Vector arithmetic for one CPU level. Built once per process by [`Kernels::detect`], then copied freely: the value is
/// a level and a few function pointers.
#[derive(Clone, Copy)]
pub struct Kernels {
    level: Level,
    pub(super) table: &'static Table,
}

impl Kernels {
    /// Returns the fastest level that this CPU supports.
    pub fn detect() -> Kernels {
        Level::ALL
            .iter()
            .find_map(|&level| Kernels::for_level(level))
            .expect("the scalar level needs nothing of the CPU")
    }

    /// Returns exactly this level, or `None` if the CPU or the build's architecture lacks it.
    pub fn for_level(level: Level) -> Option<Kernels> {
        let table = match level {
            Level::Scalar => Some(&scalar::TABLE),
            #[cfg(target_arch = "x86_64")]
            level => x86_64::table(level),
            #[cfg(target_arch = "aarch64")]
            level => aarch64::table(level),
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            _ => None,
        };
        table.map(|table| Kernels { level, table })
    }

    /// The level in use.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Sum of `query[i] * row[i]`, accumulated in f32.
    ///
    /// # Panics
    /// The lengths differ.
    pub fn dot(&self, query: &[f32], row: &[f16]) -> f32 {
        assert_eq!(query.len(), row.len(), "query and row differ in width");
        // SAFETY: `for_level` returns a table only after the CPU reported every feature that the table's functions
        // enable. The functions have no other requirement.
        unsafe { (self.table.dot)(query, row) }
    }

    /// Computes `out[r]` = [`dot`](Kernels::dot) of `query` with row `r` of `rows`, to the same bits. The rows lie one
    /// after the other, each as wide as `query`.
    ///
    /// # Panics
    /// `rows.len() != query.len() * out.len()`.
    pub fn dot_rows(&self, query: &[f32], rows: &[f16], out: &mut [f32]) {
        assert_eq!(
            Some(rows.len()),
            query.len().checked_mul(out.len()),
            "rows are not query width times the number of scores"
        );
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.dot_rows)(query, rows, out) }
    }

    /// Arranges queries of one width for [`dot_codes`](Kernels::dot_codes).
    ///
    /// # Panics
    /// There are no queries or more than [`QUESTIONS_MAX`], or their widths differ.
    pub fn code_queries(&self, queries: &[&[i16]]) -> CodeQueries {
        assert!((1..=QUESTIONS_MAX).contains(&queries.len()), "from 1 to QUESTIONS_MAX questions");
        let width = queries[0].len();
        assert!(queries.iter().all(|query| query.len() == width), "questions differ in width");
        let codes = queries.concat();
        let arranged = (self.table.arrange)(&codes, queries.len());
        CodeQueries { level: self.level, width, count: queries.len(), codes, arranged }
    }

    /// Computes `out[r * count + q]` = sum of `queries[q][i] * rows[r][i]`, with `count` the number of queries. The
    /// rows lie one after the other, each as wide as a query; rows beyond the requested ones are prefetched. Sums are
    /// modulo 2^32, so every level returns the same numbers for any input. The numbers are the true sums if `width *
    /// max |queries[q][i]| * 128` is below 2^31.
    ///
    /// # Panics
    /// There are fewer rows than sums, `out` is not a whole number of rows, or the queries were arranged for another
    /// level.
    pub fn dot_codes(&self, queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
        assert_eq!(queries.level, self.level, "the questions are arranged for another level");
        let count = out.len() / queries.count;
        assert_eq!(count * queries.count, out.len(), "one sum for each question and row");
        let wanted = queries.width.checked_mul(count);
        assert!(wanted.is_some_and(|wanted| wanted <= rows.len()), "fewer rows than sums");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.dot_codes)(queries, rows, out) }
    }

    /// Computes the threshold mask of each row: bit `q` of `out[r]` is set unless `products[r * count + q] * scale[r] *
    /// per_product[q] + error[r] * per_error[q]` is below `norm[r] * least[q]`. Each product and sum is rounded once,
    /// in that order and in f32, so every level returns the same bits. NaN is below nothing, so its bit is set. Each
    /// row has as many products as there are queries.
    ///
    /// # Panics
    /// The numbers of rows differ, or there are no queries or more than [`QUESTIONS_MAX`].
    pub fn reaching(&self, products: &[i32], facts: RowFacts<'_>, bars: &Bars, out: &mut [u16]) {
        let rows = out.len();
        if rows == 0 {
            return;
        }
        let count = products.len() / rows;
        assert!((1..=QUESTIONS_MAX).contains(&count), "from 1 to QUESTIONS_MAX questions");
        assert_eq!(products.len(), rows * count, "one product for each question and row");
        let RowFacts { scales, errors, norms } = facts;
        let lengths = [scales.len(), errors.len(), norms.len()];
        assert_eq!(lengths, [rows; 3], "one scale, error and length for each row");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.reaching)(products, facts, bars, out) }
    }

    /// Computes the LUT sum of each row: for each half-byte of the row, the entry that it selects in its table.
    /// `out[r]` is the sum of row `r`, whose byte `j` is `blocks[(r / LOOKUP_ROWS * bytes + j) * LOOKUP_ROWS + r %
    /// LOOKUP_ROWS]`, with `bytes` the bytes of a row. Blocks beyond the requested ones are prefetched. Sums are modulo
    /// 2^16, so every level returns the same numbers.
    ///
    /// # Panics
    /// `out` is not a whole number of blocks, or `blocks` has fewer blocks.
    pub fn sum_lookups(&self, tables: &LookupTables, blocks: &[u8], out: &mut [u16]) {
        assert_eq!(out.len() % LOOKUP_ROWS, 0, "sums of whole blocks");
        let wanted = tables.row_bytes().checked_mul(out.len());
        assert!(wanted.is_some_and(|wanted| wanted <= blocks.len()), "fewer blocks than sums");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.sum_lookups)(tables, blocks, out) }
    }

    /// Computes a fully connected layer: `out[m][n]` = `bias[n]` plus the sum over `k` of `left[m][k] * weights[k][n]`;
    /// `then` is applied to each sum. The bits of a row depend on that row and on the layer only, and not on the number
    /// of other rows or of threads.
    ///
    /// With `d` the depth, `e` = `f32::EPSILON` and `s` the sum of `|left * weight|` and `|bias|`, the error of a sum
    /// is at most `(d + 1) * (e * s + f32::MIN_POSITIVE)` at [`Precision::F32`]. At [`Precision::F16`], the bound is
    /// the same for the weights as rounded to f16; [`Level::Amx`] adds `s / 2^15`, since it multiplies 16 of the 24
    /// bits of the left side. At [`Precision::Int8`], every level returns the same bits for finite rows, before `then`;
    /// the result of a row with a number that is not finite is unspecified.
    ///
    /// [`Precision::F32`]: crate::Precision::F32
    /// [`Precision::F16`]: crate::Precision::F16
    /// [`Precision::Int8`]: crate::Precision::Int8
    ///
    /// `upcoming` is the layer that comes after this one, if any: its weights are prefetched while this one ends.
    ///
    /// # Panics
    /// The shapes do not fit together, or exceed the workspace's [`Reach`].
    pub fn linear(
        &self,
        workspace: &mut Workspace,
        left: Rows<'_>,
        (layer, upcoming): (Linear<'_>, Option<Linear<'_>>),
        then: Then,
        out: RowsMut<'_>,
    ) {
        assert_eq!(left.width(), layer.depth(), "left is as wide as the layer is deep");
        assert_eq!(left.count(), out.count(), "one row out per row of left");
        assert_eq!(layer.width(), out.width(), "rows out are as wide as the layer");
        let Reach { rows, depth, .. } = workspace.reach;
        assert!(left.count() <= rows && left.width() <= depth, "within the workspace's reach");
        let product = &self.table.products[layer.precision() as usize];
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { product.run(workspace, Asked { left, layer, upcoming, then }, out) };
    }

    /// Computes scaled dot-product attention (Vaswani et al. 2017, section 3.2): each row of `out` is, head by head,
    /// the sum of the values of its text, weighted by `softmax(q k / sqrt(d_k))`. A row of `projected` is a query, a
    /// key and a value side by side, each as wide as a row of `out`; `heads` divide that width equally. The texts lie
    /// back to back and end at `ends`.
    ///
    /// # Panics
    /// The shapes do not fit together, or exceed the workspace's [`Reach`].
    pub fn attend(
        &self,
        workspace: &mut Workspace,
        projected: Rows<'_>,
        ends: &[usize],
        heads: usize,
        out: RowsMut<'_>,
    ) {
        assert_eq!(projected.width(), 3 * out.width(), "query, key and value of one width");
        assert_eq!(projected.count(), out.count(), "one row out per row");
        assert_eq!(out.width() % heads, 0, "heads share the width equally");
        assert!(ends.is_sorted(), "texts do not overlap");
        assert!(ends.last().is_none_or(|&end| end <= out.count()), "texts end inside");
        let Reach { text, head, .. } = workspace.reach;
        let starts = std::iter::once(&0).chain(ends);
        let longest = starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0);
        let is_within = longest <= text && out.width() / heads <= head;
        assert!(is_within, "within the workspace's reach");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { attention::attend(self.table, workspace, projected, ends, heads, out) };
    }

    /// Replaces each row of scores by weights that sum to one: `exp(scale * score)`, divided by the row's total. The
    /// row's largest score is subtracted first, so that nothing overflows.
    pub fn softmax(&self, rows: RowsMut<'_>, scale: f32) {
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.softmax)(rows, scale) }
    }

    /// Layer normalization (Ba, Kiros and Hinton 2016): each row is brought to mean 0 and variance 1, then multiplied
    /// by `gain`, and `bias` is added. `epsilon` is added to the variance.
    ///
    /// # Panics
    /// `gain` or `bias` is not as wide as a row.
    pub fn layer_norm(&self, rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
        assert_eq!(rows.width(), gain.len(), "one gain per column");
        assert_eq!(rows.width(), bias.len(), "one bias per column");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.layer_norm)(rows, gain, bias, epsilon) }
    }

    /// Adds `change` to `rows` and normalizes each row as [`layer_norm`](Kernels::layer_norm) does: the end of a
    /// transformer's layer.
    ///
    /// # Panics
    /// The shapes do not fit together.
    pub fn add_norm(
        &self,
        workspace: &mut Workspace,
        mut rows: RowsMut<'_>,
        change: Rows<'_>,
        norm: Norm<'_>,
    ) {
        assert_eq!(rows.width(), change.width(), "rows and change differ in width");
        assert_eq!(rows.count(), change.count(), "one change per row");
        assert_eq!(rows.width(), norm.gain.len(), "one gain per column");
        assert_eq!(rows.width(), norm.bias.len(), "one bias per column");
        let (count, width, table) = (rows.count(), rows.width(), self.table);
        let rows = rows.shared();
        workspace.team.run(count.div_ceil(ROWS_TOGETHER), &|chunk, _| {
            let first = chunk * ROWS_TOGETHER;
            for i in first..count.min(first + ROWS_TOGETHER) {
                // SAFETY: each row belongs to one chunk.
                let row = unsafe { rows.piece(i, 0, width) };
                // SAFETY: as in `dot`, the CPU has the features of this table's level.
                unsafe { (table.add)(row, change.row(i)) };
                let row = RowsMut::new(row, 1, width, width);
                // SAFETY: as above.
                unsafe { (table.layer_norm)(row, norm.gain, norm.bias, norm.epsilon) };
            }
        });
    }

    /// The Gaussian error linear unit in its exact form (Hendrycks and Gimpel 2016): `x` times the normal
    /// distribution's probability of a value below `x`. The error is at most `4 * f32::EPSILON * |x|`.
    pub fn gelu(&self, values: &mut [f32]) {
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.gelu)(values) }
    }

    /// Computes `sum[i] += addend[i]`.
    ///
    /// # Panics
    /// The lengths differ.
    pub fn add(&self, sum: &mut [f32], addend: &[f32]) {
        assert_eq!(sum.len(), addend.len(), "sum and addend differ in length");
        // SAFETY: as in `dot`, the CPU has the features of this table's level.
        unsafe { (self.table.add)(sum, addend) }
    }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("level", &self.level).finish()
    }
}
