#!/usr/bin/env python3
"""Prints all that a recalld store holds as JSON Lines, or checks an audit ledger:

    reader.py [--no-checksums] [--workspace NAME] DIR
    reader.py --ledger [--workspace NAME] [--key HEX]... [--anchor SEQ:HASH] DIR

DIR is a data directory or a backup, whose workspace NAME is read (`local` if none is named), or the
folder of one store or of one ledger.

Documentation that runs: written from segment.md, log.md and export.md alone, with nothing but
Python's standard library (3.9 or later). It reads versions 1 and 2 of the format, changes nothing,
and prints the very bytes of `recalld export`. Words and embeddings can be made again from the
texts, so they are not read.

Rows are read where they lie, one after another; what is kept in memory is the ids of all rows, the
sources and the logs. It takes no lock: of a store that is in use it may print the state of a moment
ago, or find damage where a file is being replaced. Then run it again.

With --ledger it walks the hash chain (ledger.py, written from ledger.md alone) and prints a report.

With --no-checksums it looks past wrong hashes and checksums, to see what is left of a damaged
store. Exit code: 0 done, 1 damage (with the rule's id) or no store, 2 wrong use.
"""

import hashlib
import heapq
import json
import mmap
import os
import re
import struct
import sys
from collections import namedtuple
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache

import ledger
from checks import Checks, Damage, crc32c, part_of, require

READ_VERSION = 2
NO_TIME = -(2**63)


# --- Rows, as segments and logs both hold them ---------------------------------------------------

Source = namedtuple("Source", "id kind uri title sha256 bytes recorded_at recorded_by via")
Item = namedtuple(
    "Item",
    "id searchable sensitivity kind modality title text attributes ref tags gates supersedes"
    " source span recorded_at recorded_by via valid_from valid_to sha256",
)
Edge = namedtuple(
    "Edge",
    "id start end relation weight source recorded_at recorded_by valid_from valid_to note",
)
Tombstone = namedtuple("Tombstone", "target at by reason erase supersedes")
# Within a commit rows stand in this order (export.md, Order of lines).
TYPES = (Source, Item, Edge, Tombstone)


def flags_of(flags, rule, detail, known=1):
    """Bit 0 of flags of which only the `known` ones have a meaning."""
    require(flags & ~known == 0, rule, f"{detail}: unknown flags {flags:#x}")
    return flags & 1 == 1


# Of a tombstone: the target is to be erased; it was gone, which follows from the rows.
TOMBSTONE_FLAGS = 3


def text_of(data, rule, detail):
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damage(rule, f"{detail}: {error}") from error


# --- Files ---------------------------------------------------------------------------------------


def map_file(folder, name):
    """A file's bytes, mapped: only what is looked at is read."""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as error:
        raise Damage("MAN-03", f"{name} is not there") from error


def numbered(folder, kind):
    """Numbers of the files of a kind, ascending."""
    names = (re.fullmatch(kind + r"-([0-9]{20})", name) for name in os.listdir(folder))
    return sorted(int(found[1]) for found in names if found)


def check_version(name, read_version, rule):
    require(read_version > 0, rule, f"{name}: version 0")
    newest = f"this reader reads up to {READ_VERSION}"
    require(read_version <= READ_VERSION, rule, f"{name} needs version {read_version}; {newest}")


# --- Manifest (log.md) ---------------------------------------------------------------------------


def read_manifest(folder):
    numbers = numbered(folder, "manifest")
    wanted = "DIR is a data directory, or the folder that has the manifests"
    require(numbers, "MAN-03", f"no manifest is in {folder}; {wanted}")
    name = f"manifest-{numbers[-1]:020}"
    line, _, rest = bytes(map_file(folder, name)).partition(b"\n")
    expected = b"sha256 " + hashlib.sha256(line).hexdigest().encode() + b"\n"
    require(rest == expected or not Checks.enabled, "MAN-01", f"{name}: the second line differs")
    try:
        manifest = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Damage("MAN-02", f"{name}: {error}") from error
    fields = Fields(manifest, name)
    require(manifest.get("format") == "recalld manifest", "MAN-02", f"{name}: format is another")
    check_version(name, fields.number("read_version"), "MAN-02")
    require(fields.number("number") == numbers[-1], "MAN-02", f"{name}: number is another")
    manifest["store"] = bytes.fromhex(fields.hex("store", 16))
    for key in ("last_seq", "log_floor", "next_file"):
        fields.number(key)
    check_segment_entries(name, fields)
    if manifest["read_version"] >= 2:
        logs = fields.list("logs")
        right = all(type(log) is int and log >= manifest["log_floor"] for log in logs)
        require(right and logs == sorted(set(logs)), "MAN-06", f"{name}: logs {logs}")
    return manifest


def check_segment_entries(name, fields):
    last_seq = 0
    for entry in fields.list("segments"):
        segment = Fields(entry, f"{name}, a segment")
        for key in ("number", "bytes", "items", "sources", "edges", "tombstones", "vectors"):
            segment.number(key)
        segment.hex("sha256", 32)
        first, last = segment.number("first_seq"), segment.number("last_seq")
        order = f"{name}: segment {entry['number']} is out of commit order"
        require(last_seq < first <= last, "MAN-04", order)
        last_seq = last
        if segment.any("state") is not None:
            state = Fields(entry["state"], f"{name}, a state")
            state.number("generation")
            state.number("bytes")
            state.hex("sha256", 32)
    last = fields.number("last_seq")
    require(last_seq <= last, "MAN-06", f"{name}: last_seq is below {last_seq}")


class Fields:
    """Fields of a JSON object; one that is missing or of another type breaks MAN-02."""

    def __init__(self, value, where):
        require(isinstance(value, dict), "MAN-02", f"{where}: not an object")
        self.value, self.where = value, where

    def any(self, key):
        require(key in self.value, "MAN-02", f"{self.where}: {key} is missing")
        return self.value[key]

    def number(self, key):
        number = self.any(key)
        right = type(number) is int and 0 <= number < 2**64
        require(right, "MAN-02", f"{self.where}: {key} is {number!r}")
        return number

    def hex(self, key, size):
        text = self.any(key)
        right = isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{size * 2}}}", text)
        require(right, "MAN-02", f"{self.where}: {key} is {text!r}")
        return text

    def list(self, key):
        members = self.any(key)
        require(isinstance(members, list), "MAN-02", f"{self.where}: {key} is not a list")
        return members


# --- Segments (segment.md) -----------------------------------------------------------------------

PAGE_BYTES = 65536
# number, name, cell, cells: the table of segment.md.
COLUMNS = """
1 symbol_offsets 8 y+1 | 2 symbol_bytes 1 *
10 item_id 16 n | 11 item_by_id 4 n? | 12 item_seq 8 n | 13 item_kind 4 n | 14 item_modality 4 n
15 item_recorded_by 4 n | 16 item_via 4 n | 17 item_flags 1 n | 18 item_sensitivity 1 n
19 title_offsets 8 n+1 | 20 title_bytes 1 * | 21 text_offsets 8 n+1 | 22 text_bytes 1 *
23 attribute_offsets 8 n+1 | 24 attribute_bytes 1 * | 25 ref_offsets 8 n+1 | 26 ref_bytes 1 *
27 item_by_ref 4 * | 28 tag_offsets 4 n+1 | 29 tag_codes 4 * | 30 gate_offsets 4 n+1
31 gate_codes 4 * | 32 supersedes_offsets 4 n+1 | 33 supersedes_ids 16 * | 34 successor_target 16 *
35 successor_row 4 * | 36 item_source 16 n | 37 item_by_source 4 * | 38 span_bytes 16 n
39 span_lines 8 n | 40 item_recorded_at 8 n | 41 item_valid_from 8 n | 42 item_valid_to 8 n
43 item_sha256 32 n | 44 item_embedding 4 n
60 source_id 16 s | 61 source_by_id 4 s? | 62 source_kind 4 s | 63 source_uri_offsets 8 s+1
64 source_uri_bytes 1 * | 65 source_by_uri 4 s | 66 source_title_offsets 8 s+1
67 source_title_bytes 1 * | 68 source_sha256 32 s | 69 source_bytes 8 s | 70 source_recorded_at 8 s
71 source_recorded_by 4 s | 72 source_via 4 s | 73 source_seq 8 s
80 edge_id 16 e | 81 edge_by_id 4 e? | 86 edge_relation 4 e | 87 edge_weight 4 e
88 edge_source 16 e | 89 edge_recorded_at 8 e | 90 edge_recorded_by 4 e | 91 edge_valid_from 8 e
92 edge_valid_to 8 e | 93 edge_note_offsets 8 e+1 | 94 edge_note_bytes 1 * | 95 edge_seq 8 e
100 tombstone_target 16 t | 101 tombstone_by_target 4 t | 102 tombstone_at 8 t
103 tombstone_by 4 t | 104 tombstone_reason_offsets 8 t+1 | 105 tombstone_reason_bytes 1 *
106 tombstone_seq 8 t | 121 vector_norm 4 v | 122 vector_item 4 v
140 word_dictionary 1 * | 141 word_entries 1 * | 142 word_blocks 1 * | 143 word_postings 1 *
144 word_lengths 1 *
"""
# What only version 1 has, and what only version 2 has (history.md).
COLUMNS_V1 = """
82 edge_from 16 e | 83 edge_by_from 4 e | 84 edge_to 16 e | 85 edge_by_to 4 e
120 vector_halves 2 v*d
"""
COLUMNS_V2 = """
107 tombstone_flags 1 t | 108 tombstone_supersedes_offsets 4 t+1
109 tombstone_supersedes_ids 16 *
110 node_id 16 m | 111 node_row 4 m | 112 edge_from_node 4 e | 113 edge_to_node 4 e
114 out_offsets 4 m+1 | 115 out_bytes 1 * | 116 in_offsets 4 m+1 | 117 in_bytes 1 *
118 tombstone_successor_target 16 * | 119 tombstone_successor_row 4 *
120 vector_halves 2 v*h | 123 vector_codes 1 v*k | 124 vector_scale 4 v | 125 vector_error 4 v
"""


def columns_of(version):
    """Number -> (name, bytes of a cell, cells), for a version."""
    text = COLUMNS + (COLUMNS_V1 if version == 1 else COLUMNS_V2)
    cells = (entry.split() for entry in text.replace("|", "\n").split("\n") if entry.strip())
    return {int(number): (name, int(cell), count) for number, name, cell, count in cells}


class Segment:
    """A sealed segment. Opening checks its shape; a page's checksum is checked when it is used."""

    def __init__(self, name, data):
        self.name, self.data, self.checked = name, data, set()
        self.columns = {}
        self._check_trailer()
        (self.version,) = struct.unpack_from("<H", data, 8)
        check_version(name, self.version, "SEG-02")
        fields = struct.unpack_from("<7I2Q", data, 12)
        self.dimensions, self.items, self.sources, self.edges = fields[:4]
        self.tombstones, self.vectors, self.symbols, self.first_seq, self.last_seq = fields[4:]
        self._read_directory()

    def _check_trailer(self):
        data, name = self.data, self.name
        require(len(data) >= 128, "SEG-01", f"{name}: {len(data)} bytes, at least 128 are wanted")
        magics = data[:8] == b"RCLDSEG\0" and data[-8:] == b"RCLDEND\0"
        require(magics, "SEG-01", f"{name}: a magic is missing")
        trailer = data[-64:]
        self.directory_at, self.entries, page_bytes = struct.unpack_from("<QII", trailer, 0)
        (self.checks_at, self.pages) = struct.unpack_from("<QI", trailer, 16)
        checks_crc, file_bytes = struct.unpack_from("<IQ", trailer, 28)
        (crc,) = struct.unpack_from("<I", trailer, 52)
        Checks.crc(crc, "SEG-04", f"{name}: trailer_crc is wrong", trailer[:52])
        lengths = (file_bytes, page_bytes) == (len(data), PAGE_BYTES)
        require(lengths, "SEG-04", f"{name}: {len(data)} bytes, {file_bytes} were written")
        self._reserved(trailer[40:52])
        shape = (
            64 <= self.directory_at
            and self.directory_at + self.entries * 32 == self.checks_at
            and self.pages == -(-self.checks_at // PAGE_BYTES)
            and self.checks_at + self.pages * 4 == len(data) - 64
        )
        require(shape, "SEG-05", f"{name}: directory, page checks and trailer do not meet")
        Checks.crc(checks_crc, "SEG-04", f"{name}: checks_crc is wrong", data[self.checks_at : -64])
        self._check_pages(0, 64)
        self._check_pages(self.directory_at, self.checks_at)
        self._reserved(data[56:64])

    def _reserved(self, data):
        require(not any(data), "SEG-17", f"{self.name}: a reserved byte is not zero")

    def _check_pages(self, start, end):
        """SEG-06, for the pages of bytes start..end."""
        for page in range(start // PAGE_BYTES, -(-end // PAGE_BYTES)):
            if page not in self.checked:
                self.checked.add(page)
                (crc,) = struct.unpack_from("<I", self.data, self.checks_at + page * 4)
                at = page * PAGE_BYTES
                covered = self.data[at : min(at + PAGE_BYTES, self.checks_at)]
                Checks.crc(crc, "SEG-06", f"{self.name}: checksum of page {page}", covered)

    def _read_directory(self):
        table, last, places = columns_of(self.version), 0, {}
        for entry in range(self.entries):
            at = self.directory_at + entry * 32
            number, cell, reserved, offset, size, after = struct.unpack_from(
                "<HHIQQQ", self.data, at
            )
            self._reserved((reserved, after))
            where = f"{self.name}: column {number}"
            require(number > last, "SEG-07", f"{where} follows {last}")
            last = number
            inside = 64 <= offset and offset % 64 == 0 and offset + size <= self.directory_at
            require(inside, "SEG-08", f"{where} at {offset}, {size} bytes")
            if number in table:  # a column that is not known is left alone
                name, wanted, _ = table[number]
                require(cell == wanted and size % cell == 0, "SEG-09", f"{where}: cells of {cell}")
                places[name] = (offset, size // cell, cell)
        for name, _, count in table.values():
            require(name in places, "SEG-09", f"{self.name}: {name} is missing")
            found = places[name][1]
            right = found in self._counts(count, places)
            require(right, "SEG-09", f"{self.name}: {name} has {found} cells, not {count}")
        self.columns = places

    def _counts(self, count, places):
        """How many cells a column may have."""
        if count == "*":
            return range(2**64)
        nodes = places["node_id"][1] if "node_id" in places else 0
        up_to = {"d": 1, "h": 32, "k": 64}  # the width of a row is rounded up to a multiple
        if "*" in count:
            multiple = up_to[count[2]]
            return (self.vectors * (-(-self.dimensions // multiple) * multiple),)
        tables = {"y": self.symbols, "n": self.items, "s": self.sources, "e": self.edges}
        tables.update(t=self.tombstones, v=self.vectors, m=nodes)
        rows = tables[count[0]]
        optional = count.endswith("?") and self.version >= 2  # sorted ids need no index
        return (rows, 0) if optional else (rows + count.endswith("+1"),)

    def cell(self, column, row):
        """The bytes of one cell."""
        offset, cells, size = self.columns[column]
        require(row < cells, "SEG-12", f"{self.name}: row {row} of {cells} cells of {column}")
        at = offset + row * size
        self._check_pages(at, at + size)
        return self.data[at : at + size]

    def number(self, column, row):
        return int.from_bytes(self.cell(column, row), "little")

    def time(self, column, row):
        return int.from_bytes(self.cell(column, row), "little", signed=True)

    def piece(self, offsets, column, row):
        """The bytes of one text or list."""
        start, end = self.number(offsets, row), self.number(offsets, row + 1)
        at, cells, size = self.columns[column]
        inside = start <= end <= cells
        require(inside, "SEG-10", f"{self.name}: row {row} of {column}: {start}..{end} of {cells}")
        if start < end:
            self._check_pages(at + start * size, at + end * size)
        return self.data[at + start * size : at + end * size]

    def text(self, stem, row):
        data = self.piece(f"{stem}_offsets", f"{stem}_bytes", row)
        return text_of(data, "SEG-11", f"{self.name}: row {row} of {stem}_bytes")

    def symbol(self, column, row):
        return self._symbol_of(self.number(column, row))

    def _symbol_of(self, code):
        require(code < self.symbols, "SEG-12", f"{self.name}: there is no symbol {code}")
        return self.text("symbol", code)

    def symbols_of(self, stem, row):
        codes = self.piece(f"{stem}_offsets", f"{stem}_codes", row)
        return [self._symbol_of(code) for (code,) in struct.iter_unpack("<I", codes)]

    def ids(self, stem, row):
        data = self.piece(f"{stem}_offsets", f"{stem}_ids", row)
        return [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]

    def source(self, row):
        return Source(
            id=self.number("source_id", row),
            kind=self.symbol("source_kind", row),
            uri=self.text("source_uri", row),
            title=self.text("source_title", row),
            sha256=bytes(self.cell("source_sha256", row)),
            bytes=self.number("source_bytes", row),
            recorded_at=self.time("source_recorded_at", row),
            recorded_by=self.symbol("source_recorded_by", row),
            via=self.symbol("source_via", row),
        )

    def item(self, row):
        where = f"{self.name}: item row {row}"
        sensitivity = self.number("item_sensitivity", row)
        require(sensitivity < 4, "SEG-15", f"{where}: sensitivity {sensitivity}")
        return Item(
            id=self.number("item_id", row),
            searchable=flags_of(self.number("item_flags", row), "SEG-15", where),
            sensitivity=sensitivity,
            kind=self.symbol("item_kind", row),
            modality=self.symbol("item_modality", row),
            title=self.text("title", row),
            text=self.text("text", row),
            attributes=self.text("attribute", row),
            ref=self.text("ref", row),
            tags=self.symbols_of("tag", row),
            gates=self.symbols_of("gate", row),
            supersedes=self.ids("supersedes", row),
            source=self.number("item_source", row),
            span=struct.unpack("<2Q", self.cell("span_bytes", row))
            + struct.unpack("<2I", self.cell("span_lines", row)),
            recorded_at=self.time("item_recorded_at", row),
            recorded_by=self.symbol("item_recorded_by", row),
            via=self.symbol("item_via", row),
            valid_from=self.time("item_valid_from", row),
            valid_to=self.time("item_valid_to", row),
            sha256=bytes(self.cell("item_sha256", row)),
        )

    def _edge_end(self, end, row):
        if self.version == 1:
            return self.number(f"edge_{end}", row)
        return self.number("node_id", self.number(f"edge_{end}_node", row))

    def edge(self, row):
        return Edge(
            id=self.number("edge_id", row),
            start=self._edge_end("from", row),
            end=self._edge_end("to", row),
            relation=self.symbol("edge_relation", row),
            weight=bytes(self.cell("edge_weight", row)),
            source=self.number("edge_source", row),
            recorded_at=self.time("edge_recorded_at", row),
            recorded_by=self.symbol("edge_recorded_by", row),
            valid_from=self.time("edge_valid_from", row),
            valid_to=self.time("edge_valid_to", row),
            note=self.text("edge_note", row),
        )

    def tombstone(self, row):
        has_flags = self.version >= 2
        flags = self.number("tombstone_flags", row) if has_flags else 0
        where = f"{self.name}: tombstone row {row}"
        return Tombstone(
            target=self.number("tombstone_target", row),
            at=self.time("tombstone_at", row),
            by=self.symbol("tombstone_by", row),
            reason=self.text("tombstone_reason", row),
            erase=flags_of(flags, "SEG-15", where, TOMBSTONE_FLAGS),
            supersedes=self.ids("tombstone_supersedes", row) if has_flags else [],
        )

    def _table(self, order, name, rows, read):
        """Rows of one table with their commit, each behind the one before (SEG-14)."""
        last = self.first_seq
        for row in range(rows):
            seq = self.number(f"{name}_seq", row)
            where = f"{self.name}: {name} row {row}"
            require(last <= seq <= self.last_seq, "SEG-14", f"{where} is of commit {seq}")
            last = seq
            yield seq, order, row, read

    def records(self):
        """All rows in commit order, and in the order of TYPES within a commit."""
        tables = [
            self._table(0, "source", self.sources, self.source),
            self._table(1, "item", self.items, self.item),
            self._table(2, "edge", self.edges, self.edge),
            self._table(3, "tombstone", self.tombstones, self.tombstone),
        ]
        for _, _, row, read in heapq.merge(*tables, key=lambda found: found[:2]):
            yield read(row)


def open_segment(folder, entry):
    name = f"segment-{entry['number']:020}"
    data = map_file(folder, name)
    long = f"{name}: {len(data)} bytes, {entry['bytes']} were written"
    require(len(data) == entry["bytes"], "MAN-03", long)
    Checks.sha256(entry["sha256"], "MAN-03", f"{name}: its SHA-256 is another", data)
    segment = Segment(name, data)
    counts = ("items", "sources", "edges", "tombstones", "vectors", "first_seq", "last_seq")
    for count in counts:
        found = getattr(segment, count)
        detail = f"{name}: {found} {count}, {entry[count]} in the manifest"
        require(found == entry[count], "MAN-05", detail)
    if entry["state"] is not None:
        check_state(folder, entry)
    return segment


def check_state(folder, entry):
    """State files say which rows are retired. That follows from the rows: a row is tombstoned when
    a tombstone names it, and superseded when an item does. So the file is checked, and not used."""
    state = entry["state"]
    name = f"state-{entry['number']:020}-{state['generation']:020}"
    data = map_file(folder, name)
    require(len(data) == state["bytes"], "MAN-03", f"{name}: {len(data)} bytes")
    Checks.sha256(state["sha256"], "MAN-03", f"{name}: its SHA-256 is another", data)
    require(len(data) >= 64 and data[:8] == b"RCLDSTA\0", "STA-01", f"{name}: no header")
    body_crc, header_crc = struct.unpack_from("<2I", data, 56)
    Checks.crc(header_crc, "STA-01", f"{name}: header_crc is wrong", data[:60])
    version, _, items, segment, generation, edges = struct.unpack_from("<HHIQQI", data, 8)
    check_version(name, version, "STA-01")
    Checks.crc(body_crc, "STA-01", f"{name}: body_crc is wrong", data[64:])
    found = (items, segment, generation, edges)
    wanted = (entry["items"], entry["number"], state["generation"], entry["edges"])
    require(found == wanted, "STA-01", f"{name}: it belongs to another segment")
    words = 2 * -(-items // 64) + -(-edges // 64)
    require(len(data) == 64 + words * 8, "STA-01", f"{name}: {len(data)} bytes")
    require(not any(data[36:56]), "STA-01", f"{name}: a reserved byte is not zero")


# --- Logs (log.md) -------------------------------------------------------------------------------

FRAME_BYTES_MAX = 64 << 20
HEAD = struct.Struct("<IIQQII")  # payload_bytes, crc, seq, synced_bytes, records, head_crc


class Log:
    """A write-ahead log, read to the last whole frame."""

    def __init__(self, name, data, store, number, next_seq):
        self.name, self.data, self.store, self.number = name, data, store, number
        self.next_seq, self.records = next_seq, []
        self._check_header()
        self._read_frames()

    def _check_header(self):
        data, name = self.data, self.name
        require(data[:8] == b"RCLDLOG\0", "LOG-01", f"{name}: the magic is missing")
        (crc,) = struct.unpack_from("<I", data, 60)
        Checks.crc(crc, "LOG-01", f"{name}: the header's crc is wrong", data[:60])
        (self.version,) = struct.unpack_from("<H", data, 8)
        check_version(name, self.version, "LOG-01")
        number, first_seq = struct.unpack_from("<QQ", data, 32)
        ours = data[16:32] == self.store and number == self.number
        require(ours, "LOG-01", f"{name}: it belongs to another store or place")
        reserved = any(data[12:16]) or any(data[48:60])
        require(not reserved, "LOG-01", f"{name}: a reserved byte is not zero")
        starts = f"{name}: starts at commit {first_seq}, {self.next_seq} is due"
        require(first_seq == self.next_seq, "LOG-03", starts)

    def _place(self, at):
        """What a checksum starts from, so that bytes of a frame elsewhere are no frame."""
        if self.version == 1:
            return b""
        return self.store + struct.pack("<QQ", self.number, at)

    def _head(self, at):
        """The head at an offset, or None."""
        if at + HEAD.size > len(self.data):
            return None
        head = HEAD.unpack_from(self.data, at)
        if self.version == 1:
            return head if head[5] == 0 else None
        right = crc32c(self._place(at), self.data[at : at + 28]) == head[5]
        return head if right else None

    def _frame(self, at):
        """The head and payload of the whole frame at an offset, or None (LOG-04)."""
        head = self._head(at)
        if head is None or head[0] > FRAME_BYTES_MAX:
            return None
        start = at + HEAD.size
        payload = self.data[start : start + head[0]]
        covered = self.data[at + 8 : start if self.version == 1 else at + 28]
        whole = len(payload) == head[0] and crc32c(self._place(at), covered, payload) == head[1]
        return (head, payload) if whole else None

    def _read_frames(self):
        at = 64
        while True:
            frame = self._frame(at)
            if frame is None:
                return self._check_torn(at)
            (_, _, seq, synced, records, _), payload = frame
            where = f"{self.name}: byte {at}"
            if self.version >= 2:
                require(synced <= at, "LOG-06", f"{where}: {synced} bytes on disk")
                if records == 0 and not payload:
                    return self._check_mark(at, seq)
            due = f"{where}: commit {seq} where {self.next_seq} was due"
            require(seq == self.next_seq, "LOG-02", due)
            self.records += read_payload(payload, records, where, self.version)
            self.next_seq += 1
            at += HEAD.size + len(payload)

    def _check_mark(self, at, seq):
        """A mark says that the log was closed in good order."""
        where = f"{self.name}: byte {at}"
        require(seq == self.next_seq - 1, "LOG-07", f"{where}: a mark of commit {seq}")
        rest = bytes(self.data[at + HEAD.size :])
        require(not rest.strip(b"\0"), "LOG-07", f"{where}: something follows the mark")

    def _check_torn(self, torn_at):
        """Tells writes that were never acknowledged from damage (log.md, Torn writes)."""
        if not bytes(self.data[torn_at:]).strip(b"\0"):
            return
        start = torn_at + 1
        if self.version >= 2:
            head = self._head(torn_at)
            if head is not None:
                start = torn_at + HEAD.size + head[0]
        for at in range(start, len(self.data) - HEAD.size + 1):
            seq, synced = struct.unpack_from("<QQ", self.data, at + 8)
            if seq < self.next_seq or not torn_at < synced <= at:
                continue  # nearly every offset ends here, without a checksum
            found = self._frame(at) if self.version == 1 else self._head(at)
            detail = f"{self.name}: byte {torn_at} was on disk when commit {seq} was written"
            require(found is None, "LOG-04", f"{detail}, and is wrong now")


class Cursor:
    """Reads one field of a record after another; what is not there breaks LOG-05."""

    def __init__(self, data, where):
        self.data, self.at, self.where = data, 0, where

    def take(self, size):
        end = self.at + size
        require(end <= len(self.data), "LOG-05", f"{self.where}: a record ends early")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def time(self):
        return int.from_bytes(self.take(8), "little", signed=True)

    def bytes(self):
        return self.take(self.number(4))

    def text(self):
        return text_of(self.bytes(), "LOG-05", self.where)

    def list(self, member, size_min):
        count = self.number(4)
        fits = count * size_min <= len(self.data) - self.at
        require(fits, "LOG-05", f"{self.where}: a list of {count} members")
        return [member() for _ in range(count)]

    def end(self):
        require(self.at == len(self.data), "LOG-05", f"{self.where}: something follows a record")


def read_payload(payload, records, where, version):
    """The rows of one frame, in the order of TYPES."""
    cursor, rows = Cursor(payload, where), []
    for _ in range(records):
        kind = cursor.number(1)
        require(1 <= kind <= 4, "LOG-05", f"{where}: no record is of kind {kind}")
        body = Cursor(cursor.bytes(), where)
        rows.append((read_source, read_item, read_edge, read_tombstone)[kind - 1](body, version))
        body.end()
    cursor.end()
    return sorted(rows, key=lambda row: TYPES.index(type(row)))


def read_source(body, _version):
    return Source(
        id=body.number(16),
        kind=body.text(),
        uri=body.text(),
        title=body.text(),
        sha256=bytes(body.take(32)),
        bytes=body.number(8),
        recorded_at=body.time(),
        recorded_by=body.text(),
        via=body.text(),
    )


def read_item(body, _version):
    item = Item(
        id=body.number(16),
        searchable=flags_of(body.number(1), "LOG-05", body.where),
        sensitivity=body.number(1),
        kind=body.text(),
        modality=body.text(),
        title=body.text(),
        text=body.text(),
        attributes=body.text(),
        ref=body.text(),
        tags=body.list(body.text, 4),
        gates=body.list(body.text, 4),
        supersedes=body.list(lambda: body.number(16), 16),
        source=body.number(16),
        span=struct.unpack("<2Q2I", body.take(24)),
        recorded_at=body.time(),
        recorded_by=body.text(),
        via=body.text(),
        valid_from=body.time(),
        valid_to=body.time(),
        sha256=b"",
    )
    body.take(body.number(4) * 2)  # the embedding
    known = item.sensitivity < 4
    require(known, "LOG-05", f"{body.where}: sensitivity {item.sensitivity}")
    return item._replace(sha256=hashlib.sha256(item.text.encode("utf-8")).digest())


def read_edge(body, _version):
    return Edge(
        id=body.number(16),
        start=body.number(16),
        end=body.number(16),
        relation=body.text(),
        weight=bytes(body.take(4)),
        source=body.number(16),
        recorded_at=body.time(),
        recorded_by=body.text(),
        valid_from=body.time(),
        valid_to=body.time(),
        note=body.text(),
    )


def read_tombstone(body, version):
    stone = Tombstone(
        target=body.number(16),
        at=body.time(),
        by=body.text(),
        reason=body.text(),
        erase=False,
        supersedes=[],
    )
    if version == 1:
        return stone
    erase = flags_of(body.number(1), "LOG-05", body.where, TOMBSTONE_FLAGS)
    return stone._replace(erase=erase, supersedes=body.list(lambda: body.number(16), 16))


def open_logs(folder, manifest):
    """Logs from the floor on, each read to its last whole frame."""
    next_seq, logs = manifest["last_seq"] + 1, []
    there = [number for number in numbered(folder, "log") if number >= manifest["log_floor"]]
    named = manifest.get("logs", []) if manifest["read_version"] >= 2 else []
    for number in sorted(set(there) | set(named)):
        name = f"log-{number:020}"
        data = map_file(folder, name)
        if len(data) <= 64 and number not in named:
            continue  # an empty log, whatever it holds (LOG-01)
        require(len(data) >= 64, "MAN-03", f"{name}: {len(data)} bytes, its header has 64")
        log = Log(name, data, manifest["store"], number, next_seq)
        next_seq = log.next_seq
        logs.append(log)
    return logs


# --- Lines (export.md) ---------------------------------------------------------------------------

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
SENSITIVITIES = ("public", "internal", "confidential", "restricted")
PREFIXES = {
    "document": "doc_",
    "chunk": "chk_",
    "artifact": "art_",
    "task_attempt": "tsk_",
    "followup": "fup_",
    "job": "job_",
}


def id_text(prefix, number):
    """EXP-03."""
    return prefix + "".join(DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def string(text):
    """EXP-02, which is what Python does when it keeps to characters as they are."""
    return json.dumps(text, ensure_ascii=False)


def time_text(micros):
    """EXP-04."""
    try:
        time = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:  # Python's years are those of the rule
        return str(micros)
    return f'"{time.isoformat(timespec="microseconds")}Z"'


@lru_cache(maxsize=4096)
def float_text(data):
    """EXP-05: the shortest decimal within half a step of the number, and of those the nearest."""
    (bits,) = struct.unpack("<I", data)
    sign, bits = ("-" if bits >> 31 else ""), bits & 0x7FFFFFFF
    if bits >= 0x7F800000:
        return "null"  # not finite: no writer stores it
    if bits == 0:
        return sign + "0"
    below, exact, above = (exact_float(bits + step) for step in (-1, 0, 1))
    low, high = (below + exact) / 2, (exact + above) / 2

    def reads_back(candidate):
        on_the_edge = candidate in (low, high) and bits % 2 == 0  # ties go to the even one
        return low < candidate < high or on_the_edge

    step = Fraction(10) ** 39
    while True:  # ends: a step far below the distance of neighbours hits the number's interval
        whole = exact // step
        near = [step * whole, step * (whole + 1)]
        near = [candidate for candidate in near if candidate and reads_back(candidate)]
        if near:
            return sign + decimal_text(min(near, key=lambda candidate: abs(candidate - exact)))
        step /= 10


def exact_float(bits):
    """The number that these bits of a positive f32 stand for; one past the largest is 2^128."""
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    if exponent == 0:
        return Fraction(fraction) / 2**149
    return Fraction(fraction | 0x800000) * Fraction(2) ** (exponent - 150)


def decimal_text(number):
    """A fraction that has a finite decimal, without an exponent."""
    digits = 0
    while number.denominator != 1:
        number, digits = number * 10, digits + 1
    text = str(number.numerator).rjust(digits + 1, "0")
    return text[:-digits] + "." + text[-digits:] if digits else text


def line_of(pairs):
    """EXP-01: keys in order, those with nothing to say left out."""
    said = (f"{string(key)}:{value}" for key, value in pairs if value is not None)
    return "{" + ",".join(said) + "}"


def some(value, show=string):
    return show(value) if value else None


def some_time(micros):
    return None if micros == NO_TIME else time_text(micros)


def some_list(values):
    return "[" + ",".join(map(string, values)) + "]" if values else None


class Store:
    """A store's rows, and what lines say about rows that others name."""

    def __init__(self, folder):
        manifest = read_manifest(folder)
        self.segments = [open_segment(folder, entry) for entry in manifest["segments"]]
        self.logs = open_logs(folder, manifest)
        self.prefixes, self.sources = {}, {}
        self.hidden_items, self.hidden_edges = set(), set()
        self.items, self.gone = set(), {}
        self._look_through()

    def records(self):
        for segment in self.segments:
            yield from segment.records()
        for log in self.logs:
            yield from log.records

    def _look_through(self):
        """Kinds of items, names of sources, and what tombstones hide."""
        items, edges, stones = set(), set(), {}
        for record in self.records():
            if isinstance(record, Source):
                self.sources[record.id] = record
            elif isinstance(record, Item):
                items.add(record.id)
                if record.kind in PREFIXES:
                    self.prefixes[record.id] = PREFIXES[record.kind]
            elif isinstance(record, Edge):
                edges.add(record.id)
            else:
                stones.setdefault(record.target, []).append(record)
        targets = set(stones)
        self.hidden_items = targets & items
        self.hidden_edges = targets & edges - items
        there = items | edges
        self.gone = {target: stones[target] for target in stones if target not in there}
        self.items = items

    def _ordered(self):
        """All rows in the order of lines: tombstones of what is gone stand where EXP-09 says."""
        targets, waits, waiting, ready = list(self.gone), [], {}, []
        for at, target in enumerate(targets):
            named = {old for stone in self.gone[target] for old in stone.supersedes}
            waits.append({old for old in named if old in self.gone or old in self.items})
            for old in waits[at]:
                waiting.setdefault(old, []).append(at)
            if not waits[at]:
                ready.append(at)  # ascending, so it is a heap

        def note(given):
            for at in waiting.get(given, []):
                waits[at].discard(given)
                if not waits[at]:
                    heapq.heappush(ready, at)

        def due():
            while ready:
                target = targets[heapq.heappop(ready)]
                yield from self.gone[target]
                note(target)

        yield from due()
        for record in self.records():
            if isinstance(record, Tombstone) and record.target in self.gone:
                continue
            yield record
            if isinstance(record, Item):
                note(record.id)
                yield from due()
        for at, target in enumerate(targets):
            if waits[at]:  # a damaged circle
                yield from self.gone[target]

    def lines(self):
        show = {
            Source: self._source,
            Item: self._item,
            Edge: self._edge,
            Tombstone: self._tombstone,
        }
        for record in self._ordered():
            yield line_of(show[type(record)](record))

    def _item_name(self, number):
        return id_text(self.prefixes.get(number, "itm_"), number)

    def _item_names(self, numbers):
        return some_list([self._item_name(number) for number in numbers])

    def _source_name(self, number):
        """EXP-08."""
        if number == 0:
            return None
        pairs = [("id", string(id_text("src_", number)))]
        source = self.sources.get(number)
        if source:
            pairs += [("kind", string(source.kind)), ("uri", string(source.uri))]
            pairs += [("title", some(source.title))]
        return line_of(pairs)

    def _source(self, source):
        return (
            ("type", '"source"'),
            ("id", string(id_text("src_", source.id))),
            ("kind", string(source.kind)),
            ("uri", string(source.uri)),
            ("title", some(source.title)),
            ("content_sha256", string(source.sha256.hex())),
            ("bytes", str(source.bytes)),
            ("recorded_at", time_text(source.recorded_at)),
            ("recorded_by", some(source.recorded_by)),
            ("via", some(source.via)),
        )

    def _item(self, item):
        breaks = "\n" in item.attributes or "\r" in item.attributes  # EXP-07
        span = zip(("byte_start", "byte_end", "line_start", "line_end"), map(str, item.span))
        return (
            ("type", '"item"'),
            ("id", string(self._item_name(item.id))),
            ("ref", some(item.ref)),
            ("kind", string(item.kind)),
            ("modality", string(item.modality)),
            ("title", some(item.title)),
            ("text", string(item.text)),
            ("content_sha256", string(item.sha256.hex())),
            ("tags", some_list(item.tags)),
            ("attributes", None if breaks else item.attributes or None),
            ("attributes_text", string(item.attributes) if breaks else None),
            ("source", self._source_name(item.source)),
            ("span", line_of(span) if any(item.span) else None),
            ("recorded_at", time_text(item.recorded_at)),
            ("recorded_by", some(item.recorded_by)),
            ("via", some(item.via)),
            ("valid_from", some_time(item.valid_from)),
            ("valid_to", some_time(item.valid_to)),
            ("sensitivity", string(SENSITIVITIES[item.sensitivity])),
            ("gates", some_list(item.gates)),
            ("searchable", None if item.searchable else "false"),
            ("supersedes", self._item_names(item.supersedes)),
            ("tombstoned", "true" if item.id in self.hidden_items else None),
        )

    def _edge(self, edge):
        return (
            ("type", '"edge"'),
            ("id", string(id_text("edg_", edge.id))),
            ("from", string(self._item_name(edge.start))),
            ("to", string(self._item_name(edge.end))),
            ("relation", string(edge.relation)),
            ("weight", float_text(edge.weight)),
            ("source", self._source_name(edge.source)),
            ("recorded_at", time_text(edge.recorded_at)),
            ("recorded_by", some(edge.recorded_by)),
            ("valid_from", some_time(edge.valid_from)),
            ("valid_to", some_time(edge.valid_to)),
            ("note", some(edge.note)),
            ("tombstoned", "true" if edge.id in self.hidden_edges else None),
        )

    def _tombstone(self, stone):
        is_edge = stone.target in self.hidden_edges
        name = id_text("edg_", stone.target) if is_edge else self._item_name(stone.target)
        return (
            ("type", '"tombstone"'),
            ("target", string(name)),
            ("at", time_text(stone.at)),
            ("by", some(stone.by)),
            ("reason", some(stone.reason)),
            ("erase", "true" if stone.erase else None),
            ("gone", "true" if stone.target in self.gone else None),
            ("supersedes", self._item_names(stone.supersedes)),
        )


def main(arguments):
    if "--ledger" in arguments:
        arguments.remove("--ledger")
        return ledger.main(arguments)
    if "--no-checksums" in arguments:
        arguments.remove("--no-checksums")
        Checks.enabled = False
    workspace = None
    if "--workspace" in arguments[:-1]:
        at = arguments.index("--workspace")
        workspace = arguments[at + 1]
        del arguments[at : at + 2]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        folder = part_of(arguments[0], "store", workspace)
        is_named = workspace is None or folder != arguments[0]
        require(is_named, "--workspace", f"{folder} is no data directory, and a store does not name its workspace")
        for line in Store(folder).lines():
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # seen enough, as `head` has
    except Damage as damage:
        print(f"reader.py: {damage}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"reader.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
