//! Comparison of a claim with one item.

use engine::{ItemId, RowAddress, Snapshot, Status};
use serde_json::{Value, json};

use crate::recall::arbitrate::grounding_token;
use recalld_claim_check::{Judged, Prose, Relation, judge};
use recalld_common::names;
use recalld_policy::{Action, Verdict};
use recalld_recall::show::ItemFacts;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::results::without_nulls;
use recalld_tool_framework::{ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a shown title.
    const TITLE_CHARS_MAX: usize = 120;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stance {
    Supports,
    Differs,
    Silent,
}

impl Stance {
    fn name(self) -> &'static str {
        match self {
            Self::Supports => "supports",
            Self::Differs => "contradicts",
            Self::Silent => "silent",
        }
    }
}

/// An item compared with a claim.
pub(super) struct Evidence {
    pub(super) place: RowAddress,
    pub(super) id: ItemId,
    name: String,
    pub(super) is_current: bool,
    /// True if a token of the claim cites the item.
    pub(super) is_given: bool,
    /// The superseded item that this item replaces, if the claim cites or matches that item.
    pub(super) replaces: Option<ItemId>,
    pub(super) relation: Relation,
    pub(super) score: f32,
    says: String,
}

impl Evidence {
    /// Compares a claim with an item that the caller may read.
    pub(super) fn of(
        snapshot: &Snapshot,
        claim: &Prose,
        place: RowAddress,
        cosine: Option<f32>,
        is_given: bool,
    ) -> Result<Self, ServiceError> {
        let item = snapshot.item(place)?;
        let Judged { relation, score, sentence } =
            judge(claim, &Prose::of(item.title, item.text), cosine);
        Ok(Self {
            place,
            id: item.id,
            name: names::of_item(&item),
            is_current: snapshot.status(place)? == Status::Current,
            is_given,
            replaces: None,
            relation,
            score,
            says: sentence,
        })
    }

    pub(super) fn stance(&self) -> Stance {
        match self.relation {
            Relation::Supports => Stance::Supports,
            Relation::Differs(_) => Stance::Differs,
            Relation::Silent => Stance::Silent,
        }
    }

    /// Returns true if the item is reported: it has a stance, or it was cited, or it replaces a cited item.
    pub(super) fn is_told(&self) -> bool {
        self.stance() != Stance::Silent || self.is_given || self.replaces.is_some()
    }

    /// Sort key: cited items first, then items with a stance, then current items.
    pub(super) fn rank(&self) -> (bool, bool, bool) {
        (self.is_given, self.stance() != Stance::Silent, self.is_current)
    }

    pub(super) fn why(&self) -> String {
        match &self.relation {
            Relation::Supports => format!("{} says so", self.name),
            Relation::Silent => format!("{} does not tell", self.name),
            Relation::Differs(it) => {
                let (kind, claimed, known) = (it.kind.name(), &it.claimed, &it.known);
                format!("{} differs in a {kind}: {known}, not {claimed}", self.name)
            }
        }
    }

    pub(super) fn row(
        &self,
        context: &ToolContext<'_>,
        snapshot: &AccessView<'_>,
    ) -> Result<Value, ServiceError> {
        let item = snapshot.item(self.place)?;
        let facts = ItemFacts::of(snapshot, self.place, Verdict::Allow)?;
        let verdict = snapshot.judge(&item, Action::Read).0;
        let title: String = item.title.chars().take(TITLE_CHARS_MAX).collect();
        Ok(without_nulls(json!({
            "id": self.name, "kind": item.kind, "title": title, "status": facts.status,
            "stance": self.stance().name(), "says": (!self.says.is_empty()).then_some(&self.says),
            "score": show::score(self.score), "superseded_by": facts.superseded_by,
            "grounding_token": grounding_token(context, &item, verdict),
        })))
    }
}

/// Reason for the verdict `superseded`: the stance of the old item, and that of its successor.
pub(super) fn told_of_old(old: &Evidence, all: &[Evidence]) -> String {
    let new = all.iter().find(|one| one.replaces == Some(old.id));
    let new = new
        .map_or_else(|| "nothing that you may read stands in its place".to_owned(), Evidence::why);
    format!("{} and is superseded; {new}", old.why())
}
