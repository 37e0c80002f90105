//! Routes for queries: recall under all of its names, claims, staleness, receipts and the audit trail.

use serde_json::{Value, json};

use super::route::{Route, route};
use crate::parts::{Taking, whole};
use crate::said::Sort;

pub(super) const ROUTES: &[Route] = &[
    route(
        crate::RECALL,
        &[
            ("^find|recall|retrieve|summarize|summarise|search", 55),
            ("^look +up|for", 60),
            ("^pull|bring|dig +up|out", 60),
            ("^tell +me|us about|what|which|who|why|how|when|where", 60),
            ("^tell +about|what|which|who|why|how|when|where", 60),
            ("^remind +me|us +what|which|who|whom|why|how|where|when|of", 96),
            ("^remember +what|which|who|whom|why|how|where|when", 97),
            ("^search|ask|query|consult +memory|brain", 80),
            ("^anything|something|note|decision|background about|on|regarding", 55),
            ("background|information|detail +on|about|why", 60),
        ],
        |taking| taking.set("query", taking.said.text.trim()),
    ),
    route("brain_recall", &[("brain +recall ~benchmark", 90)], named),
    route(
        "semantic_recall_tool",
        &[("semantic|semantically +recall|search|lookup|find", 90), ("search|recall|find +semantically", 90)],
        named,
    ),
    route(
        "keyword_recall_tool",
        &[("keyword +recall|search|lookup ~benchmark ~fast", 90), ("search|recall|find|look +by|for +keyword", 90)],
        named,
    ),
    route("graph_recall_tool", &[("graph +recall|search", 90)], named),
    route("search", &[("connector +search", 92), ("search +tool", 91)], named),
    route("fetch", &[("^fetch @any", 92)], |taking| taking.item("id")),
    route(
        "brain_verify_claims_tool",
        &[
            ("^%check|prove|confirm|judge claim|statement|\
              assertion ~contradict ~conflicting ~contradictory", 90),
            ("^%check|prove|confirm +that|whether|if", 72),
            ("^verify|confirm|prove|validate @quote", 88),
            ("^verify|confirm +that|whether|if", 90),
            ("^is|whether|check +it +true|correct|right|so|case", 90),
            ("^true +or +false", 92),
            ("^is|are +following +correct|true|right|supported", 90),
            ("support|back +claim|statement", 84),
            ("^fact +check", 92),
            ("^factcheck", 92),
            ("^is|are @quote true|correct|supported|right", 90),
            ("claim|statement true|supported|correct|hold", 84),
            ("claim|says|said +that true|right|correct", 84),
        ],
        claims,
    ),
    route(
        "recall_staleness_check_tool",
        &[
            ("stale|staleness|fresh|outdated|freshness @any", 86),
            ("@any stale|fresh|outdated|obsolete|current|valid|expired", 84),
            ("@any still", 84),
            ("still @any", 86),
            ("@any out|up +of|to +date", 86),
            ("^%check|%list staleness|freshness", 84),
            ("older +than @num day|week|month|year", 86),
            ("older +than one|two|three|four|five|six|seven|eight|nine|ten +day|week|month|year", 86),
            ("older +than day|week|month|year", 82),
        ],
        staleness,
    ),
    route("receipt_reconcile_tool", &[("@rcp", 90), ("^%check|reconcile receipt", 82)], receipts),
    route(
        "ledger_integrity_scan_tool",
        &[
            ("^%check ledger", 88),
            ("^%check audit +log|trail", 88),
            ("ledger integrity|intact|tampered|consistent|sound|broken|valid|corrupt|complete", 88),
            ("integrity|intact|tampered|consistency ledger", 88),
            ("audit|log tampered|manipulated|forged|intact", 88),
            ("tampered|manipulated|forged", 84),
        ],
        |taking| {
            if let Some((from, to)) = taking.span() {
                taking.set("from_seq", from);
                taking.set("to_seq", to);
            }
        },
    )
    .closed(),
    route(
        "audit_trail_tool",
        &[
            ("audit +trail|log|entry|record ~tampered", 86),
            ("^who read|saw|accessed|opened|viewed|looked|called|used|queried|fetched|seen", 84),
            ("^who +ha +read|seen|accessed|opened|called|used|written", 84),
            ("^who +has +read|seen|accessed|opened|called|used|written", 84),
            ("call|request|access denied|refused|redacted|allowed|rejected|blocked", 84),
            ("denied|refused|rejected|redacted call|request|access", 84),
            ("call of|to|by @tool", 96),
            ("log|list +of +call|request|access", 84),
            ("^who called|used|ran @tool", 96),
            ("^what do|did|has|have|doe @principal", 88),
            ("@principal", 80),
            ("tool|call called|used|run|made +by @principal", 90),
            ("@principal do|did|done|call|called|read|write|wrote", 84),
            ("^did|has|have +anyone|anybody|someone|somebody +%removed|change|changed|read|write|written|\
              add|added|export|exported|ingest|ingested ~@any", 82),
            ("^who %removed|changed|exported|ingested +anything|something|item", 82),
            ("ledger +entry", 80),
            ("entry of ledger", 80),
        ],
        trail,
    )
    .closed(),
    route(
        "sensitivity_events_tool",
        &[
            ("sensitivity +event|change|log", 88),
            ("withheld|redacted|redaction|lowered ~call ~request", 82),
            ("^%list|what redaction|withheld|redacted", 86),
            ("item|memory raised|lowered", 78),
        ],
        |taking| taking.period(),
    )
    .closed(),
    route(
        "policy_explain_tool",
        &[
            ("policy|rule @any", 88),
            ("@any policy|allowed|permitted|forbidden", 84),
            ("^may|can|could|am|are|should +i|we read|export|write|change|see|edit|share|delete|replace|\
              allowed|permitted @any", 88),
            ("allowed|permitted|forbidden|permission @any", 86),
            ("^who may|can|could|should see|read|export|change|write|access @any", 88),
            ("^why cant|cannot|may|can|not|denied|refused|redacted @any", 88),
            ("why @any denied|redacted|withheld|hidden|refused", 88),
        ],
        |taking| {
            taking.item("item_id");
            if taking.has("export share") {
                taking.set("action", "export");
            } else if taking.has("write change edit delete replace update supersede") {
                taking.set("action", "write");
            }
        },
    ),
];

/// Sets the question: the quoted one, or the text after the tool's name.
fn named(taking: &mut Taking<'_>) {
    let mut from = taking.end();
    if taking.word(from) == "tool" {
        from += 1;
    }
    let question = taking.quote().or_else(|| taking.rest(from));
    taking.set_needed("query", question);
}

/// Sets the claims: all quoted ones, or else the one that follows.
fn claims(taking: &mut Taking<'_>) {
    let quotes = taking.all(|sort| sort == Sort::Quote);
    let claims =
        if quotes.is_empty() { rest_of_claim(taking).into_iter().collect() } else { quotes };
    let claims: Vec<Value> = claims.into_iter().map(|claim| json!({"claim": claim})).collect();
    taking.set_needed("claims", Some(claims).filter(|claims| !claims.is_empty()));
}

fn rest_of_claim(taking: &Taking<'_>) -> Option<String> {
    let after = taking.place_of("that whether if claim statement", taking.head);
    let mut from = after.unwrap_or_else(|| taking.end().saturating_sub(1)) + 1;
    if taking.place_of("that whether if", from).is_some_and(|at| at <= from + 1) {
        from = taking.place_of("that whether if", from)? + 1;
    }
    let text = taking.rest(from)?;
    let tails = [
        ", is that right?",
        ", is that true?",
        ", is that correct?",
        " is true",
        " is correct",
        " is supported",
        " holds",
        "?",
    ];
    let text =
        tails.iter().fold(text.as_str(), |text, tail| text.strip_suffix(tail).unwrap_or(text));
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn staleness(taking: &mut Taking<'_>) {
    let ids = taking.all(Sort::is_item);
    if !ids.is_empty() {
        taking.set("item_ids", ids);
        return;
    }
    let of = |taking: &Taking<'_>, words: &str, days: f64| {
        let counted = taking.number_by(words);
        let one = taking.has(words).then_some(1.0);
        counted.or(one).and_then(|count| whole(count * days))
    };
    let units = [("day", 1.0), ("week", 7.0), ("month", 30.0), ("year", 365.0)];
    let days = units.into_iter().find_map(|(unit, days)| of(taking, unit, days));
    taking.set_needed("older_than_days", days);
}

fn receipts(taking: &mut Taking<'_>) {
    let ids = taking.all(|sort| sort == Sort::Receipt);
    let seq = taking.whole_by("seq sequence entry number");
    match (ids.as_slice(), seq) {
        ([id], Some(seq)) => taking.set("receipts", json!([{"receipt_id": id, "seq": seq}])),
        _ => taking.needs.push("receipts"),
    }
}

fn trail(taking: &mut Taking<'_>) {
    taking.period();
    let principal = taking.first(|sort| sort == Sort::Principal);
    taking.set_some("principal", principal);
    let tool = taking.said.pieces.iter().find(|piece| super::is_tool(&piece.text));
    let tool = tool.map(|piece| piece.text.clone());
    taking.set_some("tool", tool);
    let decisions =
        [("denied refused rejected blocked", "deny"), ("redacted", "redact"), ("allowed", "allow")];
    let decision = decisions.into_iter().find(|(words, _)| taking.has(words));
    taking.set_some("decision", decision.map(|(_, name)| name));
}
