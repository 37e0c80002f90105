//! Bytes on disk for each item.

use crate::corpus::Outcome;
use crate::ours::OneSegment;
use crate::report::{OURS, Unit};
use crate::setting::{Setting, folder_bytes};
use crate::sqlite::SqliteReader;
use crate::stores::{Engine, ensure};

/// Runs over the first `items` items.
pub fn run(setting: &mut Setting, items: u64) -> Outcome<()> {
    let items = setting.corpus.items(items);
    let each = |bytes: u64| bytes as f64 / items as f64;
    for engine in [Engine::Ours, Engine::Sqlite, Engine::Redb] {
        let folder = ensure(setting, engine, items, 0)?;
        let bytes = each(folder_bytes(&folder)?);
        let case = format!("{items} items, all of an item");
        setting.report.add("size", case, engine.name(), bytes, Unit::Bytes, 1);
    }
    let raw: usize = (0..items)
        .map(|number| setting.corpus.words_of(number))
        .map(|(title, text)| title.len() + text.len())
        .sum();
    let case = format!("{items} items, title and text alone");
    setting.report.add("size", case, "plain file", each(raw as u64), Unit::Bytes, 1);
    let case = format!("{items} items, words alone");
    let ours = OneSegment::of(&setting.corpus, items)?.bytes() as u64;
    setting.report.add("size", case.clone(), OURS, each(ours), Unit::Bytes, 1);
    let folder = ensure(setting, Engine::Tantivy, items, 0)?;
    let tantivy = each(folder_bytes(&folder)?);
    setting.report.add("size", case.clone(), Engine::Tantivy.name(), tantivy, Unit::Bytes, 1);
    let folder = ensure(setting, Engine::Sqlite, items, 0)?;
    let sqlite = each(SqliteReader::open(&folder)?.word_bytes()?);
    setting.report.add("size", case, Engine::Sqlite.name(), sqlite, Unit::Bytes, 1);
    Ok(())
}
