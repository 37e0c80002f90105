//! One item that a claim was held against.

use engine::{ItemId, Place, Snapshot, Status};
use serde_json::{Value, json};

use crate::recall::arbitrate::grounding_token;
use recalld_claim_check::{Judged, Prose, Relation, judge};
use recalld_common::names;
use recalld_policy::{Action, Verdict};
use recalld_recall::show;
use recalld_recall::show::ItemFacts;
use recalld_tool_framework::results::without_nulls;
use recalld_tool_framework::{Context, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a title that are shown.
    const TITLE_CHARS_MAX: usize = 120;
}

/// How an item stands to a claim.
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

/// An item, and what it says of a claim.
pub(super) struct Evidence {
    pub(super) place: Place,
    pub(super) id: ItemId,
    name: String,
    pub(super) is_current: bool,
    /// Whether a token of it was given.
    pub(super) is_given: bool,
    /// The superseded item in whose place it stands, where the claim rests on that.
    pub(super) replaces: Option<ItemId>,
    pub(super) relation: Relation,
    pub(super) score: f32,
    says: String,
}

impl Evidence {
    /// Holds a claim against an item that the caller may read.
    pub(super) fn of(
        snapshot: &Snapshot,
        claim: &Prose,
        place: Place,
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

    /// Whether it is shown: it says something of the claim, or was named for it.
    pub(super) fn is_told(&self) -> bool {
        self.stance() != Stance::Silent || self.is_given || self.replaces.is_some()
    }

    /// What is shown first.
    pub(super) fn rank(&self) -> (bool, bool, bool) {
        (self.is_given, self.stance() != Stance::Silent, self.is_current)
    }

    /// Why it says what it does.
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

    /// As it is shown.
    pub(super) fn row(
        &self,
        context: &Context<'_>,
        snapshot: &Snapshot,
    ) -> Result<Value, ServiceError> {
        let item = snapshot.item(self.place)?;
        let knows: show::Knows<'_> = &|other| context.may_know(other);
        let facts = ItemFacts::of(snapshot, self.place, Verdict::Allow, knows)?;
        let verdict = context.judge(&item, Action::Read).0;
        let title: String = item.title.chars().take(TITLE_CHARS_MAX).collect();
        Ok(without_nulls(json!({
            "id": self.name, "kind": item.kind, "title": title, "status": facts.status,
            "stance": self.stance().name(), "says": (!self.says.is_empty()).then_some(&self.says),
            "score": show::score(self.score), "superseded_by": facts.superseded_by,
            "grounding_token": grounding_token(context, &item, verdict),
        })))
    }
}

/// That a claim rests on an item that was superseded, and what stands in its place says.
pub(super) fn told_of_old(old: &Evidence, all: &[Evidence]) -> String {
    let new = all.iter().find(|one| one.replaces == Some(old.id));
    let new = new
        .map_or_else(|| "nothing that you may read stands in its place".to_owned(), Evidence::why);
    format!("{} and is superseded; {new}", old.why())
}
