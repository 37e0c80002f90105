//! Recall: a question in, the right items out, with their evidence.
//!
//! One path serves every surface. A question becomes a plan (`route`); lanes run on one
//! snapshot (`lanes`); their candidates are fused (`fuse`), arbitrated so that what is current
//! stands before what it replaced (`arbitrate`), gated by policy, and evidenced (`evidence`).
//! It knows the engine and the encoder, but neither HTTP nor MCP.

mod answers;
mod arbitrate;
mod evidence;
mod fuse;
mod lanes;
mod meaning;
mod passes;
mod room;
mod route;
pub mod show;

use std::time::{Duration, Instant};

use engine::{Damage, EdgeFilter, ItemView, NEIGHBOURS_MAX, Place, SearchError, Snapshot};

pub use evidence::{MapEvidence, Witness, map_evidence};
pub use lanes::{Lane, LaneReport};
pub use meaning::Meaning;
pub use room::Room;
pub use route::{Bounds, Plan, Question};

use crate::embed::Embedder;
use crate::govern::{Action, Decision, Rules, Verdict, What, Who, decide};

/// What recall works with.
pub struct Means<'a> {
    /// The store at one moment. Its stop ends the recall.
    pub snapshot: &'a Snapshot,
    /// The encoder of the snapshot's model.
    pub embedder: &'a Embedder,
    /// What the meaning lanes of the store share.
    pub meaning: &'a Meaning,
    /// Who may see what.
    pub rules: &'a Rules,
    /// Who asks.
    pub who: &'a Who<'a>,
}

impl Means<'_> {
    fn may_read(&self, item: &ItemView<'_>) -> Decision<'_> {
        let what = What {
            workspace: self.who.workspace,
            kind: item.kind,
            sensitivity: item.sensitivity,
            gates: &item.gates,
        };
        decide(self.rules, self.who, &what, Action::Read)
    }
}

/// One recalled item.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Where it lies in the snapshot.
    pub place: Place,
    /// What it was ranked by: fused, BM25 or cosine, as the plan says.
    pub score: f32,
    /// Each lane that found it, with its own score there.
    pub found_by: Vec<(Lane, f32)>,
    /// The policy decision that let it through.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: String,
    /// Its strongest neighbours, where the plan asks for them.
    pub neighbours: Vec<NeighbourAt>,
}

/// A neighbour of a recalled item.
#[derive(Debug, Clone)]
pub struct NeighbourAt {
    /// The edge.
    pub edge: engine::EdgeId,
    /// What it means.
    pub relation: String,
    /// Which way it runs.
    pub direction: engine::Direction,
    /// 0 to 1.
    pub weight: f32,
    /// The item at the other end.
    pub place: Place,
}

/// A hidden item that policy kept from the caller.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// Where it lies.
    pub place: Place,
    /// Whether its text was taken out or all of it.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: String,
}

/// What recall found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Best first.
    pub items: Vec<Recalled>,
    /// What policy withheld or redacted.
    pub withheld: Vec<Withheld>,
    /// What each lane did.
    pub lanes: Vec<LaneReport>,
    /// The bounds that held.
    pub bounds: Bounds,
    /// The route's name.
    pub route: &'static str,
    /// Whether the time ran out before every lane had run.
    pub cut_short: bool,
    /// How long the question took to become a vector, where it did; part of its lane's time.
    pub encode: Option<Duration>,
    /// How long it took to make one ranking of what the lanes found.
    pub fuse: Duration,
    /// All of it.
    pub took: Duration,
}

/// Runs a plan.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub fn recall(means: &Means<'_>, plan: &Plan) -> Result<Outcome, SearchError> {
    let began = Instant::now();
    let mut outcome = once(means, plan)?;
    let denied = outcome.withheld.iter().any(|kept| kept.verdict == Verdict::Deny);
    if denied
        && outcome.items.len() < plan.bounds.limit
        && let Some(wider) = plan.wider()
    {
        outcome = once(means, &wider)?;
    }
    outcome.took = began.elapsed();
    Ok(outcome)
}

fn once(means: &Means<'_>, plan: &Plan) -> Result<Outcome, SearchError> {
    let began = Instant::now();
    let ran = lanes::run(means, plan, began)?;
    let fusing = Instant::now();
    let fused = fuse::fuse(plan, &ran.candidates);
    // The meaning lane alone promises the nearest vectors, whatever became of their items.
    let distinct = if plan.words { arbitrate::drop_copies(means.snapshot, fused)? } else { fused };
    let ordered = if plan.prefer_replacements {
        arbitrate::bring_replacements(means.snapshot, &plan.filter, distinct)?
    } else {
        distinct
    };
    let mut outcome = Outcome {
        items: Vec::new(),
        withheld: Vec::new(),
        lanes: ran.reports,
        bounds: plan.bounds,
        route: plan.route,
        cut_short: ran.cut_short,
        encode: ran.encode,
        fuse: Duration::ZERO,
        took: Duration::ZERO,
    };
    for candidate in ordered {
        if outcome.items.len() == plan.bounds.limit {
            break;
        }
        means.snapshot.check()?;
        gate(means, candidate, &mut outcome)?;
    }
    outcome.fuse = fusing.elapsed();
    if plan.neighbours {
        add_neighbours(means, plan.bounds.neighbor_limit, &mut outcome)?;
    }
    Ok(outcome)
}

/// Asks policy about one candidate and files it accordingly.
fn gate(means: &Means<'_>, found: fuse::Fused, outcome: &mut Outcome) -> Result<(), Damage> {
    let item = means.snapshot.item(found.place)?;
    let decision = means.may_read(&item);
    if decision.verdict != Verdict::Allow {
        outcome.withheld.push(Withheld {
            place: found.place,
            verdict: decision.verdict,
            rule: decision.rule.to_owned(),
        });
    }
    if decision.verdict != Verdict::Deny {
        outcome.items.push(Recalled {
            place: found.place,
            score: found.score,
            found_by: found.found_by,
            verdict: decision.verdict,
            rule: decision.rule.to_owned(),
            neighbours: Vec::new(),
        });
    }
    Ok(())
}

/// The strongest current neighbours of each seed, none that is itself a seed or that policy denies.
fn add_neighbours(
    means: &Means<'_>,
    limit: usize,
    outcome: &mut Outcome,
) -> Result<(), SearchError> {
    let seeds: Vec<Place> = outcome.items.iter().map(|item| item.place).collect();
    let current = EdgeFilter { current_only: true, ..EdgeFilter::default() };
    for recalled in &mut outcome.items {
        let id = means.snapshot.id(recalled.place)?;
        for neighbour in means.snapshot.neighbours(id, NEIGHBOURS_MAX, &current)? {
            if recalled.neighbours.len() == limit {
                break;
            }
            let known = recalled.neighbours.iter().any(|known| known.place == neighbour.place);
            if known || seeds.contains(&neighbour.place) {
                continue;
            }
            let item = means.snapshot.item(neighbour.place)?;
            if means.may_read(&item).verdict != Verdict::Allow {
                continue;
            }
            recalled.neighbours.push(NeighbourAt {
                edge: neighbour.edge.id,
                relation: neighbour.edge.relation.to_owned(),
                direction: neighbour.direction,
                weight: neighbour.edge.weight,
                place: neighbour.place,
            });
        }
    }
    Ok(())
}
