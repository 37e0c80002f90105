//! Write operation of one call: a batch that is stored whole or not at all, once per idempotency key.
//!
//! Owns the parts shared by all writing tools: policy on written and superseded items, provenance, embeddings and the
//! idempotency key. Does not depend on item kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::ledger::Effect;
use engine::limits::ATTRIBUTE_BYTES_MAX;
use engine::{
    Batch, Direction, EdgeDraft, EdgeFilter, EdgeId, ItemDraft, ItemId, ItemView, Micros,
    RowAddress, Sensitivity, Snapshot, SourceDraft, SourceId, TombstoneDraft, WriteError,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::args::Text;
use super::context::ToolContext;
use super::idempotency::Keyed;
use super::records::{CORRECTION, CORRECTS};
use super::results::{Kind, Output, sometimes};
use crate::error::ServiceError;
use recalld_common::names;
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::View;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_secret_scan::Kind as Secret;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a title made from a text's first line.
    const TITLE_CHARS: usize = 80;
    /// Maximum corrections superseded together with the item that they correct.
    const CORRECTIONS_MAX: usize = 16;
    /// Maximum secrets that one call reports; each kind is reported once per field.
    const SECRETS_MAX: usize = 16;
}

const TEXT: &str = "text";
/// Result field of the found secrets.
const SECRETS: &str = "secrets";

/// Result field that lists the found secrets.
pub const SECRETS_FOUND: Output = sometimes(SECRETS, Kind::List)
    .says("Each {field, line, kind}: what holds them is restricted now.");

/// The `idempotency_key` argument of all writing tools.
pub type Key = Option<Text<1, 128>>;

/// Builds the response from the stored rows and the idempotency record, so that a repeated call gets an equal response
/// under current policy.
pub type Tell<'a, R> = &'a dyn Fn(&AccessView<'_>, &R) -> Result<Answer, ServiceError>;

/// Item id in an idempotency record. Parsed only when used, so a damaged record is reported by the repeated call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredId(String);

/// Idempotency record of a call that needs only the id of its item.
#[derive(Debug, Serialize, Deserialize)]
pub struct ItemRecord {
    /// The written item.
    pub id: StoredId,
}

/// An idempotency record as stored: the record of the tool, and the found secrets.
#[derive(Serialize, Deserialize)]
struct StoredRecord<R> {
    #[serde(flatten)]
    record: R,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<SecretFacts>,
}

/// Position and kind of a found secret, never the secret itself.
#[derive(Serialize, Deserialize)]
struct SecretFacts {
    field: String,
    kind: String,
    line: u32,
}

/// A write operation in progress.
pub struct Writing<'c> {
    context: &'c ToolContext<'c>,
    tool: &'static str,
    keyed: Option<Keyed>,
    view: View<AccessView<'c>>,
    /// Recording time of the whole batch.
    now: Micros,
    batch: Batch,
    found: Found,
    /// Items that are less sensitive than the items that they supersede.
    lowered: Vec<ItemId>,
    tells_secrets: bool,
}

/// Secrets found in the written items and sources.
#[derive(Default)]
struct Found {
    /// Field, line and kind of the first secrets, at most `SECRETS_MAX`.
    listed: BTreeSet<(&'static str, u32, Secret)>,
    kinds: BTreeSet<Secret>,
    /// Items raised because of secrets.
    raised: Vec<ItemId>,
    /// Sources that contain a secret; items of these sources are raised, too.
    sources: Vec<SourceId>,
}

/// Outcome of a commit.
pub enum Committed {
    /// The batch is stored, by this call or by an earlier call with its idempotency key.
    Stored(Answer),
    /// Another call moved one of the records first; nothing is stored.
    Overtaken,
}

impl<'c> Writing<'c> {
    /// Starts a write operation on the current snapshot; nothing is written yet.
    pub fn begin(
        context: &'c ToolContext<'c>,
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
            tells_secrets: false,
        }
    }

    /// Reports found secrets in the response, in the field [`SECRETS_FOUND`].
    pub fn telling_secrets(self) -> Self {
        Self { tells_secrets: true, ..self }
    }

    /// Recording time of the whole batch.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The snapshot at the start of the call.
    pub fn snapshot(&self) -> &AccessView<'c> {
        &self.view.snapshot
    }

    /// The embedder of the snapshot's model.
    pub fn embedder(&self) -> &Embedder {
        &self.view.embedder
    }

    /// The response of an earlier call with this idempotency key; `None` if the call is new.
    ///
    /// # Errors
    /// Returns an error if the earlier call had other arguments, or its record is damaged.
    pub fn first_answer<R: DeserializeOwned>(
        &self,
        tell: Tell<'_, R>,
    ) -> Result<Option<Answer>, ServiceError> {
        self.answered(&self.view.snapshot, tell)
    }

    fn answered<R: DeserializeOwned>(
        &self,
        snapshot: &AccessView<'_>,
        tell: Tell<'_, R>,
    ) -> Result<Option<Answer>, ServiceError> {
        let Some(keyed) = &self.keyed else { return Ok(None) };
        let Some(stored) = keyed.first_record::<StoredRecord<R>>(snapshot)? else {
            return Ok(None);
        };
        Ok(Some(self.with_secrets(tell(snapshot, &stored.record)?, &stored.secrets)))
    }

    /// Adds the found secrets to the response, if the tool reports them.
    fn with_secrets(&self, mut answer: Answer, secrets: &[SecretFacts]) -> Answer {
        if !self.tells_secrets || secrets.is_empty() {
            return answer;
        }
        for SecretFacts { field, kind, line } in secrets {
            answer.text.push_str(&format!(
                "\nHolds a secret ({field}, line {line}: {kind}); it is restricted."
            ));
        }
        answer.structured[SECRETS] = json!(secrets);
        answer
    }

    /// Adds an item with its provenance.
    ///
    /// Policy must allow a write at the item's sensitivity, and a write to all superseded items. If the item contains a
    /// secret, its sensitivity is raised further. The text is embedded at commit, unless the item already has an
    /// embedding or is not searchable.
    ///
    /// # Errors
    /// Returns an error if policy does not allow the write; the error names the field `text` if policy refuses the new
    /// item.
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

    /// Highest sensitivity of these items; `None` if none exists.
    fn sensitivity_of(&self, items: &[ItemId]) -> Result<Option<Sensitivity>, ServiceError> {
        let snapshot = &self.view.snapshot;
        let mut most = None;
        for &id in items {
            let Some(place) = snapshot.find(id)? else { continue };
            most = most.max(Some(snapshot.item(place)?.sensitivity));
        }
        Ok(most)
    }

    /// Supersedes the corrections of the superseded items as well (CON-06): a correction that remained current would
    /// keep asserting an outdated statement.
    fn supersede_corrections(&self, item: &mut ItemDraft) -> Result<(), ServiceError> {
        let which = EdgeFilter {
            relations: vec![CORRECTS.to_owned()],
            direction: Some(Direction::In),
            current_only: true,
            ..EdgeFilter::default()
        };
        for old in item.supersedes.clone() {
            for edge in self.view.snapshot.neighbours(old, CORRECTIONS_MAX, &which)? {
                let correction = self.view.snapshot.item(edge.address)?;
                let is_free = !item.supersedes.contains(&correction.id);
                let may = self.view.snapshot.judge(&correction, Action::Write).0 == Verdict::Allow;
                if correction.kind == CORRECTION && is_free && may {
                    item.supersedes.push(correction.id);
                }
            }
        }
        Ok(())
    }

    /// Adds a source with its provenance.
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

    /// Adds an edge of weight 1 without validity, source or note.
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

    /// Adds an edge with its provenance.
    pub fn add_edge(&mut self, mut edge: EdgeDraft) -> EdgeId {
        let id = edge.id.unwrap_or_else(|| self.context.workspace.store.new_edge_id());
        edge.id = Some(id);
        edge.recorded_by.clone_from(&self.context.caller.principal);
        edge.recorded_at = Some(self.now);
        self.batch.edges.push(edge);
        id
    }

    /// Adds a tombstone for an item or an edge; `erase` removes the content, too.
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

    /// Stores the batch and builds the response by `tell`. `record` is stored for repeats of the call: ids, never
    /// texts.
    ///
    /// # Errors
    /// Returns an error if the store rejects the batch or does not accept writes.
    pub fn commit<R: Serialize + DeserializeOwned>(
        mut self,
        record: &R,
        tell: Tell<'_, R>,
    ) -> Result<Committed, ServiceError> {
        let (context, encoders) = (self.context, &self.context.workspace.encoders);
        let found = std::mem::take(&mut self.found);
        let stored = StoredRecord { record, secrets: found.facts() };
        if let Some(keyed) = &self.keyed {
            self.batch.items.push(keyed.remember(context, self.tool, &stored));
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
                let answer = tell(&context.access(encoders.store().snapshot()), record)?;
                let answer = self.with_secrets(answer, &stored.secrets);
                let answer = answer.raising(found.raised, &found.kinds).lowering(lowered);
                Ok(Committed::Stored(answer.touching(Effect::Written, items)))
            }
            // Another call with this idempotency key, or on this record, was first. If the key matches, its response is
            // returned once the response is on disk and thus in a snapshot.
            Err(WriteError::Refused { field: "ref", .. }) => {
                encoders.store().sync()?;
                let first = self.answered(&context.access(encoders.store().snapshot()), tell)?;
                Ok(first.map_or(Committed::Overtaken, Committed::Stored))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Found {
    /// Scans all texts of an item for secrets.
    fn in_item(&mut self, item: &ItemDraft) -> bool {
        let said =
            [("text", &*item.text), ("title", &item.title), ("attributes", &item.attributes)];
        let tags = item.tags.iter().map(|tag| ("tags", tag.as_str()));
        let named = item.reference.iter().map(|name| ("ref", name.as_str()));
        let mut is_held = self.look(said.into_iter().chain(tags).chain(named));
        // JSON escapes such as `\n` hide word boundaries, so the parsed texts are scanned as well.
        if item.attributes.contains('\\') {
            let attributes: Value = serde_json::from_str(&item.attributes).unwrap_or_default();
            is_held |= self.in_value(&attributes);
        }
        is_held || item.source.is_some_and(|source| self.sources.contains(&source))
    }

    /// Scans the texts in a JSON value. The recursion is bounded by the depth limit of the JSON parser.
    fn in_value(&mut self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.look([("attributes", text.as_str())]),
            Value::Array(list) => list.iter().fold(false, |is, one| is | self.in_value(one)),
            Value::Object(fields) => fields.values().fold(false, |is, one| is | self.in_value(one)),
            _ => false,
        }
    }

    /// Scans texts; returns true if one of them contains a secret.
    fn look<'t>(&mut self, told: impl IntoIterator<Item = (&'static str, &'t str)>) -> bool {
        let mut is_held = false;
        for (field, text) in told {
            recalld_secret_scan::each(text, |secret| {
                is_held = true;
                // Titles and attributes repeat the text, so a kind is listed again only for the text.
                let is_new = self.kinds.insert(secret.kind)
                    || !self.listed.iter().any(|(_, _, kind)| *kind == secret.kind);
                if (is_new || field == TEXT) && self.listed.len() < SECRETS_MAX {
                    self.listed.insert((field, secret.line, secret.kind));
                }
            });
        }
        is_held
    }

    fn facts(&self) -> Vec<SecretFacts> {
        let facts = self.listed.iter().map(|&(field, line, kind)| SecretFacts {
            field: field.to_owned(),
            kind: kind.name().to_owned(),
            line,
        });
        facts.collect()
    }
}

/// Searchable items that the batch writes, and targets of its tombstones.
fn written(batch: &Batch) -> Vec<ItemId> {
    let items = batch.items.iter().filter(|item| item.searchable);
    let buried = batch.tombstones.iter().map(|stone| ItemId(stone.target));
    items.filter_map(|item| item.id).chain(buried).collect()
}

impl Committed {
    /// Returns the answer; for [`Self::Overtaken`], an error that names `field`.
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

/// Bounds the sum of the attributes, because several arguments go into one attribute object.
fn refuse_long(attributes: &str) -> Result<(), ServiceError> {
    let bytes = attributes.len();
    if bytes <= ATTRIBUTE_BYTES_MAX {
        return Ok(());
    }
    let why = format!("come to {bytes} bytes together; {ATTRIBUTE_BYTES_MAX} are allowed");
    Err(ServiceError::argument("arguments", why))
}

/// Only the verdict `Allow` permits a write.
fn refuse_unless_allowed(
    field: &'static str,
    (verdict, rule): (Verdict, Arc<str>),
) -> Result<(), ServiceError> {
    match verdict {
        Verdict::Allow => Ok(()),
        _ => Err(ServiceError::argument(field, format!("policy rule {rule} does not allow it"))),
    }
}

/// Rejects a secret in a text that cannot be restricted, such as an edge note or the reason of a tombstone.
///
/// # Errors
/// Returns an error without the secret itself if `text` contains one.
pub fn refuse_secret(field: &'static str, text: &str) -> Result<(), ServiceError> {
    let Some(kind) = recalld_secret_scan::first(text) else { return Ok(()) };
    let why = format!(
        "holds a secret ({}), and cannot be restricted as an item is; a text without it is wanted",
        kind.name()
    );
    Err(ServiceError::argument(field, why))
}

/// Fails unless the caller may supersede, link or hide this item. An item that the caller may not know, or that is
/// tombstoned, is reported as missing.
///
/// # Errors
/// Returns an error if the item is missing or policy does not allow the change.
pub fn may_change(
    snapshot: &AccessView<'_>,
    field: &'static str,
    item: &ItemView<'_>,
) -> Result<(), ServiceError> {
    super::reading::may_know(snapshot, field, item)?;
    refuse_unless_allowed(field, snapshot.judge(item, Action::Write))
}

impl ItemRecord {
    /// Record of the item `id` of kind `kind`.
    pub fn of(kind: &str, id: ItemId) -> Self {
        Self { id: StoredId::of(kind, id) }
    }
}

impl StoredId {
    /// Wire form of the id of an item of kind `kind`.
    pub fn of(kind: &str, id: ItemId) -> Self {
        Self(names::item(kind, id))
    }

    /// The id in wire form, as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the id.
    ///
    /// # Errors
    /// Returns an error if the stored record is damaged.
    pub fn parse(&self) -> Result<ItemId, ServiceError> {
        let id = names::parse_item(&self.0);
        id.map_err(|error| ServiceError::argument("idempotency_key", error.to_string()))
    }

    /// Finds the written item, regardless of policy.
    ///
    /// # Errors
    /// Returns an error if the item has been tombstoned or erased since.
    pub fn find<'s>(
        &self,
        snapshot: &'s Snapshot,
    ) -> Result<(RowAddress, ItemView<'s>), ServiceError> {
        super::reading::written(snapshot, "idempotency_key", self.parse()?)
    }
}

/// Makes a title of the first non-blank line, truncated at a word boundary after at most `TITLE_CHARS` characters.
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
    use super::{ItemRecord, SecretFacts, StoredId, StoredRecord, TITLE_CHARS, first_line, json};

    #[test]
    fn a_stored_record_has_the_bytes_of_earlier_versions_and_tolerates_unknown_fields() {
        let id = || StoredId("itm_a".to_owned());
        let stored = |secrets| json!(StoredRecord { record: ItemRecord { id: id() }, secrets });
        assert_eq!(stored(Vec::new()).to_string(), r#"{"id":"itm_a"}"#);
        let secret = SecretFacts { field: "text".to_owned(), kind: "key".to_owned(), line: 2 };
        let whole = r#"{"id":"itm_a","secrets":[{"field":"text","kind":"key","line":2}]}"#;
        assert_eq!(stored(vec![secret]).to_string(), whole);
        let later = whole.replace("{\"id\"", "{\"added_later\":[1],\"id\"");
        let read: StoredRecord<ItemRecord> = serde_json::from_str(&later).unwrap();
        assert_eq!((read.record.id.as_str(), read.secrets[0].line), ("itm_a", 2));
    }

    #[test]
    fn a_title_ends_with_a_whole_word() {
        let word = "a".repeat(TITLE_CHARS - 6);
        assert_eq!(first_line("\n  One line.  \nAnother."), "One line.");
        assert_eq!(first_line(&format!("{word} longer ones")), word);
        assert_eq!(first_line(&format!("{word} five ones")), format!("{word} five"));
        assert_eq!(first_line(&format!("{word} seven ones")), format!("{word} seven"));
        // A word longer than the limit is cut.
        assert_eq!(first_line(&"b".repeat(TITLE_CHARS + 9)), "b".repeat(TITLE_CHARS));
    }
}
