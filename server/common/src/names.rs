//! Wire formats of ids with type prefixes, times and hashes.

use engine::{EdgeId, ItemId, ItemView, Micros, ParseIdError, SourceId};

/// Prefix of a source id.
const SOURCE: &str = "src_";
/// Prefix of an edge id.
const EDGE: &str = "edg_";
/// Prefixes of item ids by kind; every other kind has `itm_`.
const ITEM_PREFIXES: [(&str, &str); 6] = [
    ("document", "doc_"),
    ("chunk", "chk_"),
    ("artifact", "art_"),
    ("task_attempt", "tsk_"),
    ("followup", "fup_"),
    ("job", "job_"),
];
const ITEM: &str = "itm_";

fn prefix(kind: &str) -> &'static str {
    ITEM_PREFIXES.iter().find(|(of, _)| *of == kind).map_or(ITEM, |(_, prefix)| prefix)
}

/// Formats the id of an item of a kind.
pub fn item(kind: &str, id: ItemId) -> String {
    format!("{}{id}", prefix(kind))
}

/// Formats the id of an item.
pub fn of_item(item_view: &ItemView<'_>) -> String {
    item(item_view.kind, item_view.id)
}

/// Parses an item id of any kind.
pub fn parse_item(text: &str) -> Result<ItemId, ParseIdError> {
    let prefixes = ITEM_PREFIXES.iter().map(|(_, prefix)| *prefix).chain([ITEM]);
    let bare = prefixes.into_iter().find_map(|prefix| text.strip_prefix(prefix));
    bare.ok_or(ParseIdError)?.parse()
}

/// Formats a source id.
pub fn source(id: SourceId) -> String {
    format!("{SOURCE}{id}")
}

/// Parses a source id.
pub fn parse_source(text: &str) -> Result<SourceId, ParseIdError> {
    text.strip_prefix(SOURCE).ok_or(ParseIdError)?.parse()
}

/// Formats an edge id.
pub fn edge(id: EdgeId) -> String {
    format!("{EDGE}{id}")
}

/// Parses an edge id.
pub fn parse_edge(text: &str) -> Result<EdgeId, ParseIdError> {
    text.strip_prefix(EDGE).ok_or(ParseIdError)?.parse()
}

/// Formats a time as RFC 3339 in UTC with microseconds.
pub fn time(at: Micros) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{} us since 1970", at.0),
    }
}

/// Parses a time in RFC 3339 with an offset.
pub fn parse_time(text: &str) -> Result<Micros, String> {
    text.parse::<jiff::Timestamp>()
        .map(|time| Micros(time.as_microsecond()))
        .map_err(|error| format!("not a time in RFC 3339, such as 2026-01-31T09:00:00Z: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_leads_back_to_the_id() {
        let id = ItemId(12345);
        for kind in ["note", "document", "chunk", "artifact", "task_attempt", "followup"] {
            assert_eq!(parse_item(&item(kind, id)), Ok(id), "{kind}");
        }
        assert!(item("document", id).starts_with("doc_"));
        assert_eq!(parse_item(&source(SourceId(1))), Err(ParseIdError));
        assert_eq!(parse_item(&id.to_string()), Err(ParseIdError));
    }

    #[test]
    fn times_go_there_and_back() {
        let at = Micros(1_769_850_000_123_456);
        assert_eq!(time(at), "2026-01-31T09:00:00.123456Z");
        assert_eq!(parse_time(&time(at)), Ok(at));
        assert!(parse_time("yesterday").unwrap_err().contains("RFC 3339"));
    }
}
