//! Converts lines to rows in batches of bounded size.
//!
//! Batch limits preserve the order of the lines. If a line depends on rows that are not yet stored, the import waits
//! for their batch. Every decision thus still holds when the batch is written, at any speed of the writer. Must not
//! know files, or the embedding of a batch.

use std::collections::{HashSet, VecDeque};

use engine::{
    CorruptionError, Direction, EdgeDraft, EdgeFilter, EdgeId, ItemDraft, ItemId, ItemView,
    NEIGHBOURS_MAX, SearchError, Snapshot, SourceDraft, SourceId, SourceView, Status, Store,
    TombstoneDraft,
};

use super::error::ImportError;
use super::import::Import;
use super::pending::{Marks, Pending, Settled};
use super::plan::{At, Plan};
use super::read::{self, Line, Name, SourceName};
use super::report::Report;
use super::said::{self, Said};
use recalld_embedding::inflow;
use recalld_embedding::inflow::Inflow;

/// The reason for which a line was not accepted.
enum Refusal {
    /// The line is bad; the import continues.
    Line(String),
    /// The import ends.
    End(ImportError),
}

impl From<ImportError> for Refusal {
    fn from(error: ImportError) -> Self {
        Self::End(error)
    }
}

impl From<CorruptionError> for Refusal {
    fn from(damage: CorruptionError) -> Self {
        Self::End(damage.into())
    }
}

impl From<SearchError> for Refusal {
    fn from(error: SearchError) -> Self {
        Self::End(error.into())
    }
}

/// State of a pass over all lines of a file.
pub(super) struct Pass<'a> {
    import: &'a Import<'a>,
    plan: &'a Plan,
    snapshot: Snapshot,
    /// `None` if nothing is written.
    inflow: Option<Inflow<'a, Pending>>,
    /// Changes by each batch in flight, oldest first; the snapshot may predate these changes.
    on_the_way: VecDeque<Marks>,
    /// Stored id of each entry; 0 if the entry was not imported.
    placed: Vec<u128>,
    /// Stored rows that match lines without an id.
    said: Said,
    pending: Pending,
    /// Rows whose line is marked as tombstoned, while no tombstone line names the row.
    hidden: Vec<u128>,
    /// Number of lines processed.
    taken: u64,
    /// Number of finished lines in the last progress report.
    told: u64,
    report: Report,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        import: &'a Import<'a>,
        plan: &'a Plan,
        inflow: Option<Inflow<'a, Pending>>,
    ) -> Result<Self, ImportError> {
        let snapshot = import.encoders.store().snapshot();
        let said = Said::of_store(&snapshot, &plan.bare, import.call)?;
        Ok(Self {
            import,
            plan,
            snapshot,
            inflow,
            on_the_way: VecDeque::new(),
            placed: vec![0; plan.entries.len()],
            said,
            pending: Pending::default(),
            hidden: Vec::new(),
            taken: 0,
            told: 0,
            report: Report { bad: plan.bad.clone(), ..Report::default() },
        })
    }

    /// Processes the next line.
    pub(super) fn line(&mut self, at: At, text: &str) -> Result<(), ImportError> {
        let taken = read::line(text.trim()).map_err(Refusal::Line).and_then(|line| {
            self.make_room(&line, text.len())?;
            self.take(at, line, text.len())
        });
        match taken {
            Ok(()) => {}
            Err(Refusal::Line(why)) => self.report.bad.add(self.plan.number(at), why),
            Err(Refusal::End(error)) => return Err(error),
        }
        self.taken += 1;
        if self.on_the_way.is_empty() && (self.inflow.is_none() || self.pending.is_empty()) {
            self.tell(self.taken);
        }
        Ok(())
    }

    /// Writes the remaining batch and returns the report.
    pub(super) fn end(mut self) -> Result<Report, ImportError> {
        self.drain()?;
        self.hide_the_rest()?;
        self.tell(self.taken);
        Ok(self.report)
    }

    fn store(&self) -> &'a Store {
        self.import.encoders.store()
    }

    /// Reports progress if more lines are finished than at the last report.
    fn tell(&mut self, done: u64) {
        if done > self.told {
            self.told = done;
            (self.import.progress)(done, self.plan.order.len() as u64);
        }
    }

    /// Flushes the pending batch if the next line cannot join its commit. Waits for batches in flight if the line
    /// cannot be judged before these are stored.
    fn make_room(&mut self, line: &Line, bytes: usize) -> Result<(), Refusal> {
        let reference = match line {
            Line::Item { draft, .. } => draft.reference.as_deref(),
            _ => None,
        };
        let holder = self.holder(reference)?;
        let moves = |marks: &Marks| {
            reference.is_some_and(|of| marks.refs.contains(of))
                || holder.is_some_and(|holder| marks.superseded.contains(&holder))
        };
        let is_over = self.pending.clashes(line) || moves(&self.pending.marks);
        if self.pending.is_full(bytes) || is_over {
            self.flush()?;
        }
        if self.on_the_way.iter().any(|marks| moves(marks) || marks.waits_for(line)) {
            self.wait()?;
        }
        self.pending.goes_on_with(line);
        Ok(())
    }

    /// Returns the stored item that has a ref, if an unwritten batch supersedes items and thus may free the ref.
    fn holder(&self, reference: Option<&str>) -> Result<Option<ItemId>, CorruptionError> {
        let mut unwritten = self.on_the_way.iter().chain([&self.pending.marks]);
        let Some(reference) = reference.filter(|_| unwritten.any(|it| !it.superseded.is_empty()))
        else {
            return Ok(None);
        };
        let holder = self.snapshot.find_ref(reference)?;
        holder.map(|holder| self.snapshot.id(holder)).transpose()
    }

    /// Waits for the batches in flight if one of them changes the rows of the next lookup.
    fn look_after(&mut self, changes: impl Fn(&Marks) -> bool) -> Result<(), ImportError> {
        if self.on_the_way.iter().any(changes) { self.wait() } else { Ok(()) }
    }

    fn take(&mut self, at: At, line: Line, bytes: usize) -> Result<(), Refusal> {
        match line {
            Line::Source(draft) => self.take_source(at, draft)?,
            Line::Item { draft, supersedes, source, tombstoned } => {
                let given = draft.id;
                self.take_item(at, *draft, (&supersedes, tombstoned), source)?;
                self.hide_later(at, tombstoned, given.map(|id| id.0));
            }
            Line::Edge { draft, from, to, source, tombstoned } => {
                let given = draft.id;
                self.take_edge(at, draft, (&from, &to), source)?;
                self.hide_later(at, tombstoned, given.map(|id| id.0));
            }
            Line::Tombstone { draft, supersedes, is_edge } => {
                self.take_tombstone(at, draft, &supersedes, is_edge)?;
            }
        }
        self.pending.bytes += bytes;
        Ok(())
    }

    fn hide_later(&mut self, at: At, tombstoned: bool, given: Option<u128>) {
        if tombstoned && !given.is_some_and(|id| self.plan.targets.contains(&id)) {
            self.hidden.push(self.placed[at as usize]);
        }
    }

    /// Returns the line's id, or a new id if the line has none or its id is taken.
    fn free_id(&mut self, given: Option<u128>, is_taken: bool) -> u128 {
        self.report.renamed += u64::from(given.is_some() && is_taken);
        given.filter(|_| !is_taken).unwrap_or_else(|| self.store().new_item_id().0)
    }

    fn take_source(&mut self, at: At, mut draft: SourceDraft) -> Result<(), Refusal> {
        let mut is_taken = false;
        let mut same = None;
        match draft.id {
            Some(id) => {
                if let Some(there) = self.snapshot.source(id)? {
                    is_taken = true;
                    same = is_of(&there, &draft).then_some(id);
                }
            }
            None => {
                self.look_after(|marks| marks.uris.contains(&draft.uri))?;
                let there = self.snapshot.sources_by_uri(&draft.uri)?;
                let found = there.iter().rfind(|there| is_of(there, &draft)).map(|it| it.id);
                same = found.or_else(|| self.pending.source_like(&draft));
            }
        }
        if let Some(id) = same {
            self.said.note_source(&draft, id);
            self.placed[at as usize] = id.0;
            self.report.unchanged += 1;
            return Ok(());
        }
        let id = self.free_id(draft.id.map(|id| id.0), is_taken);
        draft.id = Some(SourceId(id));
        self.said.note_source(&draft, SourceId(id));
        self.placed[at as usize] = id;
        self.pending.push_source(draft, at);
        Ok(())
    }

    /// Returns the source that a line names; a source that neither the file nor the store has is created.
    fn source(&mut self, at: At, name: Option<SourceName>) -> Result<Option<SourceId>, Refusal> {
        let Some(name) = name else { return Ok(None) };
        if let Some(id) = name.id {
            if let Some(&at) = self.plan.sources.get(&id.0) {
                return self.at(at).map(|id| Some(SourceId(id)));
            }
            let mut unwritten = self.on_the_way.iter().chain([&self.pending.marks]);
            if self.snapshot.source(id)?.is_some() || unwritten.any(|it| it.ids.contains(&id.0)) {
                return Ok(Some(id));
            }
        }
        let SourceName { id, kind, uri, title } = name;
        if id.is_none() {
            if let Some(id) = self.said.source_named(said::name_of_source(&kind, &uri, &title)) {
                return Ok(Some(id));
            }
            self.look_after(|marks| marks.uris.contains(&uri))?;
            let there = self.snapshot.sources_by_uri(&uri)?;
            if let Some(one) = there.iter().rfind(|one| (one.kind, one.title) == (&*kind, &*title))
            {
                return Ok(Some(one.id));
            }
        } else if kind.is_empty() {
            return Err(Refusal::Line("source: there is none of this id, and no kind".to_owned()));
        }
        let id = id.unwrap_or_else(|| self.store().new_source_id());
        let draft = SourceDraft { id: Some(id), kind, uri, title, ..SourceDraft::default() };
        self.said.note_source(&draft, id);
        self.pending.push_source(draft, at);
        Ok(Some(id))
    }

    /// Returns the stored id of an entry.
    fn at(&self, at: At) -> Result<u128, Refusal> {
        match self.placed[at as usize] {
            0 => {
                let number = self.plan.number(at);
                Err(Refusal::Line(format!("it names line {number}, which was not imported")))
            }
            id => Ok(id),
        }
    }

    fn item_of(&mut self, at: At, name: &Name) -> Result<ItemId, Refusal> {
        if let Name::Ref(reference) = name
            && let Some(holder) = self.holder(Some(reference))?
        {
            self.look_after(|marks| marks.superseded.contains(&holder))?;
        }
        let (in_file, in_store) = match name {
            Name::Id(id) => {
                (self.plan.items.get(&id.0).copied(), self.snapshot.find(*id)?.map(|_| *id))
            }
            Name::Ref(reference) => {
                let place = self.snapshot.find_ref(reference)?;
                let id = place.map(|place| self.snapshot.id(place)).transpose()?;
                (self.plan.of_ref(reference, at), id)
            }
        };
        match in_file {
            Some(entry) => self.at(entry).map(ItemId),
            None => in_store.ok_or_else(|| {
                Refusal::Line(format!("there is no item {name} in the file or in the store"))
            }),
        }
    }

    /// Returns a superseded item, which may be erased in the file or in the store.
    fn replaced(&mut self, at: At, name: &Name) -> Result<ItemId, Refusal> {
        if let Name::Id(id) = name
            && !self.plan.items.contains_key(&id.0)
        {
            if let Some(&entry) = self.plan.gone.get(&id.0) {
                return self.at(entry).map(ItemId);
            }
            if self.snapshot.find(*id)?.is_none() && self.snapshot.is_erased(id.0)? {
                return Ok(*id);
            }
        }
        self.item_of(at, name)
    }

    fn take_item(
        &mut self,
        at: At,
        mut draft: ItemDraft,
        (supersedes, tombstoned): (&[Name], bool),
        source: Option<SourceName>,
    ) -> Result<(), Refusal> {
        let bare = said::of_line(&draft, tombstoned);
        for name in supersedes {
            let id = self.replaced(at, name)?;
            if !draft.supersedes.contains(&id) {
                draft.supersedes.push(id);
            }
        }
        draft.source = self.source(at, source)?;
        let there = draft.id.map(|id| self.snapshot.find(id)).transpose()?.flatten();
        let mut unchanged = match there {
            Some(place) if says_the_same(&self.snapshot.item(place)?, &draft) => draft.id,
            _ => bare.and_then(|[mark, _]| self.said.item(mark, draft.source)),
        };
        if unchanged.is_none()
            && let Some(reference) = &draft.reference
            && let Some(holder) = self.snapshot.find_ref(reference)?
        {
            let holder = self.snapshot.item(holder)?;
            if !draft.supersedes.contains(&holder.id) {
                if says_the_same(&holder, &draft) {
                    unchanged = Some(holder.id);
                } else {
                    draft.supersedes.push(holder.id);
                }
            }
        }
        if let Some(id) = unchanged {
            self.placed[at as usize] = id.0;
            self.report.unchanged += 1;
            return Ok(());
        }
        let id = self.free_id(draft.id.map(|id| id.0), there.is_some());
        draft.id = Some(ItemId(id));
        if let Some(marks) = bare {
            self.said.note_item(marks, draft.source, ItemId(id), &self.plan.bare);
        }
        self.placed[at as usize] = id;
        self.pending.push_item(draft, at);
        Ok(())
    }

    fn take_edge(
        &mut self,
        at: At,
        mut draft: EdgeDraft,
        (from, to): (&Name, &Name),
        source: Option<SourceName>,
    ) -> Result<(), Refusal> {
        draft.from = self.item_of(at, from)?;
        draft.to = self.item_of(at, to)?;
        draft.source = self.source(at, source)?;
        let mut is_taken = false;
        let mut same = None;
        match draft.id {
            Some(id) => {
                if let Some((there, _)) = self.snapshot.find_edge(id)? {
                    is_taken = true;
                    same = joins_the_same(&there, &draft).then_some(id);
                }
            }
            None => {
                let which = EdgeFilter {
                    relations: vec![draft.relation.clone()],
                    direction: Some(Direction::Out),
                    ..EdgeFilter::default()
                };
                let from = draft.from;
                self.look_after(|marks| marks.edges_from.contains(&from))?;
                let near = self.snapshot.neighbours(draft.from, NEIGHBOURS_MAX, &which)?;
                let found = near.iter().find(|one| joins_the_same(&one.edge, &draft));
                let found = found.map(|one| one.edge.id);
                same = found.or_else(|| self.pending.edge_like(&draft));
            }
        }
        if let Some(id) = same {
            self.placed[at as usize] = id.0;
            self.report.unchanged += 1;
            return Ok(());
        }
        let id = self.free_id(draft.id.map(|id| id.0), is_taken);
        draft.id = Some(EdgeId(id));
        self.placed[at as usize] = id;
        self.pending.push_edge(draft, at);
        Ok(())
    }

    fn take_tombstone(
        &mut self,
        at: At,
        mut draft: TombstoneDraft,
        supersedes: &[Name],
        is_edge: bool,
    ) -> Result<(), Refusal> {
        let target = draft.target;
        let has_item =
            self.plan.items.contains_key(&target) || self.snapshot.find(ItemId(target))?.is_some();
        let has_edge = self.plan.edges.contains_key(&target)
            || self.snapshot.find_edge(EdgeId(target))?.is_some();
        if draft.target_erased && !has_item && !has_edge {
            for name in supersedes {
                draft.supersedes.push(self.replaced(at, name)?);
            }
        } else {
            // An item or edge that exists has its own list of superseded items.
            let is_edge = is_edge || draft.target_erased && !has_item;
            draft.target = self.hidden_by(at, target, is_edge)?;
        }
        self.placed[at as usize] = draft.target;
        let there = self.snapshot.tombstones(draft.target)?;
        let same = there.iter().any(|one| {
            let (by, reason) = (&*draft.by, &*draft.reason);
            let said = (one.by, one.reason, one.erase) == (by, reason, draft.erase);
            said && draft.at.is_none_or(|at| at == one.at)
        });
        if same {
            self.report.unchanged += 1;
            return Ok(());
        }
        self.pending.push_tombstone(draft, Some(at));
        Ok(())
    }

    /// Returns the id of the item or edge that a tombstone line hides; an error if the target does not exist.
    fn hidden_by(&mut self, at: At, target: u128, is_edge: bool) -> Result<u128, Refusal> {
        if !is_edge {
            return self.item_of(at, &Name::Id(ItemId(target))).map(|id| id.0);
        }
        match self.plan.edges.get(&target) {
            Some(&entry) => self.at(entry),
            None if self.snapshot.find_edge(EdgeId(target))?.is_some() => Ok(target),
            None => {
                let why = "there is no edge of this id in the file or in the store";
                Err(Refusal::Line(why.to_owned()))
            }
        }
    }

    /// Writes tombstones for rows that are marked as tombstoned and that no line of the file hides.
    fn hide_the_rest(&mut self) -> Result<(), ImportError> {
        let mut seen = HashSet::new();
        for target in std::mem::take(&mut self.hidden) {
            let place = self.snapshot.find(ItemId(target))?;
            let hidden = match place {
                Some(place) => self.snapshot.status(place)? == Status::Tombstoned,
                None => self.snapshot.find_edge(EdgeId(target))?.is_none_or(|(_, hidden)| hidden),
            };
            if hidden || target == 0 || !seen.insert(target) {
                continue;
            }
            let (by, reason) =
                (self.import.by.to_owned(), "tombstoned in the imported file".to_owned());
            let draft = TombstoneDraft { target, by, reason, ..TombstoneDraft::default() };
            self.pending.push_tombstone(draft, None);
            if self.pending.is_full(0) {
                self.flush()?;
            }
        }
        self.drain()
    }

    /// Passes the pending batch to the ingest pipeline.
    fn flush(&mut self) -> Result<(), ImportError> {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        pending.upto = self.taken;
        let dimensions = self.snapshot.model().map(|model| model.dimensions);
        let Some(inflow) = &mut self.inflow else {
            let settled = pending.settle(|batch| super::pending::check(batch, dimensions))?;
            self.settle(settled);
            return Ok(());
        };
        let checked = pending.batch.check(dimensions);
        self.on_the_way.push_back(std::mem::take(&mut pending.marks));
        let settled = inflow.give(pending, self.import.call)?;
        self.settle_all(settled);
        // The batch has records that will be refused; later lines depend on which.
        if checked.is_err() { self.wait() } else { Ok(()) }
    }

    /// Waits for all batches in flight.
    fn wait(&mut self) -> Result<(), ImportError> {
        if let Some(inflow) = &mut self.inflow {
            let settled = inflow.drain(self.import.call)?;
            self.settle_all(settled);
        }
        Ok(())
    }

    /// Writes all processed lines.
    fn drain(&mut self) -> Result<(), ImportError> {
        self.flush()?;
        self.wait()
    }

    fn settle_all(&mut self, all: Vec<inflow::Settled<Settled>>) {
        if !all.is_empty() {
            self.snapshot = self.store().snapshot();
        }
        for one in all {
            self.on_the_way.pop_front();
            self.report.embedded += one.embedded;
            self.settle(one.done);
        }
    }

    fn settle(&mut self, settled: Settled) {
        let mut told = HashSet::new();
        for (at, why) in settled.refused {
            if let Some(at) = at {
                self.placed[at as usize] = 0;
            }
            let number = at.map_or(0, |at| self.plan.number(at));
            // A line is refused a second time together with the source that it names.
            if told.insert(number) {
                self.report.bad.add(number, why);
            }
        }
        self.report.add(&settled.written);
        self.tell(settled.upto);
    }
}

/// Returns true if a stored source has the content of a line; author and time are ignored.
fn is_of(there: &SourceView<'_>, draft: &SourceDraft) -> bool {
    (there.kind, there.uri, there.title) == (&*draft.kind, &*draft.uri, &*draft.title)
        && (there.content_sha256, there.bytes) == (draft.content_sha256, draft.bytes)
}

/// Returns true if a stored item has the content of a line; author, time and superseded items are ignored.
fn says_the_same(there: &ItemView<'_>, draft: &ItemDraft) -> bool {
    there.reference == draft.reference.as_deref()
        && (there.kind, there.modality) == (&*draft.kind, &*draft.modality)
        && (there.title, there.text) == (&*draft.title, &*draft.text)
        && there.attributes == draft.attributes
        && there.tags == draft.tags
        && there.gates == draft.gates
        && (there.source, there.span) == (draft.source, draft.span)
        && (there.valid_from, there.valid_to) == (draft.valid_from, draft.valid_to)
        && (there.sensitivity, there.searchable) == (draft.sensitivity, draft.searchable)
}

/// Returns true if a stored edge has the content of a line.
fn joins_the_same(there: &engine::EdgeView<'_>, draft: &EdgeDraft) -> bool {
    (there.from, there.to, there.relation) == (draft.from, draft.to, &*draft.relation)
        && there.weight.to_bits() == draft.weight.to_bits()
        && (there.valid_from, there.valid_to) == (draft.valid_from, draft.valid_to)
        && there.note == draft.note
}
