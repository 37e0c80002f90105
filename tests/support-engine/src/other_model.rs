//! Models for migrations: a number determines a model and every embedding of the model.
//!
//! So an oracle, or the checker of an interrupted load, knows the embedding of each item.

use engine::{ItemEncoder, ItemId, ItemView, Model};
use half::f16;

use crate::ground::Dice;
use crate::sample::DIMENSIONS;

/// Widths of the models, from [`DIMENSIONS`] on: equal to an old width, or different.
const WIDTHS: u64 = 4;

/// A model, determined by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherModel(u64);

impl OtherModel {
    /// Returns the model of a number; distinct numbers give distinct models.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the model that a store is bound to.
    pub fn of(model: Model) -> Self {
        let number = model.fingerprint.first_chunk().expect("it is longer");
        Self(u64::from_le_bytes(*number))
    }

    /// Returns another model.
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns the model as a store identifies it.
    pub fn model(&self) -> Model {
        let mut fingerprint = [9; 32];
        fingerprint[..8].copy_from_slice(&self.0.to_le_bytes());
        let more = u32::try_from(self.0 % WIDTHS).expect("a few");
        Model { fingerprint, dimensions: u32::try_from(DIMENSIONS).expect("a few") + more }
    }

    /// Computes the embedding of an item.
    pub fn embedding(&self, id: ItemId) -> Vec<f16> {
        let low = u64::try_from(id.0 & u128::from(u64::MAX)).expect("64 bits");
        embedding(self.model().dimensions, &mut Dice::new(self.0 ^ low))
    }
}

impl ItemEncoder for OtherModel {
    fn model(&self) -> Model {
        Self::model(self)
    }

    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
        Ok(items.iter().map(|item| self.embedding(item.id)).collect())
    }
}

/// Returns an embedding that hardly any other row has: f16 values from 1/8 to 2, of either sign, without a zero byte.
pub fn embedding(dimensions: u32, dice: &mut Dice) -> Vec<f16> {
    let half = |_| {
        let bits = u16::try_from(dice.below(0x1000)).expect("twelve bits");
        let sign = u16::try_from(dice.below(2)).expect("one bit") << 15;
        f16::from_bits(sign | (0x3000 + bits) | 1)
    };
    (0..dimensions).map(half).collect()
}
