use half::f16;

use crate::lookups::LookupTables;
use crate::panels::Panels;
use crate::product::Product;
use crate::questions::{Bars, CodeQueries, RowFacts};
use crate::rows::{Rows, RowsMut};
use crate::workspace::CacheLine;

/// The functions of one level, one per operation. The functions are `unsafe` because each may need CPU features.
pub(crate) struct Table {
    pub(crate) dot: unsafe fn(&[f32], &[f16]) -> f32,
    pub(crate) dot_rows: unsafe fn(&[f32], &[f16], &mut [f32]),
    pub(crate) arrange: fn(&[i16], usize) -> Vec<CacheLine>,
    pub(crate) dot_codes: unsafe fn(&CodeQueries, &[i8], &mut [i32]),
    pub(crate) reaching: unsafe fn(&[i32], RowFacts<'_>, &Bars, &mut [u16]),
    pub(crate) sum_lookups: unsafe fn(&LookupTables, &[u8], &mut [u16]),
    /// Products, one per precision, in the order of [`Precision`](crate::Precision).
    pub(crate) products: [Product; 3],
    pub(crate) matmul: unsafe fn(Rows<'_>, &Panels, RowsMut<'_>),
    pub(crate) softmax: unsafe fn(RowsMut<'_>, f32),
    pub(crate) layer_norm: unsafe fn(RowsMut<'_>, &[f32], &[f32], f32),
    pub(crate) gelu: unsafe fn(&mut [f32]),
    pub(crate) add: unsafe fn(&mut [f32], &[f32]),
}
