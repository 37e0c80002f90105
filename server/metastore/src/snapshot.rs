//! The control store as of one moment, in another file.

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
    /// Writes all of it, as of one commit, to a new file, which is on disk when this returns. Without keys, the private
    /// keys of access tokens are left out: whoever opens the copy makes another one. Others go on meanwhile.
    ///
    /// # Errors
    /// A fault of this store, or of the new one.
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
