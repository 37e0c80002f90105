//! Quota blocks of the policy crate, stored in the metastore.

use engine::Micros;

use super::{Block, Control, ControlError, Settlement};
use recalld_common::Month;
use recalld_policy::meter;
use recalld_policy::meter::{Blocks, Unavailable};

impl Blocks for Control {
    fn take_block(
        &self,
        slug: &str,
        month: Month,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<meter::Block>, Unavailable> {
        let taken = Self::take_block(self, slug, &month.to_string(), id, wanted, quota);
        let taken = taken.map_err(unavailable)?;
        Ok(taken.map(meter::Block::from))
    }

    fn settle(&self, settlements: &[meter::Settlement]) -> Result<(), Unavailable> {
        let months: Vec<String> = settlements.iter().map(|one| one.month.to_string()).collect();
        let settlements: Vec<Settlement<'_>> = settlements
            .iter()
            .zip(&months)
            .map(|(one, month)| Settlement {
                tenant: &one.slug,
                month,
                block: one.block,
                used: one.used,
                keep: one.keep,
            })
            .collect();
        Self::settle(self, &settlements).map_err(unavailable)
    }
}

impl From<Block> for meter::Block {
    fn from(block: Block) -> Self {
        let Block { id, calls, expires_at, .. } = block;
        let expires_at = i64::try_from(expires_at).unwrap_or(i64::MAX / SECOND) * SECOND;
        Self { id, calls, expires_at: Micros(expires_at) }
    }
}

/// A second in microseconds.
const SECOND: i64 = 1_000_000;

fn unavailable(error: ControlError) -> Unavailable {
    Unavailable(error.to_string())
}
