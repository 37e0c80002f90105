//! Lines into a store: what each becomes, in batches of bounded size.
//!
//! A batch is stored whole or not at all; an import that ends early leaves the batches before. Batches
//! are cut so that rows keep the order of their lines, and so that what a batch says of the store
//! holds when it is written. Must not know where the file came from, nor who asked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use engine::{
    Batch, Damage, Direction, EdgeDraft, EdgeFilter, EdgeId, ItemDraft, ItemId, ItemView,
    NEIGHBOURS_MAX, Snapshot, SourceDraft, SourceId, Status, Store, TombstoneDraft, Unwritten,
    WriteError,
};

use super::pending::Pending;
use super::plan::{At, Plan};
use super::read::{self, Line, Name, SourceName};
use super::report::Report;
use crate::encoders::Encoders;

/// Why an import ended before its end.
#[derive(Debug)]
pub enum ImportError {
    /// The file cannot be read.
    Reading(io::Error),
    /// The store takes no more; what was written before stands.
    Writing(WriteError),
    /// Stored bytes are damaged.
    Damaged(Damage),
    /// Nobody waits for it any more; what was written before stands.
    Cancelled,
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Reading(error)
    }
}

impl From<Damage> for ImportError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// Where lines go, and how.
pub struct Import<'a> {
    /// The store, and what makes embeddings of searchable items.
    pub encoders: &'a Encoders,
    /// Who hides what a line only says is tombstoned.
    pub by: &'a str,
    /// Nothing is written when any line is bad.
    pub strict: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// Whether the work is to stop.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told of lines done, and of how many there are.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Import<'_> {
    /// Imports a file.
    pub fn run(&self, file: &File) -> Result<Report, ImportError> {
        let plan = Plan::of(&mut BufReader::new(file))?;
        if self.dry_run || self.strict {
            let mut found = self.pass(file, &plan, false)?;
            if self.dry_run || found.bad.count > 0 {
                found.nothing_written = true;
                return Ok(found);
            }
        }
        self.pass(file, &plan, true)
    }

    fn store(&self) -> &Store {
        self.encoders.store()
    }

    fn pass(&self, file: &File, plan: &Plan, writes: bool) -> Result<Report, ImportError> {
        let mut pass = Pass {
            import: self,
            plan,
            snapshot: self.store().snapshot(),
            writes,
            placed: vec![0; plan.entries.len()],
            named: HashMap::new(),
            pending: Pending::default(),
            hidden: Vec::new(),
            report: Report { bad: plan.bad.clone(), ..Report::default() },
        };
        let mut lines = Lines { file: BufReader::new(file), at: None };
        for (done, &at) in (1..).zip(&plan.order) {
            if (self.cancelled)() {
                return Err(ImportError::Cancelled);
            }
            let text = lines.read(plan, at)?;
            let taken = read::line(text.trim()).map_err(Refusal::Line).and_then(|line| {
                pass.make_room(&line, text.len())?;
                pass.take(at, line, text.len())
            });
            pass.settle(at, taken)?;
            (self.progress)(done, plan.order.len() as u64);
        }
        pass.flush()?;
        pass.hide_the_rest()?;
        Ok(pass.report)
    }
}

/// Reads lines at their places, which mostly follow one another.
struct Lines<'a> {
    file: BufReader<&'a File>,
    at: Option<u64>,
}

impl Lines<'_> {
    fn read(&mut self, plan: &Plan, at: At) -> io::Result<String> {
        let entry = plan.entries[at as usize];
        match self.at {
            Some(here) => {
                let to = i64::try_from(entry.at).ok().zip(i64::try_from(here).ok());
                let (to, here) = to.ok_or_else(|| io::Error::other("the file is too long"))?;
                self.file.seek_relative(to - here)?;
            }
            None => drop(self.file.seek(SeekFrom::Start(entry.at))?),
        }
        self.at = Some(entry.at + u64::from(entry.bytes));
        let mut bytes = vec![0; entry.bytes as usize];
        self.file.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("the file changes while it is read"))
    }
}

/// Why a line was not taken.
enum Refusal {
    /// The line is bad; the rest can go on.
    Line(String),
    /// The import ends.
    End(ImportError),
}

impl From<ImportError> for Refusal {
    fn from(error: ImportError) -> Self {
        Self::End(error)
    }
}

impl From<Damage> for Refusal {
    fn from(damage: Damage) -> Self {
        Self::End(damage.into())
    }
}

struct Pass<'a> {
    import: &'a Import<'a>,
    plan: &'a Plan,
    snapshot: Snapshot,
    writes: bool,
    /// What each entry is in the store; 0 where it is not.
    placed: Vec<u128>,
    /// Sources that items named without a line or an id of their own.
    named: HashMap<(String, String, String), SourceId>,
    pending: Pending,
    /// Rows whose line says that they are tombstoned, while no tombstone line names them.
    hidden: Vec<u128>,
    report: Report,
}

impl Pass<'_> {
    fn settle(&mut self, at: At, taken: Result<(), Refusal>) -> Result<(), ImportError> {
        match taken {
            Ok(()) => Ok(()),
            Err(Refusal::Line(why)) => {
                self.report.bad.add(self.plan.number(at), why);
                Ok(())
            }
            Err(Refusal::End(error)) => Err(error),
        }
    }

    /// Writes what is pending where the next line cannot be of the same batch.
    fn make_room(&mut self, line: &Line, bytes: usize) -> Result<(), Refusal> {
        let pending = &self.pending;
        let is_moving = match line {
            Line::Item { draft, .. } => draft.reference.as_deref().map(|of| self.is_moving(of)),
            _ => None,
        };
        let clashes = pending.clashes(line) || is_moving.transpose()?.unwrap_or_default();
        if pending.is_full(bytes) || clashes {
            self.flush()?;
        }
        self.pending.goes_on_with(line);
        Ok(())
    }

    /// Whether what is pending gives or takes a ref, so that the snapshot cannot tell who holds it.
    fn is_moving(&self, reference: &str) -> Result<bool, Damage> {
        if self.pending.refs.contains(reference) {
            return Ok(true);
        }
        let Some(holder) = self.snapshot.find_ref(reference)? else { return Ok(false) };
        Ok(self.pending.superseded.contains(&self.snapshot.id(holder)?))
    }

    fn take(&mut self, at: At, line: Line, bytes: usize) -> Result<(), Refusal> {
        match line {
            Line::Source(draft) => self.take_source(at, draft)?,
            Line::Item { draft, supersedes, source, tombstoned } => {
                let given = draft.id;
                self.take_item(at, *draft, &supersedes, source)?;
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

    /// A fresh id where the given one is none or taken.
    fn free_id(&mut self, given: Option<u128>, is_taken: bool) -> u128 {
        self.report.renamed += u64::from(given.is_some() && is_taken);
        given.filter(|_| !is_taken).unwrap_or_else(|| self.import.store().new_item_id().0)
    }

    fn take_source(&mut self, at: At, mut draft: SourceDraft) -> Result<(), Refusal> {
        let mut is_taken = false;
        if let Some(id) = draft.id
            && let Some(there) = self.snapshot.source(id)?
        {
            is_taken = true;
            let same = (there.kind, there.uri, there.title, there.content_sha256, there.bytes)
                == (&*draft.kind, &*draft.uri, &*draft.title, draft.content_sha256, draft.bytes);
            if same {
                self.placed[at as usize] = id.0;
                self.report.unchanged += 1;
                return Ok(());
            }
        }
        let id = self.free_id(draft.id.map(|id| id.0), is_taken);
        draft.id = Some(SourceId(id));
        self.placed[at as usize] = id;
        self.pending.push_source(draft, Some(at));
        Ok(())
    }

    /// The source that a line names; made where neither file nor store has it.
    fn source(&mut self, name: Option<SourceName>) -> Result<Option<SourceId>, Refusal> {
        let Some(name) = name else { return Ok(None) };
        if let Some(id) = name.id {
            if let Some(&at) = self.plan.sources.get(&id.0) {
                return self.at(at).map(|id| Some(SourceId(id)));
            }
            if self.snapshot.source(id)?.is_some() || self.pending.ids.contains(&id.0) {
                return Ok(Some(id));
            }
        }
        let key = (name.kind, name.uri, name.title);
        if name.id.is_none() {
            if let Some(&id) = self.named.get(&key) {
                return Ok(Some(id));
            }
            let there = self.snapshot.sources_of_uri(&key.1)?;
            let same = there.iter().rfind(|one| (one.kind, one.title) == (&*key.0, &*key.2));
            if let Some(one) = same {
                return Ok(Some(one.id));
            }
        } else if key.0.is_empty() {
            return Err(Refusal::Line("source: there is none of this id, and no kind".to_owned()));
        }
        let id = name.id.unwrap_or_else(|| self.import.store().new_source_id());
        let (kind, uri, title) = key.clone();
        let draft = SourceDraft { id: Some(id), kind, uri, title, ..SourceDraft::default() };
        self.pending.push_source(draft, None);
        self.named.insert(key, id);
        Ok(Some(id))
    }

    /// What an entry became.
    fn at(&self, at: At) -> Result<u128, Refusal> {
        match self.placed[at as usize] {
            0 => {
                let number = self.plan.number(at);
                Err(Refusal::Line(format!("it names line {number}, which was not imported")))
            }
            id => Ok(id),
        }
    }

    fn item_of(&self, at: At, name: &Name) -> Result<ItemId, Refusal> {
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

    /// An item that another one replaced: erased ones too, be it in the file or in the store.
    fn replaced(&self, at: At, name: &Name) -> Result<ItemId, Refusal> {
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
        supersedes: &[Name],
        source: Option<SourceName>,
    ) -> Result<(), Refusal> {
        for name in supersedes {
            let id = self.replaced(at, name)?;
            if !draft.supersedes.contains(&id) {
                draft.supersedes.push(id);
            }
        }
        draft.source = self.source(source)?;
        let there = draft.id.map(|id| self.snapshot.find(id)).transpose()?.flatten();
        let mut unchanged = match there {
            Some(place) if says_the_same(&self.snapshot.item(place)?, &draft) => draft.id,
            _ => None,
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
        draft.source = self.source(source)?;
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
                let near = self.snapshot.neighbours(draft.from, NEIGHBOURS_MAX, &which)?;
                let found = near.iter().find(|one| joins_the_same(&one.edge, &draft));
                same = found.map(|one| one.edge.id);
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
        if draft.gone && !has_item && !has_edge {
            for name in supersedes {
                draft.supersedes.push(self.replaced(at, name)?);
            }
        } else {
            // What is there says itself what it replaced.
            let is_edge = is_edge || draft.gone && !has_item;
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

    /// What a tombstone's line names, which is there.
    fn hidden_by(&self, at: At, target: u128, is_edge: bool) -> Result<u128, Refusal> {
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

    /// Tombstones for rows that a line called tombstoned and that nothing in the file hides.
    fn hide_the_rest(&mut self) -> Result<(), ImportError> {
        for target in std::mem::take(&mut self.hidden) {
            let place = self.snapshot.find(ItemId(target))?;
            let hidden = match place {
                Some(place) => self.snapshot.status(place)? == Status::Tombstoned,
                None => self.snapshot.find_edge(EdgeId(target))?.is_none_or(|(_, hidden)| hidden),
            };
            if hidden || target == 0 {
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
        self.flush()
    }

    /// Writes the batch; where the store refuses it, its records one by one, so that only those that
    /// are wrong are left out.
    fn flush(&mut self) -> Result<(), ImportError> {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.batch.records() == 0 {
            return Ok(());
        }
        if self.writes {
            let embedder = self.import.encoders.view().embedder;
            embedder.embed_batch(&mut pending.batch, |item| item.searchable);
        }
        match self.write(std::mem::take(&mut pending.batch)) {
            Ok(()) => Ok(()),
            Err(Unwritten { error: WriteError::Refused { .. }, batch }) => {
                pending.batch = *batch;
                self.write_one_by_one(pending)
            }
            Err(unwritten) => Err(ImportError::Writing(unwritten.error)),
        }
    }

    /// Writes a batch, or gives it back.
    fn write(&mut self, mut batch: Batch) -> Result<(), Unwritten> {
        let counted = Report::of(&batch);
        if self.writes {
            batch.may_replace_erased = true;
            self.import.encoders.try_write(batch)?;
            self.snapshot = self.import.store().snapshot();
        } else if let Err(error) = batch.check(self.snapshot.model().map(|model| model.dimensions))
        {
            return Err(Unwritten { error, batch: Box::new(batch) });
        }
        self.report.add(&counted);
        Ok(())
    }

    fn write_one_by_one(&mut self, pending: Pending) -> Result<(), ImportError> {
        for (at, one) in pending.singles() {
            match self.write(one).map_err(|unwritten| unwritten.error) {
                Ok(()) => {}
                Err(WriteError::Refused { field, why }) => {
                    if let Some(at) = at {
                        self.placed[at as usize] = 0;
                    }
                    let number = at.map_or(0, |at| self.plan.number(at));
                    self.report.bad.add(number, format!("{field}: {why}"));
                }
                Err(error) => return Err(ImportError::Writing(error)),
            }
        }
        Ok(())
    }
}

/// Whether a stored item says what a line says; not who recorded it, when, or what it replaced.
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

/// Whether a stored edge says what a line says.
fn joins_the_same(there: &engine::EdgeView<'_>, draft: &EdgeDraft) -> bool {
    (there.from, there.to, there.relation) == (draft.from, draft.to, &*draft.relation)
        && there.weight.to_bits() == draft.weight.to_bits()
        && (there.valid_from, there.valid_to) == (draft.valid_from, draft.valid_to)
        && there.note == draft.note
}
