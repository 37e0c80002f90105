//! Paging: the size limits of a page, and the cursor of the next page.
//!
//! Owns the cursor's form (format-spec/records.md, Cursors) and the bounds of a page. Each list defines its rows, their
//! order, and the position that the cursor encodes.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use engine::hex;
use engine::ledger::TouchedItem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::args::{Argument, Shown, Text};
use super::results::without_nulls;
use crate::error::ServiceError;
use recalld_audit::hash_call;
use recalld_recall::Room;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum rows of a page.
    pub const ROWS_MAX: usize = 20;
    /// Maximum bytes of a page's rows as JSON.
    pub const PAGE_BYTES_MAX: usize = 60 << 10;
    /// Maximum characters of a cursor (CUR-02).
    const CURSOR_CHARS_MAX: usize = 512;
}

const FORM: u64 = 1;
/// Hex digits of the hash over tool and arguments.
const HASH_DIGITS: usize = 16;

/// Opaque position at which a list continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

impl Argument for Cursor {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        Text::<1, CURSOR_CHARS_MAX>::read(value).map(|text| Self(text.0))
    }
}

impl Shown for Cursor {
    fn shown(&self) -> Option<Value> {
        None
    }
}

/// Paging state of one call of a list tool.
pub struct Paging {
    call: String,
    after: Option<Value>,
    rows_max: usize,
}

impl Paging {
    /// Builds the state for a call with arguments `raw`; `cursor` is the parsed argument `cursor` of `raw`.
    pub fn of(
        tool: &'static str,
        raw: &Map<String, Value>,
        cursor: Option<&Cursor>,
    ) -> Result<Self, ServiceError> {
        let mut asked = raw.clone();
        // A null argument is equivalent to an omitted argument.
        asked.retain(|name, value| name != "cursor" && !value.is_null());
        let call = hex(&hash_call(tool, &asked))[..HASH_DIGITS].to_owned();
        let after = cursor.map(|cursor| opened(&cursor.0, &call)).transpose()?;
        Ok(Self { call, after, rows_max: ROWS_MAX })
    }

    /// Sets the maximum rows of a page.
    pub fn with_rows(self, rows_max: usize) -> Self {
        Self { rows_max, ..self }
    }

    /// Position of the last row of the previous page; `None` on the first page.
    pub fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, ServiceError> {
        let Some(after) = &self.after else { return Ok(None) };
        serde_json::from_value(after.clone()).map(Some).map_err(|_| not_ours())
    }

    /// Fills a page with rows. Pulls at most one row more than the page returns; that row only shows that there are
    /// more.
    pub fn page<K: Serialize>(
        &self,
        rows: impl IntoIterator<Item = Result<Row<K>, ServiceError>>,
    ) -> Result<Page, ServiceError> {
        let mut room = Room::of(PAGE_BYTES_MAX);
        let mut page = Page { rows_max: self.rows_max, ..Page::default() };
        let mut last = None;
        for row in rows {
            let Row { place, shown, line, touched } = row?;
            // The first row is returned at any size; otherwise the list could not advance.
            let has_room =
                page.rows.len() < self.rows_max && (room.takes(&shown) || page.rows.is_empty());
            if !has_room {
                page.next_cursor = last.as_ref().map(|place| self.cursor(place));
                break;
            }
            last = Some(place);
            page.rows.push(shown);
            page.text.push_str(&line);
            page.touched.extend(touched);
        }
        Ok(page)
    }

    /// Encodes a position as a cursor.
    pub fn cursor<K: Serialize>(&self, place: &K) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(json!([FORM, self.call, place]).to_string())
    }
}

/// Error for a cursor that this tool did not issue for these arguments.
pub fn not_ours() -> ServiceError {
    let why = "is none that this tool gave for these arguments; leave it out to begin anew";
    ServiceError::argument("cursor", why)
}

fn opened(cursor: &str, call: &str) -> Result<Value, ServiceError> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| not_ours())?;
    let (version, of, place): (u64, String, Value) =
        serde_json::from_slice(&bytes).map_err(|_| not_ours())?;
    if version == FORM && of == call { Ok(place) } else { Err(not_ours()) }
}

/// A row of a list.
pub struct Row<K> {
    /// Position in the order of the list.
    place: K,
    shown: Value,
    /// The row as a line of text, with its line end.
    line: String,
    /// Effects on the items that the row describes.
    touched: Vec<TouchedItem>,
}

impl<K> Row<K> {
    /// Builds a row from its position, its JSON and its line of text.
    pub fn new(place: K, shown: Value, line: String) -> Self {
        Self { place, shown, line, touched: Vec::new() }
    }

    /// Adds effects on the items that the row describes.
    pub fn touching(mut self, touched: impl IntoIterator<Item = TouchedItem>) -> Self {
        self.touched.extend(touched);
        self
    }
}

/// The part of a list returned by a call.
#[derive(Debug, Default)]
pub struct Page {
    /// Rows in list order.
    pub rows: Vec<Value>,
    /// The rows as lines of text.
    text: String,
    /// Effects on the items that the rows describe.
    touched: Vec<TouchedItem>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    rows_max: usize,
    /// Bounds of the search behind the list, if they cut the list.
    searched_bounds: Option<Value>,
}

impl Page {
    /// Reports on the last page that the search behind the list was cut by `bounds`, if `is_cut` is true.
    pub fn cut_on_last(self, is_cut: bool, bounds: Value) -> Self {
        let is_cut = is_cut && self.next_cursor.is_none();
        Self { searched_bounds: is_cut.then_some(bounds), ..self }
    }

    /// Converts the page to `{NAME: rows, truncated, next_cursor?, bounds?}`. `none` is the text of an empty list.
    pub fn into_answer(mut self, name: &str, none: &str) -> Answer {
        let text = std::mem::take(&mut self.text);
        let text = if self.rows.is_empty() { none.to_owned() } else { text };
        let touched = std::mem::take(&mut self.touched);
        Answer { touched, ..Answer::plain(self.into_structured(name), text) }
    }

    fn into_structured(self, name: &str) -> Value {
        let page_bounds = json!({"rows": self.rows_max, "bytes": PAGE_BYTES_MAX});
        let bounds = self.next_cursor.as_ref().map(|_| page_bounds).or(self.searched_bounds);
        without_nulls(json!({
            name: self.rows, "truncated": bounds.is_some(), "next_cursor": self.next_cursor,
            "bounds": bounds,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paging(arguments: Value, cursor: Option<&str>) -> Result<Paging, ServiceError> {
        let raw = arguments.as_object().unwrap().clone();
        let cursor = cursor.map(|cursor| Cursor::read(&cursor.into()).unwrap());
        Paging::of("list_tool", &raw, cursor.as_ref())
    }

    /// All numbers below `end`, page by page, with `bytes` of padding per row.
    fn walk(end: u64, bytes: usize) -> Vec<Vec<u64>> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let paging = paging(json!({"kind": "a"}), cursor.as_deref()).unwrap();
            let from = paging.after::<u64>().unwrap().map_or(0, |last| last + 1);
            let row =
                |n: u64| Ok(Row::new(n, json!({"n": n, "x": "x".repeat(bytes)}), format!("{n}\n")));
            let page = paging.page((from..end).map(row)).unwrap();
            pages.push(page.rows.iter().map(|row| row["n"].as_u64().unwrap()).collect());
            assert!(pages.len() < 100, "it comes to an end");
            cursor = match page.next_cursor {
                Some(cursor) => Some(cursor),
                None => return pages,
            };
        }
    }

    #[test]
    fn a_list_comes_in_pages_that_lose_and_repeat_nothing() {
        for end in [0, 1, 19, 20, 21, 40, 41] {
            let pages = walk(end, 1);
            let sizes: Vec<usize> = pages.iter().map(Vec::len).collect();
            assert!(
                sizes[..sizes.len() - 1].iter().all(|&size| size == ROWS_MAX),
                "{end}: {sizes:?}"
            );
            assert_eq!(pages.concat(), (0..end).collect::<Vec<_>>());
        }
        let large = walk(5, PAGE_BYTES_MAX / 2);
        assert_eq!(large, [[0], [1], [2], [3], [4]], "each has a page to itself");
        assert_eq!(walk(3, PAGE_BYTES_MAX * 2), [[0], [1], [2]], "however long it is");
    }

    #[test]
    fn a_cursor_is_good_for_the_arguments_that_it_was_given_for() {
        let first = paging(json!({"kind": "a", "status": null}), None).unwrap();
        let cursor = first.cursor(&7_u64);
        let again = json!({"kind": "a", "cursor": cursor});
        assert_eq!(paging(again, Some(&cursor)).unwrap().after::<u64>().unwrap(), Some(7));
        let forged = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let calls = [
            (json!({"kind": "b"}), cursor.clone()),
            (json!({"kind": "a"}), cursor[1..].to_owned()),
            (json!({"kind": "a"}), "???".to_owned()),
            (json!({"kind": "a"}), forged("[1]")),
            (json!({"kind": "a"}), forged(&json!([2, first.call, 7]).to_string())),
        ];
        for (arguments, cursor) in calls {
            let error = paging(arguments, Some(&cursor)).err().expect(&cursor).to_string();
            assert!(error.starts_with("cursor: is none that this tool gave"), "{error}");
        }
        let other = Paging::of("other_tool", json!({"kind": "a"}).as_object().unwrap(), None);
        assert_ne!(other.unwrap().call, first.call);
        let page = paging(json!({"kind": "a"}), Some(&first.cursor(&json!({"n": 1})))).unwrap();
        assert!(page.after::<u64>().is_err(), "the place of another list");
        assert!(Cursor::read(&"x".repeat(CURSOR_CHARS_MAX + 1).into()).is_err());
    }

    #[test]
    fn an_answer_says_where_it_was_cut_and_by_what() {
        let paging = paging(json!({}), None).unwrap();
        let rows =
            |count: u64| (0..count).map(|n| Ok(Row::new(n, json!({"n": n}), format!("{n}\n"))));
        let whole = paging.page(rows(20)).unwrap().into_structured("things");
        assert_eq!(whole["truncated"], false);
        assert!(whole.get("next_cursor").is_none() && whole.get("bounds").is_none());
        let text = paging.page(rows(21)).unwrap().into_answer("things", "None.").text;
        assert!(text.ends_with("\n19\n"), "nothing is told of the row that has no room: {text}");
        assert_eq!(paging.page(rows(0)).unwrap().into_answer("things", "None.").text, "None.");
        let cut = paging.page(rows(21)).unwrap().into_structured("things");
        assert_eq!((&cut["truncated"], &cut["bounds"]["rows"]), (&json!(true), &json!(20)));
        assert_eq!(cut["things"].as_array().unwrap().len(), 20);
        let failed = paging.page([Ok(Row::new(1, json!({}), String::new())), Err(not_ours())]);
        assert!(failed.is_err());
    }
}
