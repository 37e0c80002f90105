//! Memories as resources: `memory://item/{id}`, `memory://document/{id}`, `memory://brief/today`.

use std::cell::OnceCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use engine::ledger::{Decision, Effect};
use engine::{ItemId, ItemView, Micros, RowAddress, SearchError, Snapshot, Status};
use serde_json::{Value, json};

use recalld_common::names;
use recalld_common::own_kinds::is_own;
use recalld_common::scope::Scope;
use recalld_mcp_protocol::Fault;
use recalld_mcp_protocol::limits::COMPLETION_VALUES_MAX;
use recalld_policy::Caller;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_recall::show::ItemFacts;
use recalld_tool_framework::{
    ANSWER_KIND, Answer, ServiceError, ToolContext, decision_of, touched,
};
use recalld_tools::{brief, docstore};
use recalld_workspace::workspace::Workspace;

/// Maximum bytes of a document in one response. Longer documents are read in parts with docstore_get_document_tool.
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
const ITEM: &str = "memory://item/";
const DOCUMENT: &str = "memory://document/";
const BRIEF: &str = "memory://brief/today";

/// A resource named by a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Item(ItemId),
    Document(ItemId),
    Brief,
}

impl Named {
    /// Parses a URI if this caller may read resources. The existence of the resource is checked on read.
    pub(super) fn of(caller: &Caller, uri: &str) -> Option<Self> {
        may_read(caller).then(|| Self::parse(uri)).flatten()
    }

    fn parse(uri: &str) -> Option<Self> {
        if uri == BRIEF {
            return Some(Self::Brief);
        }
        let id = |text: &str| names::parse_item(text).ok();
        match uri.strip_prefix(ITEM) {
            Some(text) => id(text).map(Self::Item),
            None => id(uri.strip_prefix(DOCUMENT)?).map(Self::Document),
        }
    }

    /// Reads the resource: `{contents}`.
    pub(super) fn read(self, context: &ToolContext<'_>, uri: &str) -> Result<Answer, ServiceError> {
        match self {
            Self::Item(id) => item(context, id, uri),
            Self::Document(id) => document(context, id, uri),
            Self::Brief => {
                let mut answer = brief::today(context)?;
                answer.structured = contents(uri, "text/markdown", &answer.text);
                Ok(answer)
            }
        }
    }

    /// Checks a subscription like a read and returns the resource's version. A resource denied by policy is reported as
    /// missing.
    pub(super) fn follow(
        self,
        context: &ToolContext<'_>,
        uri: &str,
    ) -> Result<(u64, Answer), ServiceError> {
        let snapshot = context.snapshot();
        let mut answer = Answer::plain(json!({}), String::new());
        if let Self::Item(id) | Self::Document(id) = self {
            let (_, _, effect) = known(&snapshot, id, uri, &mut answer)?;
            answer.touched.push(touched(effect, id));
        }
        let look = Look::at(&snapshot, context.workspace, context.services.clock.now());
        let version = self.version(&look, context.caller);
        Ok((version.ok_or_else(|| missing(uri))?, answer))
    }

    /// Returns a number that changes when the resource is superseded, tombstoned or erased. The number of the brief
    /// changes with the brief's content. Returns `None` if this caller has no such resource.
    pub(super) fn version(self, at: &Look<'_>, caller: &Caller) -> Option<u64> {
        let Look { snapshot, workspace, .. } = at;
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Brief => return at.brief(),
            Self::Item(id) | Self::Document(id) => {
                let Workspace { rules, hidden, .. } = workspace;
                let snapshot = AccessView::of((*snapshot).clone(), caller, rules, hidden);
                let place = snapshot.find(id).ok()??;
                let item = snapshot.item(place).ok()?;
                let is_there = match self {
                    Self::Document(_) => item.kind == "document",
                    _ => item.kind != ANSWER_KIND,
                };
                let status = snapshot.status(place).ok()?;
                if !is_there || status == Status::Tombstoned || !snapshot.may_know(&item) {
                    return None;
                }
                status.name().hash(&mut hasher);
                for newer in snapshot.direct_successors(id).ok()? {
                    // A successor whose existence is hidden from the caller must not change the version.
                    let is_hidden = snapshot.status(newer).ok()? == Status::Tombstoned;
                    let newer = snapshot.item(newer).ok()?;
                    if !is_hidden && snapshot.may_know(&newer) {
                        newer.id.0.hash(&mut hasher);
                    }
                }
            }
        }
        Some(hasher.finish())
    }
}

/// Versions of subscribed resources in one snapshot.
pub(super) struct Look<'a> {
    snapshot: &'a Snapshot,
    workspace: &'a Workspace,
    now: Micros,
    /// The brief's version, computed on first use; equal for all callers.
    brief: OnceCell<Option<u64>>,
}

impl<'a> Look<'a> {
    pub(super) fn at(snapshot: &'a Snapshot, workspace: &'a Workspace, now: Micros) -> Self {
        Self { snapshot, workspace, now, brief: OnceCell::new() }
    }

    fn brief(&self) -> Option<u64> {
        let version = || brief::version(self.snapshot, self.now).ok();
        *self.brief.get_or_init(version)
    }
}

/// Returns true if this caller may read resources by URI. A caller whose plan lacks the tool to read documents may not.
pub(super) fn may_read(caller: &Caller) -> bool {
    let (family, tool) = (docstore::FAMILY.name, docstore::GET_DOCUMENT);
    caller.scopes.contains(&Scope::TenantRead) && caller.entitled.has_tool(family, tool)
}

/// Returns the resources with a fixed URI.
pub(super) fn listed(caller: &Caller) -> Vec<Value> {
    if !may_read(caller) {
        return Vec::new();
    }
    vec![json!({
        "uri": BRIEF, "name": "brief-today", "title": "Today's brief", "mimeType": "text/markdown",
        "description": "What was recorded and superseded today (UTC), and how much is remembered.",
    })]
}

/// Returns the resource templates.
pub(super) fn templates(caller: &Caller) -> Vec<Value> {
    if !may_read(caller) {
        return Vec::new();
    }
    vec![
        json!({
            "uriTemplate": format!("{ITEM}{{id}}"), "name": "item", "title": "A memory",
            "mimeType": "application/json",
            "description": "One remembered item: text, source, status, validity.",
        }),
        json!({
            "uriTemplate": format!("{DOCUMENT}{{id}}"), "name": "document",
            "title": "A document", "mimeType": "text/plain",
            "description": "The text of an ingested document.",
        }),
    ]
}

fn contents(uri: &str, mime: &str, text: &str) -> Value {
    json!({"contents": [{"uri": uri, "mimeType": mime, "text": text}]})
}

fn item(context: &ToolContext<'_>, id: ItemId, uri: &str) -> Result<Answer, ServiceError> {
    let snapshot = context.snapshot();
    let mut answer = Answer::plain(json!({}), String::new());
    let (place, verdict, effect) = known(&snapshot, id, uri, &mut answer)?;
    let facts = ItemFacts::of(&snapshot, place, verdict)?;
    answer.structured = contents(uri, "application/json", &json!(facts).to_string());
    answer.touched.push(touched(effect, id));
    Ok(answer)
}

fn missing(uri: &str) -> ServiceError {
    ServiceError::Missing { field: "uri", why: format!("there is no {uri}") }
}

/// Returns an item whose existence the caller may know, with verdict and effect. Records the decision in `answer`.
fn known(
    snapshot: &AccessView<'_>,
    id: ItemId,
    uri: &str,
    answer: &mut Answer,
) -> Result<(RowAddress, Verdict, Effect), ServiceError> {
    let place = snapshot.find(id)?.ok_or_else(|| missing(uri))?;
    let item = snapshot.item(place)?;
    if snapshot.status(place)? == Status::Tombstoned || item.kind == ANSWER_KIND {
        return Err(missing(uri));
    }
    let (verdict, rule) = snapshot.judge(&item, Action::Read);
    let effect = match verdict {
        Verdict::Deny => {
            // Same text as for a missing item, so that the existence does not leak.
            let why = format!("there is no {uri}");
            return Err(ServiceError::Denied {
                field: "uri",
                why,
                item: id,
                rule: rule.to_string(),
            });
        }
        Verdict::Redact => Effect::Redacted,
        Verdict::Allow => Effect::Read,
    };
    answer.decision = decision_of(verdict);
    answer.rule = rule.to_string();
    Ok((place, verdict, effect))
}

/// Returns true if policy allows an item's content to be shown. Otherwise the answer's ledger entry records the
/// decision.
fn may_be_shown(snapshot: &AccessView<'_>, item: &ItemView<'_>, answer: &mut Answer) -> bool {
    let (verdict, rule) = snapshot.judge(item, Action::Read);
    if verdict == Verdict::Allow {
        return true;
    }
    let effect = if verdict == Verdict::Deny { Effect::Withheld } else { Effect::Redacted };
    answer.touched.push(touched(effect, item.id));
    if answer.decision != Decision::Deny {
        answer.decision = decision_of(verdict);
        answer.rule = rule.to_string();
    }
    false
}

fn document(context: &ToolContext<'_>, id: ItemId, uri: &str) -> Result<Answer, ServiceError> {
    let found = docstore::whole(context, id, DOCUMENT_BYTES_MAX)?;
    let mime = if found.format == "markdown" { "text/markdown" } else { "text/plain" };
    let mut shown = contents(uri, mime, &found.text);
    if found.truncated {
        shown["contents"][0]["_meta"]["recalld/next_offset"] = found.text.len().into();
    }
    Ok(Answer::plain(shown, String::new()).touching(Effect::Read, [id]))
}

/// Source of the values of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Ids of items that are not part of another item.
    Items,
    /// Ids of documents.
    Documents,
    Tags,
    /// No known values.
    Nothing,
}

/// Returns the source of completions for a template's variable.
pub(super) fn completing(template: &str, variable: &str) -> Result<Wanted, Fault> {
    match (template.strip_suffix("{id}"), variable) {
        (Some(ITEM), "id") => Ok(Wanted::Items),
        (Some(DOCUMENT), "id") => Ok(Wanted::Documents),
        (Some(ITEM | DOCUMENT), _) => Ok(Wanted::Nothing),
        _ => Err(Fault::invalid_params("ref.uri: no such resource template")),
    }
}

impl Wanted {
    /// Collects values with the prefix `value` from items that this caller may read, newest first. Collects one value
    /// more than are shown, to signal that there are more.
    pub(super) fn complete(
        self,
        context: &ToolContext<'_>,
        value: &str,
        values: &mut Vec<String>,
    ) -> Result<Answer, ServiceError> {
        let mut answer = Answer::plain(json!({}), String::new());
        let snapshot = context.snapshot();
        for place in newest_first(&snapshot)? {
            if values.len() > COMPLETION_VALUES_MAX {
                break;
            }
            snapshot.check_cancelled()?;
            let item = snapshot.item(place)?;
            if !is_own(item.kind) || snapshot.status(place)? != Status::Current {
                continue;
            }
            let mut new = self.of_item(&item);
            new.retain(|candidate| candidate.starts_with(value) && !values.contains(candidate));
            if !new.is_empty() && may_be_shown(&snapshot, &item, &mut answer) {
                answer.touched.push(touched(Effect::Read, item.id));
                values.extend(new);
            }
        }
        brief::events_first(&mut answer);
        Ok(answer)
    }

    fn of_item(self, item: &ItemView<'_>) -> Vec<String> {
        match self {
            Self::Items => vec![names::of_item(item)],
            Self::Documents if item.kind == "document" => vec![names::of_item(item)],
            Self::Tags => item.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            Self::Documents | Self::Nothing => Vec::new(),
        }
    }
}

/// Returns the most recently written items, newest first, including tombstoned items.
fn newest_first(snapshot: &Snapshot) -> Result<impl Iterator<Item = RowAddress>, SearchError> {
    let counts = snapshot.row_counts()?;
    let count = usize::try_from(counts.items + counts.tombstoned).unwrap_or(usize::MAX);
    let skipped = count.saturating_sub(brief::LOOKED_THROUGH_MAX);
    let places: Vec<RowAddress> = snapshot.item_addresses()?.skip(skipped).collect();
    Ok(places.into_iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_resources() {
        let id = ItemId(77);
        let text = names::item("note", id);
        assert_eq!(Named::parse(&format!("{ITEM}{text}")), Some(Named::Item(id)));
        assert_eq!(Named::parse(&format!("{DOCUMENT}{text}")), Some(Named::Document(id)));
        assert_eq!(Named::parse(BRIEF), Some(Named::Brief));
        for wrong in
            ["", "memory://item/", "memory://item/x", "memory://brief/", "memory://brief/today/"]
        {
            assert_eq!(Named::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Named::parse(&format!("{ITEM}{text}/")), None);
        assert_eq!(completing("memory://item/{id}", "id").unwrap(), Wanted::Items);
        assert_eq!(completing("memory://document/{id}", "x").unwrap(), Wanted::Nothing);
        assert!(completing("memory://else/{id}", "id").is_err());
    }
}
