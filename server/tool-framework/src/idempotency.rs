//! Idempotency keys: a repeated key with equal arguments returns the first response; with other arguments, an error.
//!
//! The record of the first response is stored as a hidden item in the batch that it describes, under a ref of tool and
//! key. The store accepts one item per ref, so one of several concurrent calls wins.

use engine::{ItemDraft, Snapshot, hex};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::context::ToolContext;
use crate::error::ServiceError;
use recalld_audit::hash_json;
use recalld_common::own_kinds::ANSWER as KIND;
use recalld_recall::show::OWN_REFS;

/// A call with an idempotency key.
pub struct Keyed {
    reference: String,
    arguments: String,
}

impl Keyed {
    /// Binds `key` to `tool`: keys of different tools do not collide.
    pub fn of(tool: &str, key: &str, raw: &Map<String, Value>) -> Self {
        let arguments = hex(&hash_json(raw));
        Self { reference: format!("{OWN_REFS}once:{tool}:{key}"), arguments }
    }

    /// The record stored by the first call; `None` if this is the first call.
    ///
    /// # Errors
    /// Returns an error if the first call had other arguments, or its record is damaged.
    pub fn first_record<R: DeserializeOwned>(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Option<R>, ServiceError> {
        let Some(place) = snapshot.find_ref(&self.reference)? else { return Ok(None) };
        let mut stored: Value =
            serde_json::from_str(snapshot.item(place)?.text).unwrap_or_default();
        if stored["arguments"] != self.arguments {
            let why = "was used before with other arguments; use a new key for a new request";
            return Err(ServiceError::argument("idempotency_key", why));
        }
        let record = serde_json::from_value(stored["answer"].take());
        record
            .map(Some)
            .map_err(|error| ServiceError::argument("idempotency_key", error.to_string()))
    }

    /// The hidden item that stores `record`.
    pub fn remember(
        &self,
        context: &ToolContext<'_>,
        tool: &str,
        record: &impl Serialize,
    ) -> ItemDraft {
        ItemDraft {
            reference: Some(self.reference.clone()),
            kind: KIND.to_owned(),
            modality: "text".to_owned(),
            text: json!({"arguments": self.arguments, "answer": record}).to_string(),
            recorded_by: context.caller.principal.clone(),
            via: tool.to_owned(),
            ..ItemDraft::default()
        }
    }
}
