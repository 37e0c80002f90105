//! `export_memory_tool`: the store as lines of the lossless export form, page by page.
//!
//! Contains the export positions in cursors, and the counts. `given` selects the rows, and `lines/write.rs` of
//! `recalld-interchange` writes the lines.

use engine::ledger::{Effect, TouchedItem};
use engine::{Record, ScanCursor, Seq, Snapshot};
use serde_json::{Map, Value, json};

use super::given::{Fate, Given, Kept};
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_interchange::lines::write::{Lines, line};
use recalld_policy::Verdict;
use recalld_tool_framework::args::{List, Text, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row, not_ours};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, sometimes};
use recalld_tool_framework::{
    Answer, Change, ServiceError, Tool, ToolContext, decision_of, touched,
};

const NAME: &str = "export_memory_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum lines of a page; lines of edges and sources are short.
    const LINES_MAX: usize = 100;
}

args! {
    struct Wanted {
        kinds: Option<List<Text<1, 64>, 1, 64>> => "Only items of these, and what is between them.",
        current_only: bool = false => "Nothing superseded or hidden.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Export memory",
    about: "Items, sources and links as JSON Lines that `recalld import` takes. To move or keep memory; not to find \
            something: use recall.",
    shape: Wanted::shape,
    results: &[
        always("lines", Kind::List).says("Texts, each one line of the form, without its line feed."),
        always("counts", Kind::Object).says("Lines of this page: sources, items, edges, tombstones."),
        always("seq", Kind::Integer).says("The commit as of which the export is, on all of its pages."),
        sometimes("withheld", Kind::Integer).says(
            "Items that stand between these lines and that policy keeps back, as far as the caller may know.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| export(context, raw),
    example: r#"{"current_only": true}"#,
};

/// Position of an export: the commit of its snapshot, and its [`ScanCursor`].
type Place = (Seq, (Seq, usize, u64), String, (u64, u64));

fn place_of(until: Seq, mark: &ScanCursor) -> Place {
    let ScanCursor {
        seq,
        table,
        rows_passed: rows,
        id,
        erased_tombstones_emitted: stones,
        erased_tombstones_total: gone,
    } = *mark;
    (until, (seq, table, rows), format!("{id:032x}"), (stones, gone))
}

fn opened(place: Place) -> Result<(Seq, ScanCursor), ServiceError> {
    let (until, (seq, table, rows), id, (stones, gone)) = place;
    let id = u128::from_str_radix(&id, 16).map_err(|_| not_ours())?;
    Ok((
        until,
        ScanCursor {
            seq,
            table,
            rows_passed: rows,
            id,
            erased_tombstones_emitted: stones,
            erased_tombstones_total: gone,
        },
    ))
}

fn export(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Wanted::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?.with_rows(LINES_MAX);
    let snapshot = context.snapshot();
    let after = paging.after::<Place>()?.map(opened).transpose()?;
    let until = after.as_ref().map_or(snapshot.seq(), |(until, _)| *until).min(snapshot.seq());
    let kinds = wanted.kinds.map(|kinds| kinds.0.into_iter().map(|kind| kind.0).collect());
    let given = Given::new(context, &snapshot, until, (kinds, wanted.current_only));
    let mut walk = Walk::begin(&snapshot, &given, after.map(|(_, mark)| mark))?;
    let page = paging.page(std::iter::from_fn(|| walk.next(until).transpose()))?;
    let ends = page.next_cursor.is_none();
    let told = walk.told(page.rows.len(), ends);
    let mut answer = page.into_answer("lines", "");
    answer.text = in_words(&told, ends);
    answer.touched.extend(told.trailing);
    if let Some((verdict, rule)) = told.strictest {
        (answer.decision, answer.rule) = (decision_of(verdict), rule);
    }
    answer.structured["counts"] = json!(told.lines);
    answer.structured["seq"] = until.into();
    if told.withheld > 0 {
        answer.structured["withheld"] = told.withheld.into();
    }
    Ok(answer)
}

fn in_words(told: &Told, ends: bool) -> String {
    let Lines { sources, items, edges, tombstones } = told.lines;
    let counts = [(items, "item"), (sources, "source"), (edges, "edge"), (tombstones, "tombstone")];
    let mut text = counts.map(|(count, one)| counted(count, one)).join(", ");
    if told.withheld > 0 {
        text.push_str(&format!("; {} withheld", counted(told.withheld, "item")));
    }
    text.push_str(if ends { "; that is the end." } else { "; next_cursor gives more." });
    text
}

/// Summary of a page besides its lines.
struct Told {
    lines: Lines,
    withheld: u64,
    strictest: Option<(Verdict, String)>,
    /// Items withheld after the last line of the export.
    trailing: Vec<TouchedItem>,
}

/// Totals up to one line.
#[derive(Clone, Default)]
struct SoFar {
    lines: Lines,
    withheld: u64,
    strictest: Option<(Verdict, String)>,
}

/// Iterator over the rows of an export, with running totals.
struct Walk<'a> {
    given: &'a Given<'a>,
    records: engine::Records<'a>,
    now: SoFar,
    /// Totals at each returned row.
    as_of: Vec<SoFar>,
    /// Items withheld since the last returned row.
    kept_back: Vec<TouchedItem>,
}

impl<'a> Walk<'a> {
    fn begin(
        snapshot: &'a Snapshot,
        given: &'a Given<'a>,
        after: Option<ScanCursor>,
    ) -> Result<Self, ServiceError> {
        let records = match &after {
            None => snapshot.records(),
            Some(mark) => {
                let records = snapshot.records_after(mark)?;
                // Tombstones of later erasures may sort before the mark, and the export would miss them.
                if given.is_whole()
                    && records.cursor().erased_tombstones_total != mark.erased_tombstones_total
                {
                    let why = "is of a list from which something was erased since; leave it out to begin anew";
                    return Err(ServiceError::argument("cursor", why));
                }
                records
            }
        };
        let (as_of, kept_back) = (Vec::new(), Vec::new());
        Ok(Self { given, records, now: SoFar::default(), as_of, kept_back })
    }

    /// The next line; `None` at the end of the store.
    fn next(&mut self, until: Seq) -> Result<Option<Row<Place>>, ServiceError> {
        loop {
            let Some(record) = self.records.next().transpose()? else { return Ok(None) };
            let mut seen = None;
            if let Record::Item(item, status) = &record {
                match self.given.fate(item, *status)? {
                    Fate::Passed => continue,
                    Fate::Withheld(kept) => {
                        self.kept_back.push(touched(Effect::Withheld, item.id));
                        self.now.keep_back(kept);
                        continue;
                    }
                    Fate::Given => seen = Some(touched(Effect::Read, item.id)),
                }
            }
            let Some(record) = self.given.of(record)? else { continue };
            let mut bytes = Vec::new();
            line(self.given, &record, &mut bytes)?;
            bytes.pop(); // the line feed
            let text = String::from_utf8(bytes).expect("JSON of texts is a text");
            self.now.lines.count(&record);
            self.as_of.push(self.now.clone());
            let place = place_of(until, &self.records.cursor());
            let touched = std::mem::take(&mut self.kept_back).into_iter().chain(seen);
            return Ok(Some(Row::new(place, text.into(), String::new()).touching(touched)));
        }
    }

    /// Summary of a page with `rows` rows. Withheld items after the last row belong to the next page, unless `ends` is
    /// set.
    fn told(self, rows: usize, ends: bool) -> Told {
        let last = rows.checked_sub(1).and_then(|row| self.as_of.into_iter().nth(row));
        let so_far = if ends { self.now } else { last.unwrap_or_default() };
        let trailing = if ends { self.kept_back } else { Vec::new() };
        let SoFar { lines, withheld, strictest } = so_far;
        Told { lines, withheld, strictest, trailing }
    }
}

impl SoFar {
    /// Counts a withheld item if the caller may learn of the item; the caller also gets the receipt.
    fn keep_back(&mut self, kept: Kept) {
        if !kept.is_told {
            return;
        }
        self.withheld += 1;
        if self.strictest.as_ref().is_none_or(|(strictest, _)| *strictest < kept.verdict) {
            self.strictest = Some((kept.verdict, kept.rule.to_string()));
        }
    }
}
