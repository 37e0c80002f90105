//! redb: one table from id to the item's bytes, without full text or edges.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use sha2::{Digest, Sha256};

use crate::corpus::{Item, Outcome, id_of};
use crate::peer::{Appender, Reader};

const FILE: &str = "items.redb";
const ITEMS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("items");

/// An open database, for writing or reading.
#[derive(Debug)]
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Opens the database in `folder`, and creates it if it is missing.
    pub fn open(folder: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { database: Database::create(folder.join(FILE))? })
    }
}

impl Appender for Redb {
    fn append(&self, items: &[Item]) -> Outcome<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut table = transaction.open_table(ITEMS)?;
            for item in items {
                table.insert(item.id, bytes_of(item).as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Reader for Redb {
    fn text_bytes(&self, number: u64) -> Outcome<usize> {
        let table = self.database.begin_read()?.open_table(ITEMS)?;
        let found = table.get(id_of(number))?.ok_or("no such item")?;
        let length = found.value().first_chunk().ok_or("too short")?;
        Ok(u32::from_le_bytes(*length) as usize)
    }
}

/// Serializes an item: the length of the text, then all fields one after another.
fn bytes_of(item: &Item) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(item.text.len() + 1_024);
    bytes.extend(u32::try_from(item.text.len()).unwrap_or(u32::MAX).to_le_bytes());
    for field in [&*item.text, &*item.title, item.kind, item.modality] {
        bytes.extend(field.as_bytes());
        bytes.push(0);
    }
    bytes.extend(item.tags.join(" ").as_bytes());
    bytes.push(0);
    bytes.extend(item.recorded_at.to_le_bytes());
    bytes.extend(item.valid_from.to_le_bytes());
    bytes.extend(Sha256::digest(item.text.as_bytes()));
    bytes.extend(bytemuck::cast_slice::<_, u8>(&item.embedding));
    bytes
}
