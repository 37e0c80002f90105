//! Intents, corrections, outcomes and follow-ups: their records, visibility and due times.

use engine::{EdgeFilter, Sensitivity};
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use recalld_recall::show::ItemFacts;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

use super::texts;

const CAPTURE: &str = "capture_operator_intent_tool";
const CORRECT: &str = "record_operator_correction_tool";
const OUTCOME: &str = "record_outcome_valence_tool";
const SCHEDULE: &str = "schedule_followup_tool";
const COMPLETE: &str = "complete_followup_tool";
const DUE: &str = "due_followups_tool";

fn schedule(desk: &Desk, arguments: Value) -> Value {
    desk.call(SCHEDULE, arguments)["followup"].clone()
}

fn recall(desk: &Desk, query: &str) -> Value {
    desk.call("retrieval_arbitrate_tool", json!({"query": query}))
}

/// The complete item of an id.
fn item(desk: &Desk, id: &Value) -> Value {
    desk.with_context(&operator(), |context| {
        let snapshot = context.snapshot();
        let id = recalld_common::names::parse_item(id.as_str().unwrap()).unwrap();
        let place = snapshot.find(id).unwrap().unwrap();
        let allow = recalld_policy::Verdict::Allow;
        json!(ItemFacts::of(&snapshot, place, allow).unwrap())
    })
}

#[test]
fn an_intent_is_an_item_that_recall_finds() {
    let desk = Desk::new();
    let wanted = json!({
        "intent": "Ship the beacon firmware before the relief boat", "horizon": "week",
        "due_at": "2026-01-20T12:00:00+01:00", "tags": ["firmware"],
    });
    let kept = desk.call(CAPTURE, wanted)["item"].clone();
    assert_eq!((&kept["kind"], &kept["tags"]), (&json!("intent"), &json!(["firmware"])));
    let attributes = json!({"horizon": "week", "due_at": "2026-01-20T11:00:00Z"});
    assert_eq!(kept["attributes"], attributes);
    assert_eq!(kept["grounding_token"].as_str().unwrap().len(), 152);
    assert_eq!(kept["provenance"]["via"], CAPTURE);
    let found = recall(&desk, "firmware relief boat");
    assert_eq!(texts(&found, "items", "id"), [kept["id"].as_str().unwrap()]);
    let plain = desk.call(CAPTURE, json!({"intent": "Rest"}))["item"]["attributes"].clone();
    assert_eq!(plain, json!({"horizon": "open"}));
    let why = desk.refusal(CAPTURE, json!({"intent": " \n"}));
    assert_eq!(why, "intent: is blank; at least one visible character is wanted");
    let why = desk.refusal(CAPTURE, json!({"intent": "x", "horizon": "weak"}));
    assert!(why.contains("did you mean `week`?"), "{why}");
    let why = desk.refusal(CAPTURE, json!({"intent": "x", "due_at": "tomorrow"}));
    assert!(why.starts_with("due_at: not a time in RFC 3339"), "{why}");
}

#[test]
fn a_correction_puts_the_right_text_where_the_wrong_one_stood() {
    let desk = Desk::new();
    let wrong = desk.call(
        "brain_remember",
        json!({
            "text": "The beacon of Gull Rock is lit by gas.", "kind": "fact",
            "title": "Gas in the beacon", "tags": ["beacon"], "valid_from": "2025-01-01T00:00:00Z",
        }),
    )["item"]
        .clone();
    desk.set_time("2026-01-15T09:00:00Z");
    let put_right = json!({
        "wrong": "lit by gas", "right": "The beacon of Gull Rock is lit by paraffin.",
        "item_id": wrong["id"], "reason": "The tank was sold.",
    });
    let answer = desk.call(CORRECT, put_right.clone());
    let (correction, now) = (&answer["correction"], &answer["item"]);
    assert_eq!(correction["kind"], "correction");
    let attributes =
        json!({"wrong": "lit by gas", "reason": "The tank was sold.", "about": wrong["id"]});
    assert_eq!(correction["attributes"], attributes);
    assert_eq!(now["text"], "The beacon of Gull Rock is lit by paraffin.");
    assert_eq!(now["title"], "The beacon of Gull Rock is lit by paraffin.");
    assert_eq!((&now["kind"], &now["tags"]), (&json!("fact"), &json!(["beacon"])));
    assert_eq!(now["validity"]["from"], "2025-01-01T00:00:00Z");
    assert_eq!(now["supersedes"], json!([wrong["id"]]), "the chain shows it");
    let old = item(&desk, &wrong["id"]);
    assert_eq!((&old["status"], &old["superseded_by"]), (&json!("superseded"), &now["id"]));
    let found = recall(&desk, "What lights the beacon of Gull Rock?");
    let first = found["items"][0]["text"].as_str().unwrap();
    assert!(first.starts_with("The beacon of Gull Rock is lit by paraffin."), "{found}");
    assert_eq!(found["conflicts"], json!([]), "{found}");
    // The edge leads from each of both items to the other.
    desk.with_context(&operator(), |context| {
        let snapshot = context.snapshot();
        let id = recalld_common::names::parse_item(correction["id"].as_str().unwrap()).unwrap();
        let near = snapshot.neighbours(id, 8, &EdgeFilter::default()).unwrap();
        let found: Vec<&str> = near.iter().map(|one| one.edge.relation).collect();
        assert_eq!(found, ["corrects"]);
    });
    let why = desk.refusal(CORRECT, put_right);
    let now = now["id"].as_str().unwrap();
    assert_eq!(why, format!("item_id: is superseded by {now}; a current item is wanted, or none"));
}

#[test]
fn what_replaces_an_item_replaces_its_corrections() {
    let desk = Desk::new();
    let wrong = desk.remember_as("The gate is red.", Sensitivity::Internal);
    let put_right = |item: &Value, right: &str| {
        desk.call(CORRECT, json!({"wrong": "the gate", "right": right, "item_id": item}))
    };
    let first = put_right(&json!(wrong), "The gate is green.");
    let second = put_right(&first["item"]["id"], "The gate is blue.");
    let old = item(&desk, &first["correction"]["id"]);
    assert_eq!(
        (&old["status"], &old["superseded_by"]),
        (&json!("superseded"), &second["item"]["id"])
    );
    // Any other superseding tool has this effect, too.
    let change =
        json!({"item_id": second["item"]["id"], "text": "The gate is white.", "reason": "paint"});
    let now = desk.call("supersede_item_tool", change);
    let old = item(&desk, &second["correction"]["id"]);
    assert_eq!((&old["status"], &old["superseded_by"]), (&json!("superseded"), &now["item"]["id"]));
    let context = desk.call("brain_startup_context_tool", json!({}));
    let sections = context["sections"].as_array().unwrap();
    let corrections = sections.iter().find(|section| section["name"] == "corrections").unwrap();
    assert_eq!(corrections["rows"], json!([]), "{context}");
}

#[test]
fn a_correction_of_no_item_stands_for_itself() {
    let desk = Desk::new();
    let said = json!({"wrong": "The boat comes on Sundays", "right": "The boat comes on Mondays."});
    let answer = desk.call(CORRECT, said);
    assert!(answer.get("item").is_none());
    assert_eq!(answer["correction"]["attributes"], json!({"wrong": "The boat comes on Sundays"}));
    let found = recall(&desk, "When does the boat come?");
    assert_eq!(texts(&found, "items", "text"), ["The boat comes on Mondays."]);
    for field in ["wrong", "right"] {
        let mut blank = json!({"wrong": "a", "right": "b"});
        blank[field] = json!("  ");
        let why = desk.refusal(CORRECT, blank);
        assert!(why.starts_with(&format!("{field}: is blank")), "{why}");
    }
    let followup = schedule(&desk, json!({"text": "x", "due_at": "2026-02-01T00:00:00Z"}));
    let why = json!({"wrong": "a", "right": "b", "item_id": followup["followup_id"]});
    let why = desk.refusal(CORRECT, why);
    assert!(why.starts_with("item_id: is a followup, which changes with"), "{why}");
}

#[test]
fn a_correction_is_as_closed_as_what_it_corrects() {
    let desk = Desk::new();
    let secret = desk.remember_as("The safe is behind the clock.", Sensitivity::Restricted);
    let put_right = json!({
        "wrong": "behind the clock", "right": "The safe is under the bed.", "item_id": secret,
    });
    let before = desk.started().parts.local.get().store.snapshot().seq();
    let why = desk.refusal_as(&member(), CORRECT, put_right.clone());
    assert_eq!(why, "item_id: there is no such item");
    assert_eq!(
        desk.started().parts.local.get().store.snapshot().seq(),
        before,
        "nothing is written"
    );
    let answer = desk.call(CORRECT, put_right);
    for field in ["correction", "item"] {
        assert_eq!(answer[field]["policy"]["sensitivity"], "restricted", "{field}");
    }
    let query = json!({"query": "Where is the safe, under the bed or behind the clock?"});
    let found = desk.call_as(&member(), "retrieval_arbitrate_tool", query);
    assert_eq!(found["items"], json!([]), "{found}");
    // An item that the caller may not write is not superseded.
    let open = desk.remember("The lamp is red.");
    let reader = Caller { scopes: vec![Scope::MemoryWrite], ..member() };
    let hidden = json!({"wrong": "red", "right": "The lamp is green.", "item_id": open});
    let why = desk.refusal_as(&reader, CORRECT, hidden);
    assert_eq!(why, "item_id: there is no such item", "without tenant:read nothing is known");
    assert_eq!(item(&desk, &json!(open))["status"], "current");
}

#[test]
fn an_outcome_says_how_something_turned_out() {
    let desk = Desk::new();
    let decision = desk.remember("Light the beacon by paraffin.");
    let told = json!({
        "item_id": decision, "subject": "Paraffin in the beacon", "valence": 0.75,
        "note": "It burns clean.", "metric": {"name": "soot", "value": 2, "unit": "mg"},
    });
    let outcome = desk.call(OUTCOME, told)["item"].clone();
    let attributes = json!({
        "valence": 0.75, "subject": "Paraffin in the beacon", "about": decision,
        "note": "It burns clean.", "metric": {"name": "soot", "value": 2.0, "unit": "mg"},
    });
    assert_eq!(outcome["attributes"], attributes);
    let text =
        "Outcome of Paraffin in the beacon: good (valence 0.75)\nIt burns clean.\nsoot: 2 mg";
    assert_eq!(outcome["text"], text);
    let found = recall(&desk, "soot burns clean");
    assert_eq!(texts(&found, "items", "id")[0], outcome["id"].as_str().unwrap());
    let bad = desk.call(OUTCOME, json!({"item_id": decision, "valence": -1}))["item"].clone();
    assert_eq!(bad["text"], format!("Outcome of {decision}: bad (valence -1)"));
    let even = desk.call(OUTCOME, json!({"subject": "Tea", "valence": 0}))["item"].clone();
    assert_eq!(even["text"], "Outcome of Tea: neither good nor bad (valence 0)");
    let why = desk.refusal(OUTCOME, json!({"valence": 1}));
    assert_eq!(why, "subject: is missing, and so is item_id; one of them is wanted");
    for valence in [json!(-1.001), json!(1.5)] {
        let why = desk.refusal(OUTCOME, json!({"subject": "x", "valence": valence}));
        assert!(why.ends_with("-1 to 1 is allowed"), "{why}");
    }
    let unknown = json!({"subject": "x", "valence": 1, "metric": {"name": "a", "value": "many"}});
    let why = desk.refusal(OUTCOME, unknown);
    assert!(why.starts_with("metric: has a wrong field: value: "), "{why}");
}

#[test]
fn an_outcome_is_as_closed_as_what_it_is_of() {
    let desk = Desk::new();
    let secret = desk.remember_as("The safe is behind the clock.", Sensitivity::Restricted);
    let told = json!({"item_id": secret, "valence": -1, "note": "It was found by a burglar."});
    let why = desk.refusal_as(&member(), OUTCOME, told.clone());
    assert_eq!(why, "item_id: there is no such item");
    desk.call(OUTCOME, told);
    let query = json!({"query": "burglar found"});
    let found = desk.call_as(&member(), "retrieval_arbitrate_tool", query);
    assert_eq!(found["items"], json!([]));
    // If the subject is hidden later, its id is no longer disclosed.
    let open = desk.remember("The lamp is red.");
    let kept = json!({"item_id": open, "valence": 1, "idempotency_key": "k"});
    let first = desk.call_as(&member(), OUTCOME, kept.clone());
    assert_eq!(first["item"]["attributes"]["about"], json!(open));
    let id = recalld_common::names::parse_item(&open).unwrap();
    desk.write(engine::Batch {
        tombstones: vec![engine::TombstoneDraft {
            target: id.0,
            by: "test".to_owned(),
            ..engine::TombstoneDraft::default()
        }],
        ..engine::Batch::default()
    });
    let again = desk.call_as(&member(), OUTCOME, kept);
    assert_eq!(again["item"]["id"], first["item"]["id"]);
    assert!(again["item"]["attributes"].get("about").is_none(), "{again}");
}

#[test]
fn a_followup_is_open_until_it_is_done() {
    let desk = Desk::new();
    let about = desk.remember("The wick was trimmed.");
    let wanted = json!({
        "text": "Check the wick", "due_at": "2026-01-14T12:00:00+02:00", "item_id": about,
    });
    let open = schedule(&desk, wanted);
    assert_eq!(open["due_at"], "2026-01-14T10:00:00Z");
    assert_eq!(open["due_local"], "2026-01-14T12:00:00+02:00[+02:00]");
    assert_eq!(
        (&open["state"], &open["repeat"], &open["timezone"], &open["about"]),
        (&json!("open"), &json!("none"), &json!("+02:00"), &json!(about))
    );
    assert_eq!(open["followup_id"], open["item_id"]);
    let none = desk.call(DUE, json!({}));
    assert_eq!(none["followups"], json!([]), "it is half past nine");
    desk.set_time("2026-01-14T10:00:00Z");
    let due = desk.call(DUE, json!({}));
    assert_eq!(due["followups"][0]["overdue_by"], "PT0S");
    assert_eq!(due["followups"][0]["followup_id"], open["followup_id"]);
    desk.set_time("2026-01-15T12:03:04Z");
    assert_eq!(desk.call(DUE, json!({}))["followups"][0]["overdue_by"], "PT26H3M4S");
    let words = desk.try_call(&operator(), DUE, json!({})).unwrap().text;
    assert!(words.contains(", overdue by 1 day 2 hours: "), "{words}");
    let done = json!({"followup_id": open["followup_id"], "note": "It is short."});
    let answer = desk.call(COMPLETE, done.clone());
    let done_now = &answer["followup"];
    assert_eq!(
        (&done_now["state"], &done_now["note"], &done_now["followup_id"]),
        (&json!("done"), &json!("It is short."), &open["followup_id"])
    );
    assert_ne!(done_now["item_id"], open["item_id"], "a change of state is a new version");
    assert!(answer.get("next").is_none() && done_now.get("overdue_by").is_none());
    assert_eq!(item(&desk, &open["item_id"])["superseded_by"], done_now["item_id"]);
    assert_eq!(desk.call(DUE, json!({}))["followups"], json!([]));
    for id in [&open["item_id"], &done_now["item_id"]] {
        let why = desk.refusal(COMPLETE, json!({"followup_id": id}));
        let wanted =
            "followup_id: was done at 2026-01-15T12:03:04Z; an open one is wanted".to_owned();
        assert_eq!(why, wanted);
    }
    let found = recall(&desk, "wick short");
    assert!(texts(&found, "items", "id").contains(&done_now["item_id"].as_str().unwrap()));
    let why = desk.refusal(COMPLETE, json!({"followup_id": about}));
    assert_eq!(why, "followup_id: is the id of a note; that of a followup is wanted");
}

/// Completes each follow-up when it is due and returns the local due times of its successors.
fn done_again_and_again(desk: &Desk, first: Value, times: usize) -> Vec<String> {
    let mut open = schedule(desk, first);
    let mut due = Vec::new();
    for _ in 0..times {
        desk.set_time(open["due_at"].as_str().unwrap());
        let answer = desk.call(COMPLETE, json!({"followup_id": open["followup_id"]}));
        let next = answer["next"].clone();
        assert_ne!(next["followup_id"], open["followup_id"], "the next one is one of its own");
        assert_eq!((&next["text"], &next["state"]), (&open["text"], &json!("open")));
        due.push(next["due_local"].as_str().unwrap().split('[').next().unwrap().to_owned());
        open = next;
    }
    due
}

#[test]
fn the_next_one_keeps_its_hour_and_its_day() {
    let desk = Desk::new();
    let zone = "America/New_York";
    let new_york = |due: &str, repeat: &str| json!({"text": "x", "due_at": due, "repeat": repeat, "timezone": zone});
    let spring = new_york("2026-03-07T14:00:00Z", "daily");
    let spring = done_again_and_again(&desk, spring, 2);
    assert_eq!(spring, ["2026-03-08T09:00:00-04:00", "2026-03-09T09:00:00-04:00"]);
    let autumn = new_york("2026-10-25T09:00:00-04:00", "weekly");
    let autumn = done_again_and_again(&desk, autumn, 2);
    assert_eq!(autumn, ["2026-11-01T09:00:00-05:00", "2026-11-08T09:00:00-05:00"]);
    let lost = new_york("2027-03-13T02:30:00-05:00", "daily");
    let lost = done_again_and_again(&desk, lost, 2);
    assert_eq!(lost, ["2027-03-14T03:30:00-04:00", "2027-03-15T02:30:00-04:00"]);
    let kathmandu = json!({
        "text": "x", "due_at": "2028-01-31T00:15:00+05:45", "repeat": "monthly",
        "timezone": "asia/kathmandu",
    });
    let kathmandu = done_again_and_again(&desk, kathmandu, 3);
    let days = ["02-29", "03-31", "04-30"];
    assert_eq!(kathmandu, days.map(|day| format!("2028-{day}T00:15:00+05:45")));
    let apia = json!({
        "text": "x", "due_at": "2011-12-29T09:00:00-10:00[Pacific/Apia]", "repeat": "daily",
    });
    let apia = done_again_and_again(&desk, apia, 2);
    assert_eq!(apia, ["2011-12-31T09:00:00+14:00", "2012-01-01T09:00:00+14:00"]);
    let offset = json!({"text": "x", "due_at": "2026-01-31T23:00:00-05:00", "repeat": "monthly"});
    let offset = done_again_and_again(&desk, offset, 2);
    let there = ["2026-02-28T23:00:00-05:00", "2026-03-31T23:00:00-05:00"];
    assert_eq!(offset, there, "the day is that of the offset, not of UTC");
    let leap = json!({"text": "x", "due_at": "2028-02-29T12:00:00Z", "repeat": "monthly"});
    assert_eq!(done_again_and_again(&desk, leap, 1), ["2028-03-29T12:00:00+00:00"]);
}

#[test]
fn the_next_one_is_after_now_and_after_the_one_before() {
    let desk = Desk::new();
    let daily = json!({"text": "x", "due_at": "2026-01-14T12:00:00Z", "repeat": "daily"});
    let early = schedule(&desk, daily.clone());
    let next = |open: &Value| {
        desk.call(COMPLETE, json!({"followup_id": open["followup_id"], "note": "n"}))["next"]
            .clone()
    };
    let second = next(&early);
    assert_eq!(second["due_at"], "2026-01-15T12:00:00Z", "done before it was due");
    assert!(second.get("note").is_none(), "what came of the one before is not its own");
    desk.set_time("2026-02-20T13:00:00Z");
    assert_eq!(next(&second)["due_at"], "2026-02-21T12:00:00Z", "what was missed is missed");
    let list = desk.call(DUE, json!({"before": "2026-03-01T00:00:00Z"}));
    assert_eq!(texts(&list, "followups", "due_at"), ["2026-02-21T12:00:00Z"]);
    let wrong = json!({"text": "x", "due_at": "2026-01-14T12:00:00Z", "timezone": "Mars/Base"});
    let why = desk.refusal(SCHEDULE, wrong);
    assert!(why.contains("timezone: ") && why.contains("Europe/Berlin is wanted"), "{why}");
    for due in ["soon", "2026-01-14", "2026-01-14T12:00:00", "2026-01-14T12:00:00Z[Mars/Base]"] {
        let why = desk.refusal(SCHEDULE, json!({"text": "x", "due_at": due}));
        assert!(why.starts_with("due_at: "), "{due}: {why}");
    }
}

#[test]
fn what_is_due_is_listed_soonest_first_in_pages() {
    let desk = Desk::new();
    for n in (0..45).rev() {
        // Two at each time, so that their order matters as well.
        let due = format!("2026-01-13T{:02}:00:00Z", n / 2);
        schedule(&desk, json!({"text": format!("thing {n}"), "due_at": due}));
    }
    schedule(&desk, json!({"text": "later", "due_at": "2026-01-20T00:00:00Z"}));
    let (mut seen, mut arguments) = (Vec::new(), json!({}));
    loop {
        let page = desk.call(DUE, arguments.clone());
        for row in page["followups"].as_array().unwrap() {
            seen.push((row["due_at"].clone(), row["text"].as_str().unwrap().to_owned()));
        }
        assert_eq!(page["truncated"], page.get("next_cursor").is_some());
        let Some(cursor) = page.get("next_cursor") else { break };
        assert_eq!(page["followups"].as_array().unwrap().len(), 20);
        arguments["cursor"] = cursor.clone();
        // Added meanwhile, before the cursor's position.
        schedule(&desk, json!({"text": "early", "due_at": "2026-01-01T00:00:00Z"}));
    }
    let times: Vec<String> = seen.iter().map(|(due, _)| due.to_string()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let mut names: Vec<&str> = seen.iter().map(|(_, text)| text.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((seen.len(), names.len()), (45, 45), "nothing twice, nothing lost");
    let other = json!({"before": "2026-01-14T00:00:00Z", "cursor": arguments["cursor"]});
    assert!(desk.refusal(DUE, other).starts_with("cursor: is none"));
    let far = desk.call(DUE, json!({"before": "2026-01-01T00:00:00Z"}));
    assert_eq!(texts(&far, "followups", "text"), ["early", "early"]);
    let ahead = schedule(&desk, json!({"text": "next year", "due_at": "2025-01-01T00:00:00Z"}));
    desk.set_time("2024-12-31T00:00:00Z");
    let ahead_of = desk.call(DUE, json!({"before": "2025-01-01T00:00:00Z"}));
    assert_eq!(ahead_of["followups"][0]["followup_id"], ahead["followup_id"]);
    assert!(ahead_of["followups"][0].get("overdue_by").is_none(), "it is not due yet");
}

#[test]
fn what_policy_hides_of_followups_stays_hidden() {
    let desk = Desk::new();
    let due = |text: &str| json!({"text": text, "due_at": "2026-01-14T09:00:00Z"});
    let ids: Vec<Value> = ["open", "veiled", "secret"]
        .map(|text| schedule(&desk, due(text))["followup_id"].clone())
        .into();
    desk.revise(ids[1].as_str().unwrap(), |item| item.gates = vec![VEILED.to_owned()]);
    desk.revise(ids[2].as_str().unwrap(), |item| item.sensitivity = Sensitivity::Restricted);
    let list = desk.call_as(&member(), DUE, json!({}));
    let mut shown = texts(&list, "followups", "text");
    shown.sort_unstable();
    assert_eq!(shown, ["[redacted by policy]", "open"]);
    let rows = list["followups"].as_array().unwrap();
    let redacted = rows.iter().find(|row| row["followup_id"] == ids[1]).unwrap();
    assert_eq!(redacted.as_object().unwrap().len(), 3, "ids, and that it is redacted: {redacted}");
    assert_eq!(list["receipt"]["decision"], "allow");
    let why = desk.refusal_as(&member(), COMPLETE, json!({"followup_id": ids[2]}));
    assert_eq!(why, "followup_id: there is no such item");
    let secret = desk.remember_as("The safe is behind the clock.", Sensitivity::Restricted);
    let mut about = due("look at the safe");
    about["item_id"] = json!(secret);
    let why = desk.refusal_as(&member(), SCHEDULE, about.clone());
    assert_eq!(why, "item_id: there is no such item");
    desk.call(SCHEDULE, about);
    let list = desk.call_as(&member(), DUE, json!({}));
    assert_eq!(list["followups"].as_array().unwrap().len(), 2, "it is as closed as the safe");
}

#[test]
fn a_repeat_with_the_key_is_told_the_same_and_writes_nothing() {
    let desk = Desk::new();
    let about = desk.remember("The lamp is red.");
    let open = schedule(&desk, json!({"text": "x", "due_at": "2026-01-01T00:00:00Z"}));
    let seq = || desk.started().parts.local.get().store.snapshot().seq();
    for (tool, mut arguments, other) in [
        (CAPTURE, json!({"intent": "a"}), "intent"),
        (
            CORRECT,
            json!({"wrong": "red", "right": "The lamp is green.", "item_id": about}),
            "right",
        ),
        (OUTCOME, json!({"subject": "a", "valence": 1}), "subject"),
        (SCHEDULE, json!({"text": "a", "due_at": "2026-01-01T00:00:00Z"}), "text"),
        (COMPLETE, json!({"followup_id": open["followup_id"], "note": "n"}), "note"),
    ] {
        arguments["idempotency_key"] = json!("k");
        let told = || {
            let mut answer = desk.call(tool, arguments.clone());
            // Receipts contain the time of the call.
            answer.as_object_mut().unwrap().remove("receipt");
            answer
        };
        let first = told();
        let after = seq();
        assert_eq!(told(), first, "{tool}");
        assert_eq!(seq(), after, "{tool}");
        let mut changed = arguments.clone();
        changed[other] = json!("something else");
        let why = desk.refusal(tool, changed);
        assert!(why.starts_with("idempotency_key: was used before with other"), "{why}");
    }
}

#[test]
fn of_two_that_complete_the_same_followup_one_is_refused() {
    let desk = Desk::new();
    for _ in 0..20 {
        let daily = json!({"text": "x", "due_at": "2026-01-14T00:00:00Z", "repeat": "daily"});
        let open = schedule(&desk, daily);
        let done = json!({"followup_id": open["followup_id"]});
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let calls = [0, 1].map(|_| {
                let (desk, done) = (&desk, done.clone());
                scope.spawn(move || desk.try_call(&operator(), COMPLETE, done).is_ok())
            });
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|&&done| done).count(), 1, "{ends:?}");
    }
    let far = desk.call(DUE, json!({"before": "2026-01-16T00:00:00Z"}));
    assert_eq!(far["followups"].as_array().unwrap().len(), 20, "one next for each");
}
