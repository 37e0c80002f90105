//! Routes for agent state: the values that agents store between runs.

use serde_json::Value;

use super::route::{Route, route};
use crate::parts::Taking;
use crate::said::Sort;

pub(super) const ROUTES: &[Route] = &[
    route(
        "agent_state_write_tool",
        &[
            ("^set|%keep|update +agent +state", 96),
            ("^set|%keep|update|remember state|value|key agent", 96),
            ("^set|%keep|update|remember agent state|value|key", 96),
            ("^set|%keep|update state @json", 92),
            ("^for +agent %keep|set|update", 95),
        ],
        write_state,
    )
    .payload(),
    route(
        "agent_state_read_admit_tool",
        &[
            ("^%show|fetch|look state|value|key agent", 92),
            ("^%show|fetch|look agent state|value|key", 92),
            ("^what state agent", 84),
        ],
        read_state,
    ),
    route(
        "agent_state_policy_simulate_tool",
        &[
            ("^simulate|try|test|pretend state|agent", 93),
            ("^would|could|may|might|can read|reading state|agent", 93),
            ("^would|could|may|might|can agent|state admitted|allowed", 93),
        ],
        read_state,
    ),
    route(
        "agent_state_lineage_tool",
        &[
            ("lineage", 96),
            ("version|history state|key|agent", 93),
            ("state|agent version|history|written", 93),
            ("^who wrote|written|changed|set state|agent", 94),
        ],
        |taking| {
            owner(taking);
        },
    ),
];

/// Sets the agent and the key of the state.
fn owner(taking: &mut Taking<'_>) {
    let quoted = taking.quote();
    let key = {
        let behind = ["key", "state", "value"].into_iter().find_map(|word| {
            let at = taking.place_of(word, taking.head)? + 1;
            let piece =
                taking.piece(at).filter(|piece| matches!(piece.sort, Sort::Word | Sort::Quote))?;
            let is_name = !matches!(
                piece.word.as_str(),
                "of" | "for" | "under" | "key" | "agent" | "to" | "the" | "in"
            );
            is_name.then(|| piece.text.clone())
        });
        if taking.has("key") { behind.or(quoted) } else { quoted.or(behind) }
    };
    let agent = {
        let places = (taking.head..taking.len()).filter(|&at| taking.word(at) == "agent");
        let behind = places.filter_map(|at| taking.piece(at + 1));
        let mut named = behind.filter(|piece| matches!(piece.sort, Sort::Word | Sort::Quote));
        let named =
            named.find(|piece| !matches!(piece.word.as_str(), "state" | "value" | "key" | "for"));
        let bare = |text: &str| {
            let end = text.find(['\'', '\u{2019}']).unwrap_or(text.len());
            text[..end].to_owned()
        };
        named.map(|piece| bare(&piece.text)).or_else(|| {
            let at = taking.place_of("for of", taking.head)? + 1;
            taking.piece(at).filter(|piece| piece.sort == Sort::Word).map(|piece| bare(&piece.text))
        })
    };
    taking.set_needed("agent_id", agent);
    taking.set_needed("key", key);
}

fn read_state(taking: &mut Taking<'_>) {
    owner(taking);
    let purpose = taking.behind("purpose", "be").or_else(|| {
        let is_name = |at: usize| {
            let text = taking.piece(at).map(|piece| piece.text.as_str());
            taking.arguments.values().any(|value| value.as_str() == text)
        };
        let places =
            (taking.head..taking.len()).filter(|&at| matches!(taking.word(at), "for" | "to"));
        let last = places.rev().find(|&at| !is_name(at + 1))?;
        let end = taking.place_of("be", last).unwrap_or(taking.len());
        taking.rest_until(last + 1, end)
    });
    let purpose = purpose.map(|purpose| purpose.trim_end_matches('?').to_owned());
    taking.set_needed("purpose", purpose);
}

fn write_state(taking: &mut Taking<'_>) {
    owner(taking);
    let json = taking.first(|sort| sort == Sort::Json);
    let value = match json.and_then(|json| serde_json::from_str::<Value>(&json).ok()) {
        Some(value) => Some(value),
        None => {
            let to = taking.place_of("to", taking.end()).map(|at| at + 1);
            let is_colon = |at: &usize| {
                taking.piece(*at).is_some_and(|sign| sign.sort == Sort::Mark && sign.text == ":")
            };
            let at = to.or_else(|| (taking.end()..taking.len()).find(is_colon).map(|at| at + 1));
            at.and_then(|at| taking.rest(at)).map(Value::from)
        }
    };
    taking.set_needed("value", value);
}
