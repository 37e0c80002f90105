//! `brain_verify_claims_tool`: compares claims with the items on record.
//!
//! A claim is supported, contradicted, superseded or unsupported. This module selects the items for a claim and
//! combines their results. `recalld_claim_check` compares a claim with one text.

mod evidence;
mod grounds;

use std::collections::HashSet;

use engine::ledger::Effect;
use serde_json::{Map, Value, json};

use crate::recall::arbitrate::{RecallContext, account};
use evidence::{Evidence, Stance};
use grounds::{Ground, ground};
use recalld_audit::tenant_hash;
use recalld_claim_check::{Prose, Relation};
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{Plan, Question, Room};
use recalld_tool_framework::args::{List, Text, args, object};
use recalld_tool_framework::paging::PAGE_BYTES_MAX;
use recalld_tool_framework::reading::seen_at;
use recalld_tool_framework::results::{Kind, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [evidence];

    /// Maximum claims of a call.
    const CLAIMS_MAX: usize = 20;
    /// Maximum tokens of a claim.
    const TOKENS_MAX: usize = 8;
    /// Maximum characters of a claim.
    const CLAIM_CHARS_MAX: usize = 1_024;
    /// Maximum characters of a token argument; a valid token is shorter.
    const TOKEN_CHARS_MAX: usize = 512;
    /// Maximum items shown as evidence for one claim.
    const EVIDENCE_MAX: usize = 3;
    /// Maximum characters of a claim repeated in the answer.
    const TOLD_CHARS_MAX: usize = 120;
}

object! {
    /// A claim, and the grounding tokens of the items that it cites.
    struct Claim {
        claim: Text<1, CLAIM_CHARS_MAX> => "One statement.",
        grounding_tokens: Option<List<Text<1, TOKEN_CHARS_MAX>, 0, TOKENS_MAX>> => "As recall gave them.",
    }
}

args! {
    struct Verify {
        claims: List<Claim, 1, CLAIMS_MAX> => "One statement each.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "brain_verify_claims_tool",
    title: "Verify claims",
    about: "Whether statements agree with what is on record, by words, numbers, dates and negations; with grounding \
            tokens by those items too. Check an answer before you give it. unsupported: nothing on record tells.",
    shape: Verify::shape,
    results: &[
        always("claims", Kind::List).says(
            "In the order given: claim, verdict (supported, contradicted, superseded, unsupported, invalid_token), \
             score, why, evidence (id, kind, title, status, stance, says, score, superseded_by, grounding_token).",
        ),
        TRUNCATED,
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| verify(context, raw),
    example: r#"{"claims": [{"claim": "The beacon of Gull Rock burns paraffin."}]}"#,
};

struct Found {
    verdict: &'static str,
    score: f32,
    why: String,
    evidence: Vec<Evidence>,
}

fn verify(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Verify::parse(raw)?;
    let recall = RecallContext::now(context);
    let mut answer = Answer::plain(Value::Null, String::new());
    let mut room = Room::of(PAGE_BYTES_MAX);
    let (mut rows, mut truncated) = (Vec::new(), false);
    for claim in &wanted.claims.0 {
        if context.is_over() {
            return Err(ServiceError::Cancelled);
        }
        let (found, noted) = found_of(context, &recall, claim, answer)?;
        answer = noted;
        let mut row = row(context, &recall, claim, &found)?;
        if !room.takes(&row) {
            row["evidence"] = json!([]);
            truncated = true;
        }
        truncated |= found.evidence.len() > EVIDENCE_MAX;
        answer.text.push_str(&format!("{}: {}\n  {}\n", found.verdict, told(claim), found.why));
        rows.push(row);
    }
    // Several claims may cite one item, so effects are deduplicated. Sensitivity events come first.
    answer.touched.sort_by_key(|one| one.effect == Effect::Read);
    let mut seen = HashSet::new();
    answer.touched.retain(|one| seen.insert((one.item, one.effect.word())));
    answer.structured = json!({"claims": rows, "truncated": truncated});
    Ok(answer)
}

fn told(claim: &Claim) -> String {
    claim.claim.0.chars().take(TOLD_CHARS_MAX).collect()
}

fn row(
    context: &ToolContext<'_>,
    recall: &RecallContext<'_>,
    claim: &Claim,
    found: &Found,
) -> Result<Value, ServiceError> {
    let shown = found.evidence.iter().take(EVIDENCE_MAX);
    let evidence: Vec<Value> =
        shown.map(|one| one.row(context, &recall.view.snapshot)).collect::<Result<_, _>>()?;
    Ok(json!({
        "claim": told(claim), "verdict": found.verdict, "score": recalld_recall::show::score(found.score),
        "why": found.why, "evidence": evidence,
    }))
}

/// Verifies a claim against the items of its tokens, and against the items that recall finds.
fn found_of(
    context: &ToolContext<'_>,
    recall: &RecallContext<'_>,
    claim: &Claim,
    mut answer: Answer,
) -> Result<(Found, Answer), ServiceError> {
    let prose = Prose::of("", &claim.claim.0);
    let mut evidence: Vec<Evidence> = Vec::new();
    let tenant = tenant_hash(&context.workspace.name);
    for (n, token) in claim.grounding_tokens.iter().flat_map(|tokens| &tokens.0).enumerate() {
        match ground(context, &recall.view.snapshot, &token.0, &tenant)? {
            Ground::Of(place, verdict) => {
                answer.touched.push(seen_at(&recall.view.snapshot, place)?);
                let known = evidence.iter().any(|one| one.place == place);
                if verdict == Verdict::Allow && !known {
                    evidence.push(Evidence::of(&recall.view.snapshot, &prose, place, None, true)?);
                }
            }
            Ground::Not(why) => {
                let why = format!("grounding_tokens[{n}]: {why}");
                let found =
                    Found { verdict: "invalid_token", score: 0.0, why, evidence: Vec::new() };
                return Ok((found, answer));
            }
        }
    }
    let question = Question {
        text: claim.claim.0.clone(),
        now: Some(context.services.clock.now()),
        ..Question::default()
    };
    // Quotes in a claim must not restrict the query, because an item with other words may contradict the claim.
    let plan = Plan { quotes: false, neighbours: false, ..Plan::governed(question) };
    let mut outcome = recall.run(&plan)?;
    for item in outcome.items.iter().filter(|item| item.verdict == Verdict::Allow) {
        recall.view.snapshot.check_cancelled()?;
        if !evidence.iter().any(|one| one.place == item.place) {
            evidence.push(Evidence::of(
                &recall.view.snapshot,
                &prose,
                item.place,
                item.cosine,
                false,
            )?);
        }
    }
    add_successors(recall, &prose, &mut evidence)?;
    let found = concluded(evidence);
    // Only reported items count as read. Redacted items count as withheld, because they are excluded from the verdict.
    let is_told = |place| found.evidence.iter().any(|one| one.place == place);
    outcome.items.retain(|item| is_told(item.place));
    outcome.withheld.iter_mut().for_each(|kept| kept.is_shown = false);
    answer = account(&recall.view.snapshot, &outcome, answer)?;
    for one in &found.evidence {
        answer.touched.push(seen_at(&recall.view.snapshot, one.place)?);
    }
    Ok((found, answer))
}

/// Adds the successors of superseded items that support the claim or are cited by it.
fn add_successors(
    recall: &RecallContext<'_>,
    prose: &Prose,
    evidence: &mut Vec<Evidence>,
) -> Result<(), ServiceError> {
    let old: Vec<_> = evidence
        .iter()
        .filter(|one| !one.is_current && (one.is_given || one.relation == Relation::Supports))
        .map(|one| one.id)
        .collect();
    for id in old {
        let successors = recall.view.snapshot.current_successors(id)?.addresses;
        for place in successors.into_iter().take(EVIDENCE_MAX) {
            let item = recall.view.snapshot.item(place)?;
            let is_open = recall.view.snapshot.judge(&item, Action::Read).0 == Verdict::Allow;
            if let Some(known) = evidence.iter_mut().find(|one| one.place == place) {
                known.replaces = Some(id);
            } else if is_open {
                let mut new = Evidence::of(&recall.view.snapshot, prose, place, None, false)?;
                new.replaces = Some(id);
                evidence.push(new);
            }
        }
    }
    Ok(())
}

/// Combines the evidence into a verdict. Current items decide; if they disagree, the claim is unsupported. A claim that
/// cites a superseded item is superseded, regardless of the successor's content.
fn concluded(evidence: Vec<Evidence>) -> Found {
    let best = |is: &dyn Fn(&Evidence) -> bool| {
        let fitting = evidence.iter().filter(|one| is(one));
        fitting.max_by(|a, b| a.score.total_cmp(&b.score))
    };
    let supports = best(&|one| one.is_current && one.stance() == Stance::Supports);
    let differs = best(&|one| one.is_current && one.stance() == Stance::Differs);
    let given_old = best(&|one| one.is_given && !one.is_current);
    let old = best(&|one| !one.is_current && one.stance() == Stance::Supports);
    let (verdict, score, why) = if let Some(old) = given_old {
        ("superseded", old.score, evidence::told_of_old(old, &evidence))
    } else {
        match (supports, differs) {
            (Some(one), None) => ("supported", one.score, one.why()),
            (Some(one), Some(other)) => {
                let why = format!("what is on record disagrees: {}; {}", one.why(), other.why());
                ("unsupported", 0.0, why)
            }
            (None, differs) => match (old, differs) {
                (Some(old), _) => ("superseded", old.score, evidence::told_of_old(old, &evidence)),
                (None, Some(one)) => ("contradicted", one.score, one.why()),
                (None, None) => {
                    let nearest = best(&|_| true).map_or(0.0, |one| one.score);
                    ("unsupported", nearest, "nothing on record says so or otherwise".to_owned())
                }
            },
        }
    };
    let mut told: Vec<Evidence> = evidence.into_iter().filter(Evidence::is_told).collect();
    told.sort_by_key(|one| std::cmp::Reverse(one.rank()));
    Found { verdict, score, why, evidence: told }
}
