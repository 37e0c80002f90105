//! Copies of the metastore as of one commit.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::error::ControlError;
use super::record::Record;
use super::schema::{EXPIRIES, TABLE_NAMES};
use super::store::Control;
use super::table::{Expiry, Look};
use super::token_keys::TokenKeyRecord;

impl Control {
    /// Writes a copy as of one commit to a new file, durable on return. Without keys, the private keys of access tokens
    /// are omitted, and the next user of the copy generates a new key. Other transactions continue meanwhile.
    ///
    /// # Errors
    /// An error of this store, or of the new one.
    pub fn copy_to(&self, file: &Path, with_keys: bool) -> Result<(), ControlError> {
        let copy = Self::open(file, Arc::clone(&self.clock), Arc::clone(&self.random))?;
        let is_kept = |number: u8| with_keys || number != TokenKeyRecord::NUMBER;
        self.look(|view| {
            copy.write(|change| {
                for (name, _) in TABLE_NAMES.iter().filter(|(_, number)| is_kept(*number)) {
                    view.walk(name, Bound::Unbounded, |key, value| {
                        change.insert(name, key, value).map(|()| true)
                    })?;
                }
                view.walk(EXPIRIES, Bound::Unbounded, |key, value| {
                    if is_kept(Expiry::read(key)?.number) {
                        change.insert(EXPIRIES, key, value)?;
                    }
                    Ok(true)
                })
            })
        })
    }
}
