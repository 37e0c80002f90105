"""What the peer reads, from what our store holds: `memory.db` (items, their words, edges) and
`vectors.faiss` (halves, searched flat).

    build.py DUMP FOLDER
"""
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

DIMENSIONS = 384
ROWS_AT_ONCE = 50_000
FIELDS = ("id", "kind", "title", "text", "modality", "tags", "status", "superseded_by", "recorded_at", "by",
          "via", "valid_from", "valid_to", "sensitivity", "content_sha256")


def lines(path: Path) -> Iterator:
    with path.open() as file:
        for line in file:
            yield json.loads(line)


def items(dump: Path) -> Iterator[tuple]:
    for row, item in enumerate(lines(dump / "items.jsonl")):
        item["tags"] = json.dumps(item["tags"])
        yield (row, *(item[field] for field in FIELDS))


def database(dump: Path, path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript("""
        pragma journal_mode = off;
        pragma synchronous = off;
        create table item (row integer primary key, id text, kind text, title text, text text, modality text,
            tags text, status text, superseded_by text, recorded_at text, recorded_by text, via text,
            valid_from text, valid_to text, sensitivity text, content_sha256 text);
        create virtual table words using fts5 (title, text, content = 'item', content_rowid = 'row',
            tokenize = 'porter unicode61');
        create table edge (id text, source integer, target integer, relation text, weight real);
    """)
    with db:
        marks = ",".join("?" * (len(FIELDS) + 1))
        db.executemany(f"insert into item values ({marks})", items(dump))
        db.executemany("insert into edge values (?, ?, ?, ?, ?)", lines(dump / "edges.jsonl"))
        db.execute("create index item_superseded_by on item (superseded_by) where superseded_by is not null")
        db.execute("create index edge_source on edge (source, weight desc)")
        db.execute("create index edge_target on edge (target, weight desc)")
        db.execute("insert into words (words) values ('rebuild')")
        db.execute("insert into words (words) values ('optimize')")
    db.execute("analyze")
    db.close()


def index(dump: Path, kind: str) -> faiss.Index:
    """An exact search of this kind over the dump's vectors."""
    made = {
        "flat f32": lambda: faiss.IndexFlatIP(DIMENSIONS),
        "fp16": lambda: faiss.IndexScalarQuantizer(
            DIMENSIONS, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT),
        "8 bit": lambda: faiss.IndexScalarQuantizer(
            DIMENSIONS, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT),
    }[kind]()
    rows = np.memmap(dump / "vectors.f16", "<f2", "r").reshape(-1, DIMENSIONS)
    made.train(rows[:ROWS_AT_ONCE].astype(np.float32))
    for first in range(0, len(rows), ROWS_AT_ONCE):
        made.add(rows[first:first + ROWS_AT_ONCE].astype(np.float32))
    return made


def main() -> None:
    dump, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("memory.db", "vectors.faiss"):
        (folder / name).unlink(missing_ok=True)
    database(dump, folder / "memory.db")
    faiss.write_index(index(dump, "fp16"), str(folder / "vectors.faiss"))


if __name__ == "__main__":
    main()
