//! Daily briefs and startup contexts: their contents, policy and grounding.

use engine::{Batch, ItemDraft, Sensitivity};
use recalld_audit::{check, tenant_hash};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator, time};
use support_wire::service::write;

const BRIEF: &str = "generate_daily_brain_brief_tool";
const STARTUP: &str = "brain_startup_context_tool";

/// A field of all rows in a section of a brief or startup context.
fn said(answer: &Value, section: &str, field: &str) -> Vec<String> {
    let sections = answer["sections"].as_array().unwrap();
    let found = sections.iter().find(|one| one["name"] == section);
    let rows = found.map(|one| one["rows"].as_array().unwrap().clone()).unwrap_or_default();
    rows.iter().map(|row| row[field].as_str().unwrap_or_default().to_owned()).collect()
}

fn remember(desk: &Desk, kind: &str, text: &str) -> String {
    let item = desk.call("brain_remember", json!({"text": text, "kind": kind}));
    item["item"]["id"].as_str().unwrap().to_owned()
}

/// Checks that each row's token is valid for the row's item and its displayed text.
fn assert_grounded(desk: &Desk, answer: &Value) {
    let mut count = 0;
    for section in answer["sections"].as_array().unwrap() {
        for row in section["rows"].as_array().unwrap() {
            let token = row["grounding_token"].as_str().unwrap();
            let verifier = desk.started().parts.local.get().signer.verifier();
            let good = check(token, &verifier, &tenant_hash("local")).unwrap();
            let id = names::parse_item(row["id"].as_str().unwrap()).unwrap();
            assert_eq!(good.item, id.0.to_le_bytes(), "{row}");
            let snapshot = desk.started().parts.local.get().store.snapshot();
            let place = snapshot.find(id).unwrap().unwrap();
            assert!(good.is_of(&snapshot.item(place).unwrap().content_sha256), "{row}");
            count += 1;
        }
    }
    assert!(count > 0, "nothing to look at in {answer}");
}

/// A day with one event of each type.
fn busy() -> (Desk, Value) {
    let desk = Desk::new();
    desk.set_time("2026-01-13T12:00:00Z");
    let old = remember(&desk, "decision", "Light the beacon by gas.");
    let task = desk.call("record_task_attempt_tool", json!({"task": "Trim the wick"}));
    let task = &task["attempt"]["attempt_id"];
    desk.set_time("2026-01-14T09:00:00Z");
    let new = json!({
        "text": "Light the beacon by paraffin.", "kind": "decision", "supersedes": old,
    });
    desk.call("brain_remember", new);
    remember(&desk, "note", "The sea was calm.");
    let put_right = json!({"wrong": "on Sundays", "right": "The boat comes on Mondays."});
    desk.call("record_operator_correction_tool", put_right);
    let outcome = json!({"subject": "Paraffin", "valence": 0.5});
    desk.call("record_outcome_valence_tool", outcome);
    let moved = json!({"attempt_id": task, "status": "succeeded"});
    desk.call("update_task_attempt_status_tool", moved);
    for (text, due) in [("Buy wicks", "2026-01-20T00:00:00Z"), ("Far away", "2026-02-20T00:00:00Z")]
    {
        desk.call("schedule_followup_tool", json!({"text": text, "due_at": due}));
    }
    // Benchmark results are not part of a brief.
    desk.call("brain_benchmark_encoder", json!({"tokens": 4, "n": 1}));
    // Ingest uses the store's own clock, so this document is written directly, in the form of an ingest.
    let document = ItemDraft {
        kind: "document".to_owned(),
        modality: "text".to_owned(),
        title: "Kelp".to_owned(),
        text: "Kelp grows by the pier.".to_owned(),
        recorded_at: Some(time("2026-01-14T09:00:00Z")),
        recorded_by: "test".to_owned(),
        via: "ingest".to_owned(),
        ..ItemDraft::default()
    };
    desk.write(Batch { items: vec![document], ..Batch::default() });
    (desk, json!(old))
}

#[test]
fn a_brief_has_what_the_day_brought_in_its_sections() {
    let (desk, old) = busy();
    let brief = desk.call(BRIEF, json!({"format": "json"}));
    assert_eq!(
        brief["day"],
        json!({
            "date": "2026-01-14", "timezone": "UTC", "from": "2026-01-14T00:00:00Z",
            "to": "2026-01-15T00:00:00Z", "hours": 24.0,
        })
    );
    assert_eq!(said(&brief, "decisions", "title"), ["Light the beacon by paraffin."]);
    assert_eq!(said(&brief, "corrections", "wrong"), ["on Sundays"]);
    assert_eq!(said(&brief, "outcomes", "title"), ["Outcome of Paraffin: good (valence 0.5)"]);
    assert_eq!(said(&brief, "tasks", "status"), ["succeeded"]);
    assert_eq!(said(&brief, "due", "title"), ["Buy wicks"]);
    assert_eq!(said(&brief, "due", "due_at"), ["2026-01-20T00:00:00Z"]);
    assert_eq!(said(&brief, "ingested", "title"), ["Kelp"]);
    let recorded = ["Far away", "Buy wicks", "The sea was calm."];
    assert_eq!(said(&brief, "recorded", "title"), recorded);
    assert_eq!(said(&brief, "superseded", "id"), [old.as_str().unwrap()]);
    assert_eq!(brief["truncated"], false);
    assert_grounded(&desk, &brief);
    let yesterday = desk.call(BRIEF, json!({"format": "json", "date": "2026-01-13"}));
    assert_eq!(said(&yesterday, "decisions", "status"), ["superseded"], "{yesterday}");
    assert_eq!(said(&yesterday, "tasks", "status"), ["superseded"]);
    assert_eq!(said(&yesterday, "recorded", "id"), Vec::<String>::new());
}

#[test]
fn a_brief_in_words_names_the_item_of_each_line_and_its_token() {
    let (desk, _) = busy();
    let answer = desk.try_call(&operator(), BRIEF, json!({})).unwrap();
    let text = answer.structured["markdown"].as_str().unwrap();
    assert!(text.starts_with("# Brief of 2026-01-14 (UTC)\n"), "{text}");
    for line in [
        "## Decisions: 1\n\n- Light the beacon by paraffin. [decision, itm_",
        "## Corrections: 1\n\n- The boat comes on Mondays. (not: on Sundays) [correction, itm_",
        "## Tasks moved: 1\n\n- Trim the wick (succeeded) [task_attempt, tsk_",
        "## Due next: 1\n\n- Buy wicks (open, due 2026-01-20T00:00:00Z) [followup, fup_",
        "## Superseded today: 1\n\n- Light the beacon by gas. [itm_",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let (lines, tokens) = text.split_once("\n## Grounding tokens\n\n").unwrap();
    for line in lines.lines().filter(|line| line.starts_with("- ")) {
        let id = line.rsplit_once('[').unwrap().1.trim_end_matches(']');
        let id = id.rsplit_once(' ').map_or(id, |(_, id)| id);
        assert!(tokens.contains(&format!("- {id}: ")), "{line}");
    }
    assert!(tokens.lines().all(|line| line.rsplit_once(": ").unwrap().1.len() == 152), "{tokens}");
    assert!(!answer.text.contains("Grounding tokens"), "the block for people is short");
    assert!(answer.structured.get("sections").is_none());
}

#[test]
fn a_day_is_that_of_its_zone() {
    let desk = Desk::new();
    for (at, text) in [
        ("2026-03-08T04:59:59Z", "late on the 7th"),
        ("2026-03-08T05:00:00Z", "first on the 8th"),
        ("2026-03-09T03:59:59Z", "last on the 8th"),
        ("2026-03-09T04:00:00Z", "first on the 9th"),
        ("2026-11-01T04:00:00Z", "first of November"),
        ("2026-11-02T04:59:59Z", "last of that day"),
        ("2026-11-02T05:00:00Z", "the day after"),
        ("2026-11-20T18:15:00Z", "midnight in Kathmandu"),
    ] {
        desk.set_time(at);
        desk.remember(text);
    }
    let of = |date: &str, zone: &str| {
        let brief = json!({"date": date, "timezone": zone, "format": "json"});
        let brief = desk.call(BRIEF, brief);
        let mut said = said(&brief, "recorded", "title");
        said.reverse();
        (brief["day"]["hours"].as_f64().unwrap(), said)
    };
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let short = (23.0, texts(&["first on the 8th", "last on the 8th"]));
    assert_eq!(of("2026-03-08", "America/New_York"), short);
    let long = (25.0, texts(&["first of November", "last of that day"]));
    assert_eq!(of("2026-11-01", "America/New_York"), long);
    assert_eq!(of("2026-11-21", "Asia/Kathmandu"), (24.0, texts(&["midnight in Kathmandu"])));
    assert_eq!(of("2026-11-20", "Asia/Kathmandu").1, texts(&[]));
    assert_eq!(of("2011-12-30", "Pacific/Apia"), (0.0, texts(&[])), "a day that was left out");
    let today = desk.call(BRIEF, json!({"timezone": "Pacific/Apia"}));
    assert_eq!(today["day"]["date"], "2026-11-21");
    for (field, value) in [("date", "2026-02-30"), ("timezone", "Berlin"), ("format", "text")] {
        let mut wrong = json!({});
        wrong[field] = json!(value);
        let why = desk.refusal(BRIEF, wrong);
        assert!(why.starts_with(&format!("{field}: ")) && why.contains("wanted"), "{why}");
    }
    let end = desk.refusal(BRIEF, json!({"date": "9999-12-31"}));
    assert!(end.starts_with("date: is 9999-12-31, at an end"), "{end}");
}

#[test]
fn a_brief_shows_nothing_that_policy_denies_and_redacts_what_it_redacts() {
    let desk = Desk::new();
    desk.remember("The lamp is lit.");
    desk.remember_as("The safe is behind the clock.", Sensitivity::Restricted);
    let veiled = json!({"text": "The key is blue.", "gates": [VEILED]});
    desk.call("brain_remember", veiled);
    let old = desk.remember("Old and open.");
    let hidden = json!({"text": "New and closed.", "sensitivity": "restricted", "supersedes": old});
    desk.call("brain_remember", hidden);
    let reader = Caller { scopes: vec![Scope::TenantRead], ..member() };
    let brief = desk.call_as(&reader, BRIEF, json!({"format": "json"}));
    let titles = said(&brief, "recorded", "title");
    assert_eq!(titles, ["Old and open.", "[redacted by policy]", "The lamp is lit."]);
    assert_eq!(said(&brief, "superseded", "title"), Vec::<String>::new());
    let row = &brief["sections"][0]["rows"][1];
    assert_eq!(row.as_object().unwrap().len(), 3, "id, title and token: {row}");
    assert!(brief.get("withheld").is_none(), "{brief}");
    assert_eq!(brief["receipt"]["decision"], "allow");
    let entry = desk.entry(&brief["receipt"]);
    assert_eq!(entry.touched.len(), 5, "the ledger has what was kept back");
    let auditor = Caller { scopes: vec![Scope::TenantRead, Scope::AuditRead], ..member() };
    let brief = desk.call_as(&auditor, BRIEF, json!({"format": "json"}));
    assert_eq!(brief["withheld"], 2);
    assert_eq!(brief["receipt"]["decision"], "deny");
    let all = desk.call(BRIEF, json!({"format": "json"}));
    assert_eq!(said(&all, "superseded", "title"), ["Old and open."]);
}

#[test]
fn what_is_remembered_is_counted_without_what_the_service_keeps_for_itself() {
    let desk = Desk::new();
    let counted = |desk: &Desk| {
        let text = desk.call(BRIEF, json!({}))["markdown"].as_str().unwrap().to_owned();
        let at = text.find("Remembered in all: ").unwrap();
        text[at..].lines().next().unwrap().to_owned()
    };
    let none = "Remembered in all: 0 items, documents as one each.";
    assert_eq!(counted(&desk), none);
    desk.call("brain_benchmark_encoder", json!({"tokens": 8, "n": 1}));
    assert_eq!(counted(&desk), none, "figures are no memories");
    desk.call("brain_remember", json!({"text": "One.", "idempotency_key": "k"}));
    write(&desk.files(), "a.md", "# A\n\nOne.\n\n# B\n\nTwo.\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    assert_eq!(counted(&desk), none.replace('0', "2"));
}

#[test]
fn a_long_day_is_cut_and_says_so() {
    let desk = Desk::new();
    for n in 0..60 {
        desk.remember(&format!("Thing {n} {}", "x".repeat(200)));
    }
    let brief = desk.call(BRIEF, json!({"format": "json"}));
    assert_eq!(brief["sections"][0]["count"], 60);
    assert_eq!(said(&brief, "recorded", "title").len(), 50);
    assert_eq!(brief["truncated"], true);
    assert_eq!(brief["bounds"], json!({"rows": 50, "bytes": 49_152}));
    let text = desk.call(BRIEF, json!({}))["markdown"].as_str().unwrap().to_owned();
    assert!(text.contains("- and 10 more\n"), "{text}");
    for kind in ["decision", "outcome", "correction"] {
        for n in 0..50 {
            remember(&desk, kind, &format!("{kind} {n} {}", "y".repeat(200)));
        }
    }
    let full = desk.call(BRIEF, json!({"format": "json"}));
    assert!(full["sections"].to_string().len() < (48 << 10) + 1_000);
    assert_eq!(said(&full, "decisions", "id").len(), 50, "what matters most has room");
    assert!(said(&full, "recorded", "id").len() < 50, "and what matters least has not");
}

#[test]
fn a_start_has_what_stands_and_nothing_that_is_over() {
    let (desk, _) = busy();
    remember(&desk, "preference", "The operator wants short answers.");
    let past = json!({
        "text": "Only until noon.", "kind": "preference", "valid_to": "2026-01-14T08:00:00Z",
    });
    desk.call("brain_remember", past);
    for (intent, horizon) in [("Today's", "today"), ("Someday's", "open"), ("Due", "today")] {
        let mut intent = json!({"intent": intent, "horizon": horizon});
        if intent["intent"] == "Due" {
            intent["due_at"] = json!("2026-03-01T00:00:00Z");
        }
        desk.call("capture_operator_intent_tool", intent);
    }
    for (task, status) in [("Paint the door", "planned"), ("Oil the hinge", "running")] {
        desk.call("record_task_attempt_tool", json!({"task": task, "status": status}));
    }
    let start = desk.call(STARTUP, json!({}));
    let sections = start["sections"].as_array().unwrap();
    let names: Vec<&str> = sections.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let wanted = ["preferences", "intents", "decisions", "corrections", "tasks", "followups"];
    assert_eq!(names, wanted);
    assert_eq!(said(&start, "preferences", "text"), ["The operator wants short answers."]);
    let mut intents = said(&start, "intents", "text");
    intents.sort_unstable();
    assert_eq!(intents, ["Due", "Someday's", "Today's"]);
    assert_eq!(said(&start, "decisions", "text"), ["Light the beacon by paraffin."]);
    assert_eq!(said(&start, "corrections", "text"), ["The boat comes on Mondays."]);
    let mut tasks = said(&start, "tasks", "title");
    tasks.sort_unstable();
    assert_eq!(tasks, ["Oil the hinge", "Paint the door"], "the one that succeeded is over");
    assert_eq!(said(&start, "followups", "id"), Vec::<String>::new());
    assert_eq!((&start["truncated"], &start["bounds"]["bytes"]), (&json!(false), &json!(8192)));
    assert_grounded(&desk, &start);
    desk.set_time("2026-02-19T12:00:00Z");
    let later = desk.call(STARTUP, json!({}));
    let mut intents = said(&later, "intents", "text");
    intents.sort_unstable();
    assert_eq!(intents, ["Due", "Someday's"], "a day's intent lapses, but not before it is due");
    assert_eq!(said(&later, "corrections", "text"), Vec::<String>::new());
    assert_eq!(said(&later, "followups", "title"), ["Buy wicks", "Far away"]);
}

#[test]
fn a_start_fits_its_room_and_says_what_has_none() {
    let desk = Desk::new();
    for n in 0..30 {
        remember(&desk, "preference", &format!("Preference {n} {}", "p".repeat(300)));
        remember(&desk, "decision", &format!("Decision {n} {}", "d".repeat(900)));
    }
    desk.call("record_operator_correction_tool", json!({"wrong": "a", "right": "b"}));
    let due = json!({"text": "now", "due_at": "2026-01-14T00:00:00Z"});
    desk.call("schedule_followup_tool", due);
    for bytes in [1024, 4096, 8192, 65_536] {
        let start = desk.call(STARTUP, json!({"max_bytes": bytes}));
        let sections = start["sections"].as_array().unwrap();
        let mut used = 0;
        for section in sections {
            let rows = section["rows"].as_array().unwrap();
            used += rows.iter().map(|row| row.to_string().len() + 1).sum::<usize>();
        }
        assert!(used <= bytes, "{used} of {bytes}");
        let is_whole = bytes == 65_536;
        assert_eq!(start["truncated"], !is_whole, "{bytes}");
        let (first, second) = (&sections[0], &sections[2]);
        let rows = |section: &Value| section["rows"].as_array().unwrap().len() as u64;
        for section in [first, second] {
            assert_eq!(rows(section) + section["left_out"].as_u64().unwrap(), 30);
        }
        if bytes >= 8192 {
            assert!(rows(second) > 0, "no section keeps all others out");
            assert_eq!(said(&start, "corrections", "text"), ["b"]);
            assert_eq!(said(&start, "followups", "title"), ["now"]);
            assert!(second["rows"][0].get("snippet").is_some(), "a long text is cut");
        }
    }
    let answer = desk.try_call(&operator(), STARTUP, json!({"max_bytes": 4096})).unwrap();
    assert!(answer.text.contains("more had no room"), "{}", answer.text);
    for bytes in [1023, 65_537] {
        let why = desk.refusal(STARTUP, json!({"max_bytes": bytes}));
        assert_eq!(why, format!("max_bytes: is {bytes}; 1024 to 65536 is allowed"));
    }
}

#[test]
fn a_start_has_what_the_caller_reads_and_nothing_else() {
    let desk = Desk::new();
    for (text, gates, sensitivity) in [
        ("Be brief.", json!([]), "internal"),
        ("Be veiled.", json!([VEILED]), "internal"),
        ("Be silent.", json!([]), "restricted"),
    ] {
        let preference =
            json!({"text": text, "kind": "preference", "gates": gates, "sensitivity": sensitivity});
        desk.call("brain_remember", preference);
    }
    let start = desk.call_as(&member(), STARTUP, json!({}));
    assert_eq!(said(&start, "preferences", "text"), ["Be brief."]);
    assert_eq!(start["sections"][0]["left_out"], 0);
    assert_eq!(start["receipt"]["decision"], "allow");
    assert_eq!(desk.call(STARTUP, json!({}))["sections"][0]["rows"].as_array().unwrap().len(), 3);
    let empty = Desk::new();
    let answer = empty.try_call(&member(), STARTUP, json!({})).unwrap();
    assert_eq!(answer.text, "Nothing to begin with is on record.");
}
