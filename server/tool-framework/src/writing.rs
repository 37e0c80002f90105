//! What one call writes: a batch that is stored whole or not at all, once for each idempotency key.
//!
//! Owns what all tools that write have in common: policy on what is written and replaced, provenance, embeddings,
//! the key. Knows no kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::ledger::Effect;
use engine::limits::ATTRIBUTE_BYTES_MAX;
use engine::{
    Batch, Direction, EdgeDraft, EdgeFilter, EdgeId, ItemDraft, ItemId, ItemView, Micros,
    Sensitivity, Snapshot, SourceDraft, SourceId, TombstoneDraft, WriteError,
};
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::args::Text;
use super::context::Context;
use super::idempotency::Keyed;
use super::records::{CORRECTION, CORRECTS};
use super::results::{Kind, Output, sometimes};
use crate::error::ServiceError;
use recalld_common::names;
use recalld_embedding::encoders::View;
use recalld_policy::{Action, Verdict};
use recalld_secret_scan::Kind as Secret;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a title made from a text's first line.
    const TITLE_CHARS: usize = 80;
    /// Corrections that go with the item that they put right.
    const CORRECTIONS_MAX: usize = 16;
    /// Secrets that one call tells of; each kind of secret in each field is told once.
    const SECRETS_MAX: usize = 16;
}

const TEXT: &str = "text";
/// Under this name it is told, and kept for a repeat, which secrets were found.
const SECRETS: &str = "secrets";

/// The field that tells of them.
pub const SECRETS_FOUND: Output = sometimes(SECRETS, Kind::List)
    .says("Each {field, line, kind}: what holds them is restricted now.");

/// The key of a call, as every tool that writes takes it.
pub type Key = Option<Text<1, 128>>;

/// What is told of what was written: made from the store and from what was kept, so that a repeat is told the same,
/// by what may be shown of it then.
pub type Tell<'a> = &'a dyn Fn(&Snapshot, &Value) -> Result<Answer, ServiceError>;

/// What one call writes.
pub struct Writing<'c> {
    context: &'c Context<'c>,
    tool: &'static str,
    keyed: Option<Keyed>,
    view: View,
    /// When all of it is recorded.
    now: Micros,
    batch: Batch,
    found: Found,
    /// Items that are less sensitive than what they replace.
    lowered: Vec<ItemId>,
}

/// Secrets in what is written.
#[derive(Default)]
struct Found {
    /// Field, line and kind of the first ones.
    listed: BTreeSet<(&'static str, u32, Secret)>,
    kinds: BTreeSet<Secret>,
    /// Items that they raised.
    raised: Vec<ItemId>,
    /// Sources that hold one: what is said to come from there is raised.
    sources: Vec<SourceId>,
}

/// What became of a batch.
pub enum Committed {
    /// It is stored, now or by an earlier call with the same key.
    Stored(Answer),
    /// Another call has moved one of its records meanwhile: nothing is stored.
    Overtaken,
}

impl<'c> Writing<'c> {
    /// Begins; nothing is written yet.
    pub fn begin(
        context: &'c Context<'c>,
        tool: &'static str,
        key: &Key,
        raw: &Map<String, Value>,
    ) -> Self {
        let keyed = key.as_ref().map(|key| Keyed::of(tool, &key.0, raw));
        let now = context.services.clock.now();
        Self {
            context,
            tool,
            keyed,
            view: context.view(),
            now,
            batch: Batch::default(),
            found: Found::default(),
            lowered: Vec::new(),
        }
    }

    /// When all of it is recorded.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The store as it was when the call began.
    pub fn snapshot(&self) -> &Snapshot {
        &self.view.snapshot
    }

    /// The same, with its encoder.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The answer of an earlier call with the same key: there is nothing left to do.
    pub fn first_answer(&self, tell: Tell<'_>) -> Result<Option<Answer>, ServiceError> {
        self.answered(&self.view.snapshot, tell)
    }

    fn answered(
        &self,
        snapshot: &Snapshot,
        tell: Tell<'_>,
    ) -> Result<Option<Answer>, ServiceError> {
        let kept = self.keyed.as_ref().map(|keyed| keyed.first_answer(snapshot)).transpose()?;
        kept.flatten().map(|kept| tell(snapshot, &kept)).transpose()
    }

    /// Adds an item, with its provenance; its text is embedded with the batch unless it has an embedding, or is not
    /// to be found by searches. Policy is asked whether it may be written as sensitive as it is given, and whatever it
    /// supersedes replaced; a secret in it raises it beyond that.
    ///
    /// # Errors
    /// Policy does not allow it: of the new item that names `text`.
    pub fn add(&mut self, mut item: ItemDraft) -> Result<ItemId, ServiceError> {
        let gates: Vec<&str> = item.gates.iter().map(String::as_str).collect();
        let judged = self.context.judge_class(&item.kind, item.sensitivity, &gates, Action::Write);
        refuse_unless_allowed(TEXT, judged)?;
        let before = self.sensitivity_of(&item.supersedes)?;
        self.supersede_corrections(&mut item)?;
        let id = item.id.unwrap_or_else(|| self.context.workspace.store.new_item_id());
        item.id = Some(id);
        item.recorded_by.clone_from(&self.context.caller.principal);
        item.via = self.tool.to_owned();
        item.recorded_at = Some(self.now);
        if item.modality.is_empty() {
            item.modality = TEXT.to_owned();
        }
        if item.title.is_empty() {
            item.title = first_line(&item.text);
        }
        refuse_long(&item.attributes)?;
        if self.found.in_item(&item) && item.sensitivity < recalld_secret_scan::SENSITIVITY {
            item.sensitivity = recalld_secret_scan::SENSITIVITY;
            self.found.raised.push(id);
        }
        if before.is_some_and(|before| before > item.sensitivity) {
            self.lowered.push(id);
        }
        self.batch.items.push(item);
        Ok(id)
    }

    /// How sensitive the most sensitive of these items is.
    fn sensitivity_of(&self, items: &[ItemId]) -> Result<Option<Sensitivity>, ServiceError> {
        let snapshot = &self.view.snapshot;
        let mut most = None;
        for &id in items {
            let Some(place) = snapshot.find(id)? else { continue };
            most = most.max(Some(snapshot.item(place)?.sensitivity));
        }
        Ok(most)
    }

    /// What replaces an item replaces what put it right before (CON-06): a correction that stood on would go on
    /// telling what no longer holds.
    fn supersede_corrections(&self, item: &mut ItemDraft) -> Result<(), ServiceError> {
        let which = EdgeFilter {
            relations: vec![CORRECTS.to_owned()],
            direction: Some(Direction::In),
            current_only: true,
            ..EdgeFilter::default()
        };
        for old in item.supersedes.clone() {
            for edge in self.view.snapshot.neighbours(old, CORRECTIONS_MAX, &which)? {
                let correction = self.view.snapshot.item(edge.place)?;
                let is_free = !item.supersedes.contains(&correction.id);
                let may = self.context.judge(&correction, Action::Write).0 == Verdict::Allow;
                if correction.kind == CORRECTION && is_free && may {
                    item.supersedes.push(correction.id);
                }
            }
        }
        Ok(())
    }

    /// Adds a source.
    pub fn add_source(&mut self, mut source: SourceDraft) -> SourceId {
        let id = source.id.unwrap_or_else(|| self.context.workspace.store.new_source_id());
        source.id = Some(id);
        source.recorded_by.clone_from(&self.context.caller.principal);
        source.via = self.tool.to_owned();
        source.recorded_at = Some(self.now);
        let told = [("source", &*source.uri), ("source", &*source.title)];
        if self.found.look(told) {
            self.found.sources.push(id);
        }
        self.batch.sources.push(source);
        id
    }

    /// Adds an edge.
    pub fn link(&mut self, from: ItemId, to: ItemId, relation: &str) -> EdgeId {
        self.add_edge(EdgeDraft {
            id: None,
            from,
            to,
            relation: relation.to_owned(),
            weight: 1.0,
            source: None,
            recorded_at: None,
            recorded_by: String::new(),
            valid_from: None,
            valid_to: None,
            note: String::new(),
        })
    }

    /// Adds an edge of which more is known.
    pub fn add_edge(&mut self, mut edge: EdgeDraft) -> EdgeId {
        let id = edge.id.unwrap_or_else(|| self.context.workspace.store.new_edge_id());
        edge.id = Some(id);
        edge.recorded_by.clone_from(&self.context.caller.principal);
        edge.recorded_at = Some(self.now);
        self.batch.edges.push(edge);
        id
    }

    /// Hides an item or an edge.
    pub fn bury(&mut self, target: u128, reason: &str, erase: bool) {
        self.batch.tombstones.push(TombstoneDraft {
            target,
            at: Some(self.now),
            by: self.context.caller.principal.clone(),
            reason: reason.to_owned(),
            erase,
            ..TombstoneDraft::default()
        });
    }

    /// Stores it all, and tells of it by `tell`. `kept` is what a repeat of the call is told by: ids, never texts.
    ///
    /// # Errors
    /// The store refuses it, or takes no writes.
    pub fn commit(mut self, kept: &Value, tell: Tell<'_>) -> Result<Committed, ServiceError> {
        let (context, encoders) = (self.context, &self.context.workspace.encoders);
        let kept = &self.found.kept(kept);
        let found = std::mem::take(&mut self.found);
        if let Some(keyed) = &self.keyed {
            self.batch.items.push(keyed.remember(context, self.tool, kept));
        }
        let mut batch = std::mem::take(&mut self.batch);
        let goes_on = || !context.is_over();
        if batch.items.iter().any(|item| !item.embedding.is_empty()) {
            batch.embedded_by = Some(self.view.embedder.model());
        }
        encoders.embed_while(&mut batch, &goes_on).ok_or(ServiceError::Cancelled)?;
        let items: Vec<ItemId> = written(&batch);
        let lowered = std::mem::take(&mut self.lowered);
        match encoders.write(batch) {
            Ok(_) => {
                let answer = tell(&encoders.store().snapshot(), kept)?;
                let answer = answer.raising(found.raised, &found.kinds).lowering(lowered);
                Ok(Committed::Stored(answer.touching(Effect::Written, items)))
            }
            // Another call with the same key, or of the same record, came first. With the key, its answer is the
            // answer, once it is on disk, which is when snapshots show it.
            Err(WriteError::Refused { field: "ref", .. }) => {
                encoders.store().sync()?;
                let first = self.answered(&encoders.store().snapshot(), tell)?;
                Ok(first.map_or(Committed::Overtaken, Committed::Stored))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Found {
    /// Looks through all that an item says.
    fn in_item(&mut self, item: &ItemDraft) -> bool {
        let said =
            [("text", &*item.text), ("title", &item.title), ("attributes", &item.attributes)];
        let tags = item.tags.iter().map(|tag| ("tags", tag.as_str()));
        let named = item.reference.iter().map(|name| ("ref", name.as_str()));
        let mut is_held = self.look(said.into_iter().chain(tags).chain(named));
        // Behind `\n`, as JSON writes it, no word begins.
        if item.attributes.contains('\\') {
            let attributes: Value = serde_json::from_str(&item.attributes).unwrap_or_default();
            is_held |= self.in_value(&attributes);
        }
        is_held || item.source.is_some_and(|source| self.sources.contains(&source))
    }

    /// The same of the texts in a value, which is no deeper than JSON is read.
    fn in_value(&mut self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.look([("attributes", text.as_str())]),
            Value::Array(list) => list.iter().fold(false, |is, one| is | self.in_value(one)),
            Value::Object(fields) => fields.values().fold(false, |is, one| is | self.in_value(one)),
            _ => false,
        }
    }

    /// Whether one of the texts holds a secret.
    fn look<'t>(&mut self, told: impl IntoIterator<Item = (&'static str, &'t str)>) -> bool {
        let mut is_held = false;
        for (field, text) in told {
            recalld_secret_scan::each(text, |secret| {
                is_held = true;
                // A title is the first line of a text, attributes repeat it.
                let is_new = self.kinds.insert(secret.kind)
                    || !self.listed.iter().any(|(_, _, kind)| *kind == secret.kind);
                if (is_new || field == TEXT) && self.listed.len() < SECRETS_MAX {
                    self.listed.insert((field, secret.line, secret.kind));
                }
            });
        }
        is_held
    }

    /// What is kept for a repeat: where secrets were, too, and never what they are.
    fn kept(&self, kept: &Value) -> Value {
        let mut kept = kept.clone();
        if let (false, Some(kept)) = (self.listed.is_empty(), kept.as_object_mut()) {
            let rows = self.listed.iter();
            let rows = rows.map(
                |(field, line, kind)| json!({"field": field, "line": line, "kind": kind.name()}),
            );
            kept.insert(SECRETS.to_owned(), rows.collect());
        }
        kept
    }
}

/// Tells of the secrets that were found in what an answer is about, where there are any.
pub fn tell_secrets(answer: &mut Answer, kept: &Value) {
    let Some(rows) = kept[SECRETS].as_array() else { return };
    for row in rows {
        let word = |name: &str| row[name].as_str().unwrap_or_default();
        let (field, kind) = (word("field"), word("kind"));
        answer.text.push_str(&format!(
            "\nHolds a secret ({field}, line {}: {kind}); it is restricted.",
            row["line"]
        ));
    }
    answer.structured[SECRETS] = kept[SECRETS].clone();
}

/// The items that a batch writes for its caller, and those that it hides.
fn written(batch: &Batch) -> Vec<ItemId> {
    let items = batch.items.iter().filter(|item| item.searchable);
    let buried = batch.tombstones.iter().map(|stone| ItemId(stone.target));
    items.filter_map(|item| item.id).chain(buried).collect()
}

impl Committed {
    /// The answer; an error that names `field` where another call came first.
    pub fn or_overtaken(self, field: &'static str) -> Result<Answer, ServiceError> {
        match self {
            Self::Stored(answer) => Ok(answer),
            Self::Overtaken => {
                let why = "was changed by another call meanwhile; look at it again";
                Err(ServiceError::argument(field, why))
            }
        }
    }
}

/// What a record keeps beside its text is made of several arguments: their sum is bounded, too.
fn refuse_long(attributes: &str) -> Result<(), ServiceError> {
    let bytes = attributes.len();
    if bytes <= ATTRIBUTE_BYTES_MAX {
        return Ok(());
    }
    let why = format!("come to {bytes} bytes together; {ATTRIBUTE_BYTES_MAX} are allowed");
    Err(ServiceError::argument("arguments", why))
}

/// Nothing but an allowance lets something be written.
fn refuse_unless_allowed(
    field: &'static str,
    (verdict, rule): (Verdict, Arc<str>),
) -> Result<(), ServiceError> {
    match verdict {
        Verdict::Allow => Ok(()),
        _ => Err(ServiceError::argument(field, format!("policy rule {rule} does not allow it"))),
    }
}

/// Refuses a text that nothing can restrict where it holds a secret: the note of a link, why something is hidden.
///
/// # Errors
/// It holds one; the secret itself is not repeated.
pub fn refuse_secret(field: &'static str, text: &str) -> Result<(), ServiceError> {
    let Some(kind) = recalld_secret_scan::first(text) else { return Ok(()) };
    let why = format!(
        "holds a secret ({}), and cannot be restricted as an item is; a text without it is wanted",
        kind.name()
    );
    Err(ServiceError::argument(field, why))
}

/// Whether the caller may replace, link or hide this item: one that it may not know is not there, and one that
/// is tombstoned is there no more.
///
/// # Errors
/// It is missing, or policy does not allow it.
pub fn may_change(
    context: &Context<'_>,
    field: &'static str,
    item: &ItemView<'_>,
) -> Result<(), ServiceError> {
    super::reading::may_know(context, field, item)?;
    refuse_unless_allowed(field, context.judge(item, Action::Write))
}

/// An id among what was kept for a repeat.
///
/// # Errors
/// It is none: what was stored is damaged.
pub fn kept_id(kept: &Value) -> Result<ItemId, ServiceError> {
    let id = names::parse_item(kept.as_str().unwrap_or_default());
    id.map_err(|error| ServiceError::argument("idempotency_key", error.to_string()))
}

/// The first line of a text with anything on it, as a title; a long one as far as whole words go.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let Some((end, next)) = line.char_indices().nth(TITLE_CHARS) else { return line.to_owned() };
    let cut = &line[..end];
    let whole = match cut.rfind(char::is_whitespace) {
        Some(space) if !next.is_whitespace() => &cut[..space],
        _ => cut,
    };
    whole.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{TITLE_CHARS, first_line};

    #[test]
    fn a_title_ends_with_a_whole_word() {
        let word = "a".repeat(TITLE_CHARS - 6);
        assert_eq!(first_line("\n  One line.  \nAnother."), "One line.");
        assert_eq!(first_line(&format!("{word} longer ones")), word);
        assert_eq!(first_line(&format!("{word} five ones")), format!("{word} five"));
        assert_eq!(first_line(&format!("{word} seven ones")), format!("{word} seven"));
        // What has no end is cut where it must be.
        assert_eq!(first_line(&"b".repeat(TITLE_CHARS + 9)), "b".repeat(TITLE_CHARS));
    }
}
