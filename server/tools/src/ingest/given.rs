//! Selection of the rows and fields of an export for one caller (format-spec/export.md, Export by a tool).
//!
//! A withheld item leaves no trace in any line: no id, no edge, no title of a source that it shares. Lines and pages
//! are built elsewhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use engine::{
    CorruptionError, EdgeId, EdgeView, ItemId, ItemView, Record, SearchError, Sensitivity, Seq,
    SourceId, SourceView, Status, TombstoneTarget, TombstoneView,
};

use recalld_interchange::lines::write::Named;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_tool_framework::{ANSWER_KIND, ToolContext};

/// The rows of a snapshot that a caller requests and may export.
pub(super) struct Given<'a> {
    snapshot: &'a AccessView<'a>,
    /// Last commit of the export; later rows are excluded.
    until: Seq,
    kinds: Option<Vec<String>>,
    current_only: bool,
    /// True if the caller may export rows that have no policy class any more, such as erased items.
    is_trusted: bool,
    /// Cache of the decisions on sources.
    sources: RefCell<HashMap<u128, Shared>>,
}

/// Decision on one item.
pub(super) enum Fate {
    /// Included with a line.
    Given,
    /// Not requested.
    Passed,
    /// Withheld by policy.
    Withheld(Kept),
}

/// Policy decision that withholds an item.
pub(super) struct Kept {
    pub(super) verdict: Verdict,
    pub(super) rule: Arc<str>,
    /// True if the caller may learn that the item exists.
    pub(super) is_told: bool,
}

/// Decision on one source.
#[derive(Clone, Copy)]
struct Shared {
    is_given: bool,
    /// True if policy withholds no item of the source.
    is_open: bool,
}

impl<'a> Given<'a> {
    pub(super) fn new(
        context: &ToolContext<'_>,
        snapshot: &'a AccessView<'a>,
        until: Seq,
        (kinds, current_only): (Option<Vec<String>>, bool),
    ) -> Self {
        let of_any = |action| {
            let restricted = Sensitivity::Restricted;
            context.judge_class("", restricted, &[], action).0 == Verdict::Allow
        };
        let is_trusted = of_any(Action::Export) && of_any(Action::Read);
        let sources = RefCell::default();
        Self { snapshot, until, kinds, current_only, is_trusted, sources }
    }

    /// Returns true if the export covers the whole store, including rows that no policy class applies to.
    pub(super) fn is_whole(&self) -> bool {
        self.is_trusted && self.kinds.is_none() && !self.current_only
    }

    /// Returns true if tombstoned rows are included.
    fn has_hidden(&self) -> bool {
        self.is_trusted && !self.current_only
    }

    /// Filters the fields of a row; `None` if the row is not exported. For items, call [`Given::fate`] first.
    pub(super) fn of<'r>(&self, record: Record<'r>) -> Result<Option<Record<'r>>, SearchError> {
        self.snapshot.check_cancelled()?;
        Ok(match record {
            Record::Source(view) => self.source_line(view)?.map(Record::Source),
            Record::Item(view, status) => Some(Record::Item(self.item_line(view)?, status)),
            Record::Edge(view, hidden) => {
                self.edge_line(view, hidden)?.map(|view| Record::Edge(view, hidden))
            }
            Record::Tombstone(view) => self.tombstone_line(view)?.map(Record::Tombstone),
        })
    }

    pub(super) fn fate(&self, item: &ItemView<'_>, status: Status) -> Result<Fate, SearchError> {
        let is_of_kind =
            self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|kind| kind == item.kind));
        let is_own = item.kind == ANSWER_KIND && !self.is_trusted;
        if item.seq > self.until || !is_of_kind || is_own || !self.takes(item.id, status)? {
            return Ok(Fate::Passed);
        }
        Ok(self.kept(item).map_or(Fate::Given, Fate::Withheld))
    }

    /// Returns true if items of this status are requested.
    fn takes(&self, id: ItemId, status: Status) -> Result<bool, SearchError> {
        match status {
            Status::Current => Ok(true),
            Status::Tombstoned => Ok(self.has_hidden()),
            Status::Superseded => Ok(!self.current_only || !self.was_superseded(id)?),
        }
    }

    /// Returns true if the item was superseded before the export began. An item superseded later is exported, because
    /// its successor has no line either; otherwise neither version would be exported.
    fn was_superseded(&self, id: ItemId) -> Result<bool, SearchError> {
        if !self.snapshot.erased_successors(id)?.is_empty() {
            return Ok(true);
        }
        for place in self.snapshot.direct_successors(id)? {
            if self.snapshot.item(place)?.seq <= self.until {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Policy decision that withholds an item; `None` if the item may be exported. Exporting an item requires
    /// permission to read it.
    fn kept(&self, item: &ItemView<'_>) -> Option<Kept> {
        let (read, read_rule) = self.snapshot.judge(item, Action::Read);
        let (export, export_rule) = self.snapshot.judge(item, Action::Export);
        let (verdict, rule) = if export > read { (export, export_rule) } else { (read, read_rule) };
        if verdict == Verdict::Allow {
            return None;
        }
        let is_told = read != Verdict::Deny || self.snapshot.is_told(&rule);
        Some(Kept { verdict, rule, is_told })
    }

    /// Returns true if the item with this id has a line.
    fn has_line(&self, id: ItemId) -> Result<bool, SearchError> {
        let Some(place) = self.snapshot.find(id)? else { return Ok(false) };
        let (item, status) = (self.snapshot.item(place)?, self.snapshot.status(place)?);
        Ok(matches!(self.fate(&item, status)?, Fate::Given))
    }

    /// Returns true if a line may reference an item as superseded: the item has a line, or a tombstone that records its
    /// erasure.
    fn may_name(&self, id: ItemId) -> Result<bool, SearchError> {
        if self.snapshot.find(id)?.is_some() {
            return self.has_line(id);
        }
        if !self.is_whole() {
            return Ok(false);
        }
        let stones = self.snapshot.tombstones(id.0)?;
        Ok(stones.iter().any(|stone| stone.erase && stone.seq <= self.until))
    }

    fn named(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, SearchError> {
        let mut named = Vec::with_capacity(ids.len());
        for &id in ids {
            if self.may_name(id)? {
                named.push(id);
            }
        }
        Ok(named)
    }

    fn item_line<'r>(&self, mut view: ItemView<'r>) -> Result<ItemView<'r>, SearchError> {
        if let Some(source) = view.source {
            self.shared(source)?; // for its name, which the line has
        }
        view.supersedes = self.named(&view.supersedes)?;
        Ok(view)
    }

    fn edge_line<'r>(
        &self,
        view: EdgeView<'r>,
        hidden: bool,
    ) -> Result<Option<EdgeView<'r>>, SearchError> {
        let is_wanted = view.seq <= self.until && (!hidden || self.has_hidden());
        if !is_wanted || !self.has_line(view.from)? || !self.has_line(view.to)? {
            return Ok(None);
        }
        let source = match view.source {
            Some(id) if self.shared(id)?.is_given => Some(id),
            _ => None,
        };
        Ok(Some(EdgeView { source, ..view }))
    }

    fn tombstone_line<'r>(
        &self,
        view: TombstoneView<'r>,
    ) -> Result<Option<TombstoneView<'r>>, SearchError> {
        if view.seq > self.until || !self.has_hidden() {
            return Ok(None);
        }
        let has_target = match self.snapshot.tombstone_target(view.target)? {
            TombstoneTarget::Item(_) => self.has_line(ItemId(view.target))?,
            TombstoneTarget::Edge => match self.snapshot.find_edge(EdgeId(view.target))? {
                Some((edge, hidden)) => self.edge_line(edge, hidden)?.is_some(),
                None => false,
            },
            TombstoneTarget::Erased => self.is_whole(),
        };
        if !has_target {
            return Ok(None);
        }
        let supersedes = self.named(&view.supersedes)?;
        Ok(Some(TombstoneView { supersedes, ..view }))
    }

    fn source_line<'r>(&self, view: SourceView<'r>) -> Result<Option<SourceView<'r>>, SearchError> {
        let shared = self.shared(view.id)?;
        let is_given = shared.is_given && view.seq <= self.until;
        Ok(is_given.then(|| shared.shown(view)))
    }

    /// Decides on a source, which is included if one of its items has a line.
    fn shared(&self, id: SourceId) -> Result<Shared, SearchError> {
        if let Some(known) = self.sources.borrow().get(&id.0) {
            return Ok(*known);
        }
        let places = self.snapshot.items_by_source(id)?;
        // A source without items: the caller to whom the items belonged is unknown.
        let is_bare = places.is_empty() && self.is_whole();
        let mut shared = Shared { is_given: is_bare, is_open: true };
        for place in places {
            self.snapshot.check_cancelled()?;
            let (item, status) = (self.snapshot.item(place)?, self.snapshot.status(place)?);
            if status == Status::Tombstoned && !self.is_trusted {
                continue;
            }
            shared.is_open &= self.kept(&item).is_none();
            shared.is_given |= matches!(self.fate(&item, status)?, Fate::Given);
        }
        self.sources.borrow_mut().insert(id.0, shared);
        Ok(shared)
    }
}

impl Shared {
    /// Removes the fields that disclose withheld items.
    fn shown(self, view: SourceView<'_>) -> SourceView<'_> {
        if self.is_open {
            return view;
        }
        SourceView { title: "", content_sha256: [0; 32], bytes: 0, ..view }
    }
}

impl Named for Given<'_> {
    fn kind(&self, id: ItemId) -> Result<Option<&str>, CorruptionError> {
        Named::kind(&**self.snapshot, id)
    }

    fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError> {
        let known = self.sources.borrow().get(&id.0).copied();
        let view = Named::source(&**self.snapshot, id)?;
        // A source not in the map is treated as also used by withheld items, and redacted.
        let shared = known.unwrap_or(Shared { is_given: true, is_open: false });
        Ok(view.map(|view| shared.shown(view)))
    }

    fn target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError> {
        Named::target(&**self.snapshot, number)
    }
}
