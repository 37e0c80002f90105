//! SQLite: a table of items, an FTS5 index over the items, and a table of edges with an index for each direction.
//!
//! All writing threads share one connection behind a lock: separate connections would wait in SQLite's busy handler,
//! which sleeps, and be slower.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::corpus::{Edge, Item, Outcome, id_of};
use crate::peer::{Appender, Reader};

const FILE: &str = "items.sqlite";

/// Full-text indexing of items in the transaction that stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Indexed,
    Left,
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS items (
        number INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        modality TEXT NOT NULL,
        title TEXT NOT NULL,
        text TEXT NOT NULL,
        tags TEXT NOT NULL,
        recorded_at INTEGER NOT NULL,
        valid_from INTEGER,
        sha256 BLOB NOT NULL,
        embedding BLOB
    );
    CREATE TABLE IF NOT EXISTS edges (
        id BLOB NOT NULL,
        from_number INTEGER NOT NULL,
        to_number INTEGER NOT NULL,
        relation TEXT NOT NULL,
        weight REAL NOT NULL
    );
    CREATE INDEX IF NOT EXISTS edges_from ON edges (from_number, to_number);
    CREATE INDEX IF NOT EXISTS edges_to ON edges (to_number, from_number);";

/// The SQLite tokenizer nearest to ours. The texts are stored in `items` alone.
const WORDS: &str = "
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
        title, text, content = 'items', content_rowid = 'number',
        tokenize = 'porter unicode61 remove_diacritics 2'
    );";

const INSERT: &str = "
    INSERT INTO items (number, id, kind, modality, title, text, tags, recorded_at, valid_from,
        sha256, embedding)
    VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// Both directions by their indexes; UNION removes duplicates. CROSS JOIN keeps the planner, which cannot know that few
/// items are near, from reading all edges.
const TWO_HOPS: &str = "
    WITH near (number) AS (
        SELECT to_number FROM edges WHERE from_number = ?1
        UNION SELECT from_number FROM edges WHERE to_number = ?1
    ), all_near (number) AS (
        SELECT number FROM near
        UNION SELECT to_number FROM near CROSS JOIN edges ON from_number = near.number
        UNION SELECT from_number FROM near CROSS JOIN edges ON to_number = near.number
    )
    SELECT count(*) FROM all_near WHERE number <> ?1";

/// A database open for writing.
#[derive(Debug)]
pub struct SqliteWriter {
    connection: Mutex<Connection>,
    words: Words,
}

impl SqliteWriter {
    /// Opens the database in `folder`, and creates it if it is missing. WAL mode, synced at each commit.
    pub fn open(folder: &Path, words: Words) -> Outcome<Self> {
        std::fs::create_dir_all(folder)?;
        let connection = Connection::open(folder.join(FILE))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.execute_batch(TABLES)?;
        if words == Words::Indexed {
            connection.execute_batch(WORDS)?;
        }
        connection.set_prepared_statement_cache_capacity(16);
        Ok(Self { connection: Mutex::new(connection), words })
    }

    fn insert(&self, connection: &Connection, item: &Item) -> Outcome<()> {
        let sha256: [u8; 32] = Sha256::digest(item.text.as_bytes()).into();
        let embedding: &[u8] = bytemuck::cast_slice(&item.embedding);
        connection.prepare_cached(INSERT)?.execute(params![
            item.id.to_be_bytes(),
            item.kind,
            item.modality,
            item.title,
            item.text,
            item.tags.join(" "),
            item.recorded_at,
            item.valid_from,
            sha256,
            embedding
        ])?;
        if self.words == Words::Indexed {
            connection
                .prepare_cached("INSERT INTO words (rowid, title, text) VALUES (?1, ?2, ?3)")?
                .execute(params![connection.last_insert_rowid(), item.title, item.text])?;
        }
        Ok(())
    }
}

impl Appender for SqliteWriter {
    fn append(&self, items: &[Item]) -> Outcome<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        items.iter().try_for_each(|item| self.insert(&transaction, item))?;
        Ok(transaction.commit()?)
    }

    fn append_edges(&self, edges: &[Edge]) -> Outcome<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        for edge in edges {
            transaction.prepare_cached("INSERT INTO edges VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
                params![
                    edge.id.to_be_bytes(),
                    row_of(edge.from)?,
                    row_of(edge.to)?,
                    "links_to",
                    f64::from(edge.weight) / 100.0
                ],
            )?;
        }
        Ok(transaction.commit()?)
    }

    fn finish(&self) -> Outcome<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if self.words == Words::Indexed {
            connection.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
        }
        connection.execute_batch("ANALYZE")?;
        let done = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], done)?;
        Ok(())
    }
}

/// Row numbers count from 1 in the order of writing, item numbers from 0.
fn row_of(number: u64) -> Outcome<i64> {
    Ok(i64::try_from(number)? + 1)
}

/// A database open for reading: memory-mapped, with a 64 MiB cache of its own.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
}

impl SqliteReader {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path) -> Outcome<Self> {
        let connection = Connection::open(folder.join(FILE))?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        // The largest value that a default build allows.
        connection.pragma_update(None, "mmap_size", 0x7fff_0000)?;
        Ok(Self { connection })
    }

    /// Bytes of the pages of the full-text index.
    pub fn word_bytes(&self) -> Outcome<u64> {
        let sum = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'words%'";
        let bytes: i64 = self.connection.query_row(sum, [], |row| row.get(0))?;
        Ok(u64::try_from(bytes)?)
    }
}

impl Reader for SqliteReader {
    fn text_bytes(&self, number: u64) -> Outcome<usize> {
        let mut statement =
            self.connection.prepare_cached("SELECT text FROM items WHERE id = ?1")?;
        let text: Option<String> =
            statement.query_row([id_of(number).to_be_bytes()], |row| row.get(0)).optional()?;
        Ok(text.ok_or("no such item")?.len())
    }

    fn best(&self, question: &str, limit: usize) -> Outcome<Vec<u128>> {
        let words: Vec<String> =
            question.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        // A title counts twice, as in ours. `rank` with a limit is FTS5's fast path.
        let mut statement = self.connection.prepare_cached(
            "SELECT (SELECT id FROM items WHERE number = words.rowid) FROM words
             WHERE words MATCH ?1 AND rank MATCH 'bm25(2.0, 1.0)' ORDER BY rank LIMIT ?2",
        )?;
        let rows = statement
            .query_map(params![words.join(" OR "), i64::try_from(limit)?], |row| {
                row.get::<_, [u8; 16]>(0)
            })?;
        rows.map(|id| Ok(u128::from_be_bytes(id?))).collect()
    }

    fn two_hops(&self, number: u64) -> Outcome<usize> {
        let mut statement = self.connection.prepare_cached(TWO_HOPS)?;
        let found: i64 = statement.query_row([row_of(number)?], |row| row.get(0))?;
        Ok(usize::try_from(found)?)
    }
}
