//! Codec of the records in the write-ahead log (`format-spec/log.md`, tables of records).
//!
//! A record is a draft with all ids and times filled in, so replay yields exactly the acknowledged rows.

use half::f16;

use crate::byte_reader::{ByteReader, ByteWriter};
use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::{Batch, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft};
use crate::layout::{FLAG_ERASE, FLAG_TARGET_ERASED, NO_TIME};
use crate::os::clock::Micros;

const RULE: &str = "LOG-05";
const SOURCE: u8 = 1;
const ITEM: u8 = 2;
const EDGE: u8 = 3;
const TOMBSTONE: u8 = 4;
const FLAG_SEARCHABLE: u8 = 1;

/// Encodes a batch as the payload of one frame.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut body = Vec::new();
    let mut put = |kind: u8, body: &mut Vec<u8>| {
        out.push(kind);
        out.put_length_prefixed(body);
        body.clear();
    };
    for source in &batch.sources {
        encode_source(source, &mut body);
        put(SOURCE, &mut body);
    }
    for item in &batch.items {
        encode_item(item, &mut body);
        put(ITEM, &mut body);
    }
    for edge in &batch.edges {
        encode_edge(edge, &mut body);
        put(EDGE, &mut body);
    }
    for stone in &batch.tombstones {
        encode_tombstone(stone, &mut body);
        put(TOMBSTONE, &mut body);
    }
    out
}

/// Decodes a payload of [`encode`], of this or an earlier `version` of the log.
pub(crate) fn decode(payload: &[u8], records: u32, version: u16) -> Result<Batch, CorruptionError> {
    let mut batch = Batch::default();
    let mut cursor = ByteReader::new(payload, RULE);
    for _ in 0..records {
        let kind = cursor.u8()?;
        let mut body = ByteReader::new(cursor.read_prefixed()?, RULE);
        match kind {
            SOURCE => batch.sources.push(decode_source(&mut body)?),
            ITEM => batch.items.push(decode_item(&mut body)?),
            EDGE => batch.edges.push(decode_edge(&mut body)?),
            TOMBSTONE => batch.tombstones.push(decode_tombstone(&mut body, version)?),
            other => return Err(cursor.damage(format!("no record is of kind {other}"))),
        }
        body.expect_end()?;
    }
    cursor.expect_end()?;
    Ok(batch)
}

/// A record always has its time of writing, which was filled in before the encoding; only other times can be absent.
fn encode_time(at: Option<Micros>) -> [u8; 8] {
    at.map_or(NO_TIME, |at| at.0).to_le_bytes()
}

fn decode_time(cursor: &mut ByteReader<'_>) -> Result<Option<Micros>, CorruptionError> {
    let at = cursor.i64()?;
    Ok((at != NO_TIME).then_some(Micros(at)))
}

fn encode_list(texts: &[String], out: &mut Vec<u8>) {
    encode_count(texts.len(), out);
    texts.iter().for_each(|text| out.put_length_prefixed(text.as_bytes()));
}

fn decode_list(cursor: &mut ByteReader<'_>) -> Result<Vec<String>, CorruptionError> {
    let count = cursor.read_count(4)?;
    (0..count).map(|_| cursor.read_text().map(str::to_owned)).collect()
}

fn encode_count(members: usize, out: &mut Vec<u8>) {
    out.put(&u32::try_from(members).expect("lists are bounded by limits.md").to_le_bytes());
}

fn encode_ids(ids: &[ItemId], out: &mut Vec<u8>) {
    encode_count(ids.len(), out);
    ids.iter().for_each(|id| out.put(&id.0.to_le_bytes()));
}

fn decode_ids(cursor: &mut ByteReader<'_>) -> Result<Vec<ItemId>, CorruptionError> {
    let count = cursor.read_count(16)?;
    (0..count).map(|_| cursor.u128().map(ItemId)).collect()
}

fn decode_text(cursor: &mut ByteReader<'_>) -> Result<String, CorruptionError> {
    cursor.read_text().map(str::to_owned)
}

fn decode_source_id(cursor: &mut ByteReader<'_>) -> Result<Option<SourceId>, CorruptionError> {
    let number = cursor.u128()?;
    Ok((number != 0).then_some(SourceId(number)))
}

fn encode_source(source: &SourceDraft, out: &mut Vec<u8>) {
    out.put(&source.id.map_or(0, |id| id.0).to_le_bytes());
    out.put_length_prefixed(source.kind.as_bytes());
    out.put_length_prefixed(source.uri.as_bytes());
    out.put_length_prefixed(source.title.as_bytes());
    out.put(&source.content_sha256);
    out.put(&source.bytes.to_le_bytes());
    out.put(&encode_time(source.recorded_at));
    out.put_length_prefixed(source.recorded_by.as_bytes());
    out.put_length_prefixed(source.via.as_bytes());
}

fn decode_source(cursor: &mut ByteReader<'_>) -> Result<SourceDraft, CorruptionError> {
    Ok(SourceDraft {
        id: decode_source_id(cursor)?,
        kind: decode_text(cursor)?,
        uri: decode_text(cursor)?,
        title: decode_text(cursor)?,
        content_sha256: cursor.array()?,
        bytes: cursor.u64()?,
        recorded_at: decode_time(cursor)?,
        recorded_by: decode_text(cursor)?,
        via: decode_text(cursor)?,
    })
}

fn encode_item(item: &ItemDraft, out: &mut Vec<u8>) {
    out.put(&item.id.map_or(0, |id| id.0).to_le_bytes());
    out.push(if item.searchable { FLAG_SEARCHABLE } else { 0 });
    out.push(item.sensitivity as u8);
    let reference = item.reference.as_deref().unwrap_or_default();
    for text in [&item.kind, &item.modality, &item.title, &item.text, &item.attributes] {
        out.put_length_prefixed(text.as_bytes());
    }
    out.put_length_prefixed(reference.as_bytes());
    encode_list(&item.tags, out);
    encode_list(&item.gates, out);
    encode_ids(&item.supersedes, out);
    out.put(&item.source.map_or(0, |id| id.0).to_le_bytes());
    let span = item.span.unwrap_or_default();
    out.put(&span.byte_start.to_le_bytes());
    out.put(&span.byte_end.to_le_bytes());
    out.put(&span.line_start.to_le_bytes());
    out.put(&span.line_end.to_le_bytes());
    out.put(&encode_time(item.recorded_at));
    out.put_length_prefixed(item.recorded_by.as_bytes());
    out.put_length_prefixed(item.via.as_bytes());
    out.put(&encode_time(item.valid_from));
    out.put(&encode_time(item.valid_to));
    encode_count(item.embedding.len(), out);
    item.embedding.iter().for_each(|half| out.put(&half.to_le_bytes()));
}

fn decode_item(cursor: &mut ByteReader<'_>) -> Result<ItemDraft, CorruptionError> {
    let id = ItemId(cursor.u128()?);
    let flags = cursor.u8()?;
    if flags & !FLAG_SEARCHABLE != 0 {
        return Err(cursor.damage(format!("unknown item flags {flags:#x}")));
    }
    let code = cursor.u8()?;
    let sensitivity = Sensitivity::from_code(code)
        .ok_or_else(|| cursor.damage(format!("no sensitivity has code {code}")))?;
    let (kind, modality) = (decode_text(cursor)?, decode_text(cursor)?);
    let (title, text, attributes) =
        (decode_text(cursor)?, decode_text(cursor)?, decode_text(cursor)?);
    let reference = decode_text(cursor)?;
    let (tags, gates) = (decode_list(cursor)?, decode_list(cursor)?);
    let supersedes = decode_ids(cursor)?;
    let source = decode_source_id(cursor)?;
    let span = Span {
        byte_start: cursor.u64()?,
        byte_end: cursor.u64()?,
        line_start: cursor.u32()?,
        line_end: cursor.u32()?,
    };
    let recorded_at = decode_time(cursor)?;
    let (recorded_by, via) = (decode_text(cursor)?, decode_text(cursor)?);
    let (valid_from, valid_to) = (decode_time(cursor)?, decode_time(cursor)?);
    let halves = cursor.read_count(2)?;
    let embedding =
        (0..halves).map(|_| cursor.array().map(f16::from_le_bytes)).collect::<Result<_, _>>()?;
    Ok(ItemDraft {
        id: Some(id),
        reference: (!reference.is_empty()).then_some(reference),
        kind,
        modality,
        title,
        text,
        attributes,
        tags,
        gates,
        supersedes,
        source,
        span: (span != Span::default()).then_some(span),
        recorded_at,
        recorded_by,
        via,
        valid_from,
        valid_to,
        sensitivity,
        searchable: flags & FLAG_SEARCHABLE != 0,
        embedding,
    })
}

fn encode_edge(edge: &EdgeDraft, out: &mut Vec<u8>) {
    out.put(&edge.id.map_or(0, |id| id.0).to_le_bytes());
    out.put(&edge.from.0.to_le_bytes());
    out.put(&edge.to.0.to_le_bytes());
    out.put_length_prefixed(edge.relation.as_bytes());
    out.put(&edge.weight.to_le_bytes());
    out.put(&edge.source.map_or(0, |id| id.0).to_le_bytes());
    out.put(&encode_time(edge.recorded_at));
    out.put_length_prefixed(edge.recorded_by.as_bytes());
    out.put(&encode_time(edge.valid_from));
    out.put(&encode_time(edge.valid_to));
    out.put_length_prefixed(edge.note.as_bytes());
}

fn decode_edge(cursor: &mut ByteReader<'_>) -> Result<EdgeDraft, CorruptionError> {
    Ok(EdgeDraft {
        id: Some(EdgeId(cursor.u128()?)),
        from: ItemId(cursor.u128()?),
        to: ItemId(cursor.u128()?),
        relation: decode_text(cursor)?,
        weight: cursor.f32()?,
        source: decode_source_id(cursor)?,
        recorded_at: decode_time(cursor)?,
        recorded_by: decode_text(cursor)?,
        valid_from: decode_time(cursor)?,
        valid_to: decode_time(cursor)?,
        note: decode_text(cursor)?,
    })
}

fn encode_tombstone(stone: &TombstoneDraft, out: &mut Vec<u8>) {
    out.put(&stone.target.to_le_bytes());
    out.put(&encode_time(stone.at));
    out.put_length_prefixed(stone.by.as_bytes());
    out.put_length_prefixed(stone.reason.as_bytes());
    out.push(stone.flags());
    encode_ids(&stone.supersedes, out);
}

fn decode_tombstone(
    cursor: &mut ByteReader<'_>,
    version: u16,
) -> Result<TombstoneDraft, CorruptionError> {
    let (target, at) = (cursor.u128()?, decode_time(cursor)?);
    let (by, reason) = (decode_text(cursor)?, decode_text(cursor)?);
    let (flags, supersedes) =
        if version == 1 { (0, Vec::new()) } else { (cursor.u8()?, decode_ids(cursor)?) };
    if flags & !(FLAG_ERASE | FLAG_TARGET_ERASED) != 0 {
        return Err(cursor.damage(format!("a tombstone's flags are {flags:#x}")));
    }
    let (erase, gone) = (flags & FLAG_ERASE != 0, flags & FLAG_TARGET_ERASED != 0);
    Ok(TombstoneDraft { target, at, by, reason, erase, target_erased: gone, supersedes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECORD_BYTES_MIN;

    fn tombstones() -> Batch {
        let stone = |erase, gone, supersedes: &[u128]| TombstoneDraft {
            target: 7,
            at: Some(Micros(5)),
            by: "ada".to_owned(),
            reason: "wrong".to_owned(),
            erase,
            target_erased: gone,
            supersedes: supersedes.iter().copied().map(ItemId).collect(),
        };
        let stones = vec![
            stone(false, false, &[]),
            stone(true, false, &[3, 5]),
            stone(false, true, &[]),
            stone(true, true, &[]),
        ];
        Batch { tombstones: stones, ..Batch::default() }
    }

    #[test]
    fn item_record_overhead_is_at_least_the_assumed_minimum() {
        let batch = Batch { items: vec![ItemDraft::default()], ..Batch::default() };
        assert!(encode(&batch).len() >= RECORD_BYTES_MIN);
    }

    #[test]
    fn tombstone_flags_and_supersedes_lists_roundtrip() {
        let payload = encode(&tombstones());
        assert_eq!(decode(&payload, 4, 2).unwrap(), tombstones());
        let flags = payload.len() - 5; // before the count of an empty list
        for bit in 2..8 {
            let mut unknown = payload.clone();
            unknown[flags] |= 1 << bit;
            assert_eq!(decode(&unknown, 4, 2).unwrap_err().rule, RULE, "bit {bit}");
        }
        let mut long = payload.clone();
        *long.last_mut().unwrap() = 1;
        assert_eq!(decode(&long, 4, 2).unwrap_err().rule, RULE, "a list that is not there");
    }

    #[test]
    fn version_1_tombstones_decode_without_flags_and_list() {
        let plain = Batch { tombstones: tombstones().tombstones[..1].to_vec(), ..Batch::default() };
        let payload = encode(&plain);
        let record = payload.len();
        let mut first = payload[..record - 5].to_vec();
        first[1] -= 5; // the length of its body
        let batch = decode(&first, 1, 1).unwrap();
        assert_eq!(batch.tombstones, tombstones().tombstones[..1]);
        decode(&first, 1, 2).unwrap_err();
        decode(&payload[..record], 1, 1).unwrap_err();
    }
}
