//! Natural-language commands: accuracy of intent recognition on our own cases, and the effect of recognized commands.
//!
//! The author of the rules also wrote all cases. For `tuned` cases, failures were inspected while the rules were
//! written. The later, more freely worded ones of them were routed correctly in 64 to 74 of 100 cases when new. Each of
//! five such batches had at most one unrequested write, which is the accuracy to expect for such wording. The
//! `held_out` cases were written before the first rule; only their totals were inspected. The `extra` cases were
//! written afterwards, and no rule was made for any of them.

use std::collections::BTreeMap;
use std::fs;
use support_wire::tree::workspace;

use engine::ledger::Effect;
use recalld_common::cancel::CancellationToken;
use recalld_common::scope::Scope;
use recalld_policy::plans::Plans;
use recalld_policy::rate::key_of;
use recalld_policy::{Caller, Metered};
use recalld_tool_framework::{Change, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Value, json};
use support_server::desk::{Desk, member, operator};
use support_server::sample_catalog;
use support_wire::service::write;

const TOOL: &str = "brain_command";
/// The tool name if no tool is chosen or expected.
const NONE: &str = "none";
/// For each set: the least share of correctly routed commands, and the least number of commands.
const SETS: [(&str, f64, u32); 3] =
    [("tuned", 0.97, 120), ("held_out", 0.95, 120), ("extra", 0.9, 60)];
/// The least share of correctly routed commands over all sets.
const RIGHT_MIN: f64 = 0.95;
/// The least share of arguments that are extracted as expected.
const ARGUMENTS_MIN: f64 = 0.95;

fn cases() -> Vec<Value> {
    let path = workspace().join("tests/labelled/commands.jsonl");
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_there(tool: &str) -> bool {
    family_of(tool).is_some()
}

fn family_of(tool: &str) -> Option<&'static str> {
    let family = CATALOG.families().find(|family| family.tools.iter().any(|row| row.name == tool));
    family.map(|family| family.name)
}

fn writes(tool: &str) -> bool {
    let mut tools = CATALOG.tools();
    tools.any(|row| row.name == tool && row.change != Change::Nothing)
}

/// The routing of a command, by a dry run.
fn routed(desk: &Desk, command: &str) -> Value {
    desk.call(TOOL, json!({"command": command, "dry_run": true}))
}

/// Number of correct cases, and of all cases.
#[derive(Debug, Default, Clone, Copy)]
struct Share(u32, u32);

impl Share {
    fn add(&mut self, right: bool) {
        self.0 += u32::from(right);
        self.1 += 1;
    }

    fn of_one(self) -> f64 {
        f64::from(self.0) / f64::from(self.1.max(1))
    }
}

/// Results over all sets.
#[derive(Default)]
struct Score {
    sets: BTreeMap<String, Share>,
    arguments: BTreeMap<String, Share>,
    /// By family: precision over the given tools, and recall over the wanted tools.
    given: BTreeMap<&'static str, Share>,
    wanted: BTreeMap<&'static str, Share>,
    confused: BTreeMap<(String, String), u32>,
    /// Commands routed to a write tool that request no write.
    unasked: Vec<String>,
}

impl Score {
    fn add(&mut self, case: &Value, answer: &Value) {
        let (set, command) = (case["set"].as_str().unwrap(), case["command"].as_str().unwrap());
        let wanted = case["tool"].as_str().unwrap_or(NONE);
        let given = answer["routed_to"].as_str().unwrap_or(NONE);
        let is_right = wanted == given;
        self.sets.entry(set.to_owned()).or_default().add(is_right);
        let family = |tool| family_of(tool).unwrap_or(NONE);
        self.given.entry(family(given)).or_default().add(is_right);
        self.wanted.entry(family(wanted)).or_default().add(is_right);
        if writes(given) && !writes(wanted) {
            self.unasked.push(command.to_owned());
        }
        if !is_right {
            *self.confused.entry((wanted.to_owned(), given.to_owned())).or_default() += 1;
        }
        // Failures of the other sets are not printed, because these sets must not be used for tuning.
        let tells = set == "tuned";
        if tells && !is_right {
            println!("{command}: {given}, not {wanted}; {}", answer["why"]);
        }
        let Some(arguments) = case["arguments"].as_object().filter(|_| is_right) else { return };
        for (name, value) in arguments {
            let is_so = answer["arguments"][name] == *value;
            self.arguments.entry(set.to_owned()).or_default().add(is_so);
            if tells && !is_so {
                println!("{command}: {name} is {}, not {value}", answer["arguments"][name]);
            }
        }
    }

    fn print(&self) {
        for (set, share) in &self.sets {
            let arguments = self.arguments.get(set).copied().unwrap_or_default();
            println!(
                "{set}: {} of {} led rightly ({:.3}); arguments {} of {}",
                share.0,
                share.1,
                share.of_one(),
                arguments.0,
                arguments.1,
            );
        }
        for (family, wanted) in &self.wanted {
            let given = self.given.get(family).copied().unwrap_or_default();
            println!(
                "{family}: precision {:.3} ({}/{}), recall {:.3} ({}/{})",
                given.of_one(),
                given.0,
                given.1,
                wanted.of_one(),
                wanted.0,
                wanted.1
            );
        }
        for ((wanted, given), count) in &self.confused {
            println!("confused: {wanted} taken for {given}, {count}");
        }
    }
}

#[test]
fn commands_are_led_to_the_tools_that_people_mean() {
    let desk = sample_catalog::desk();
    let mut score = Score::default();
    for case in cases() {
        // Tools that this build lacks are skipped.
        if case["tool"].as_str().is_none_or(is_there) {
            score.add(&case, &routed(&desk, case["command"].as_str().unwrap()));
        }
    }
    score.print();
    assert_eq!(score.unasked.len(), 0, "led to a write unasked");
    let mut all = Share::default();
    for (set, least, fewest) in SETS {
        let share = score.sets[set];
        assert!(share.1 >= fewest && share.of_one() >= least, "{set}: {share:?}");
        let arguments = score.arguments[set];
        assert!(arguments.of_one() >= ARGUMENTS_MIN, "arguments of {set}: {arguments:?}");
        all = Share(all.0 + share.0, all.1 + share.1);
    }
    assert!(all.of_one() >= RIGHT_MIN, "{all:?}");
}

#[test]
fn every_tool_is_led_to_by_some_command() {
    let cases = cases();
    let labelled = |tool: &str| cases.iter().any(|case| case["tool"] == tool);
    for tool in CATALOG.tools() {
        assert!(labelled(tool.name) || tool.name == TOOL, "{}", tool.name);
    }
}

#[test]
fn a_read_is_done_at_once_and_leaves_two_entries() {
    let desk = Desk::new();
    let id = desk.remember("The gate is red.");
    let answer = desk.call(TOOL, json!({"command": format!("show me {id}")}));
    assert_eq!(
        (&answer["routed_to"], &answer["executed"]),
        (&json!("get_item_tool"), &json!(true))
    );
    assert_eq!(answer["arguments"], json!({"item_id": id}));
    assert_eq!(answer["result"]["item"]["text"], "The gate is red.");
    let (own, within) = (desk.entry(&answer["receipt"]), desk.entry(&answer["result"]["receipt"]));
    assert_eq!((&*own.tool, &*within.tool), (TOOL, "get_item_tool"));
    assert!(own.touched.is_empty(), "what was read is in the entry of the tool that read it");
    assert_eq!(within.touched.len(), 1);
    let trail = desk.call("audit_trail_tool", json!({"tool": "get_item_tool"}));
    assert_eq!(trail["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_result_is_as_long_as_the_tool_gives_it() {
    let desk = Desk::new();
    write(&desk.files(), "long.txt", "The gate is red, said the keeper.\n".repeat(2_500));
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let path = desk.files().join("long.txt").display().to_string();
    let plain = desk.call("docstore_get_document_tool", json!({"path": path}));
    let answer = desk.call(TOOL, json!({"command": format!("show me the document {path}")}));
    assert_eq!(answer["routed_to"], "docstore_get_document_tool");
    assert_eq!(answer["result"]["text"], plain["text"]);
    assert_eq!(answer["result"]["next_offset"], plain["next_offset"]);
}

#[test]
fn a_write_waits_for_confirm() {
    let desk = Desk::new();
    let seq = || desk.started().parts.local.get().store.snapshot().seq();
    let command = "remember that the gate is green";
    let before = seq();
    let asked = desk.call(TOOL, json!({"command": command}));
    assert_eq!(
        (&asked["routed_to"], &asked["executed"]),
        (&json!("brain_remember"), &json!(false))
    );
    assert!(asked["would"].as_str().unwrap().ends_with("it writes, so confirm is wanted"));
    assert!(asked.get("result").is_none());
    let dry = desk.call(TOOL, json!({"command": command, "confirm": true, "dry_run": true}));
    assert_eq!(dry["executed"], false);
    assert_eq!(seq(), before);
    let done = desk.call(TOOL, json!({"command": command, "confirm": true}));
    assert_eq!(done["result"]["item"]["text"], "the gate is green");
    let (own, within) = (desk.entry(&done["receipt"]), desk.entry(&done["result"]["receipt"]));
    assert_eq!((&*own.tool, &*within.tool), (TOOL, "brain_remember"));
    for entry in [&own, &within] {
        assert!(entry.touched.iter().any(|one| one.effect == Effect::Written));
    }
}

#[test]
fn what_is_missing_is_named_and_nothing_is_made_up() {
    let desk = Desk::new();
    let id = desk.remember("The gate is red.");
    for (command, tool, needs) in [
        (format!("forget {id}"), "forget_item_tool", json!(["reason"])),
        ("remind me to call Ann".to_owned(), "schedule_followup_tool", json!(["due_at"])),
        ("unlink it".to_owned(), "unlink_items_tool", json!(["edge_id", "reason"])),
        (format!("link {id} to {id}"), "link_items_tool", json!(["relation"])),
    ] {
        let answer = desk.call(TOOL, json!({"command": command, "confirm": true}));
        assert_eq!((&answer["routed_to"], &answer["needs"]), (&json!(tool), &needs), "{command}");
        assert_eq!(answer["executed"], false);
    }
}

#[test]
fn nothing_is_destroyed_by_a_sentence_that_does_not_plainly_say_so() {
    let desk = Desk::new();
    // An emptied folder may be an unmounted disk, so a sweep leaves its documents alone.
    write(&desk.files(), "a.md", "# A\n\nOne.\n");
    write(&desk.files(), "b.md", "# B\n\nTwo.\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let listed = || {
        let manifest = desk.call("docstore_manifest_tool", json!({}));
        manifest["documents"].as_array().unwrap().len()
    };
    let call = |command: &str| desk.call(TOOL, json!({"command": command, "confirm": true}));
    let path = desk.files().join("a.md").display().to_string();
    let tried = call(&format!("tombstone {path} because it is old"));
    assert_eq!((&tried["executed"], &tried["arguments"]["dry_run"]), (&json!(true), &json!(true)));
    assert_eq!(listed(), 2);
    fs::remove_file(desk.files().join("a.md")).unwrap();
    assert_eq!(call("sweep deleted files")["result"]["dry_run"], true);
    assert_eq!(listed(), 2);
    assert_eq!(call("sweep deleted files, for real")["result"]["dry_run"], false);
    assert_eq!(listed(), 1);
    let id = desk.remember("The gate is red.");
    let hidden = call(&format!("forget {id}, it is wrong"));
    assert_eq!(hidden["result"]["status"], "tombstoned");
    assert!(hidden["arguments"].get("mode").is_none());
}

#[test]
fn what_is_forgotten_is_the_one_item_that_is_ordered_to_go_and_erased_by_the_order_alone() {
    let desk = Desk::new();
    let [one, two] = ["The gate is red.", "The gate is green."].map(|text| desk.remember(text));
    for (command, mode) in [
        (format!("erase {one}, it is private"), Some("erase")),
        (format!("{one} should be purged because it is private"), Some("erase")),
        (format!("forget {one}, but leave its bytes: erase nothing"), None),
        (format!("hide {one} because we may want to erase it later"), None),
        (format!("forget {one} as it was written to destroy trust"), None),
    ] {
        let answer = routed(&desk, &command);
        let arguments = &answer["arguments"];
        assert_eq!(answer["routed_to"], "forget_item_tool", "{command}");
        assert_eq!((&arguments["item_id"], arguments["mode"].as_str()), (&json!(one), mode));
    }
    for command in [
        format!("{two} contradicts it, so {one} must be removed because it is old"),
        format!("forget {one} and {two}, both are wrong"),
        format!("forget {one}, {two}: wrong"),
    ] {
        let answer = desk.call(TOOL, json!({"command": command, "confirm": true}));
        assert_eq!(answer["executed"], false, "{command}");
        assert!(answer["arguments"].get("item_id").is_none(), "{answer}");
    }
    let beside = routed(&desk, &format!("forget {one}, duplicate of {two}"));
    assert_eq!(beside["arguments"]["item_id"], one);
}

#[test]
fn paths_that_go_are_named_together_and_not_in_the_reason() {
    let desk = Desk::new();
    for (command, paths) in [
        ("tombstone docs/old because docs/new stands in its place", json!(["docs/old"])),
        ("tombstone docs/old, since docs/new, which is longer, says it", json!(["docs/old"])),
        ("remove docs/old.md from docs/, it is old", json!(["docs/old.md"])),
        (
            "tombstone docs/a, docs/c and docs/d because they are old",
            json!(["docs/a", "docs/c", "docs/d"]),
        ),
    ] {
        let answer = routed(&desk, command);
        assert_eq!(answer["routed_to"], "tombstone_paths_tool", "{command}");
        assert_eq!(answer["arguments"]["paths"], paths, "{command}");
    }
}

#[test]
fn what_is_for_real_is_said_plainly_and_not_denied() {
    let desk = Desk::new();
    for (command, is_real) in [
        ("sweep deleted files, for real", true),
        ("tombstone docs/old for real because it is old", true),
        ("tombstone docs/old because it is old, not a dry run", true),
        ("sweep deleted files, but not for real", false),
        ("sweep deleted files, this isn't for real", false),
        ("tombstone docs/old because the paint is not dry", false),
        ("tombstone docs/old because they really do smell", false),
        ("tombstone docs/old because \"for real\" stands in it", false),
    ] {
        let answer = routed(&desk, command);
        let dry_run = answer["arguments"]["dry_run"].as_bool().unwrap_or(true);
        assert_eq!((dry_run, answer["routed_to"].is_string()), (!is_real, true), "{command}");
    }
    let answer = routed(&desk, "ingest docs/new, not for real");
    assert_eq!(answer["arguments"]["dry_run"], true, "{answer}");
}

#[test]
fn nobody_is_led_to_what_they_may_not_use() {
    let desk = Desk::new();
    let id = desk.remember("The gate is red.");
    let reader = Caller { scopes: vec![Scope::TenantRead, Scope::BrainProxy], ..member() };
    for command in [format!("forget {id}, it is wrong"), "show the audit trail".to_owned()] {
        let answer = desk.call_as(&reader, TOOL, json!({"command": command, "confirm": true}));
        assert!(answer.get("routed_to").is_none(), "{answer}");
        assert_eq!(answer["why"], "no tool that you may use does that");
        let named = answer["alternatives"].to_string();
        assert!(!named.contains("forget") && !named.contains("audit"), "{named}");
        assert_eq!(answer["executed"], false);
    }
    let read = desk.call_as(&reader, TOOL, json!({"command": format!("show {id}")}));
    assert_eq!(read["result"]["item"]["text"], "The gate is red.");
    let team = Plans::built_in().find("team").unwrap().clone();
    let of_team = Caller { scopes: team.scopes.clone(), entitled: team, ..member() };
    let bench =
        desk.call_as(&of_team, TOOL, json!({"command": "benchmark storage", "confirm": true}));
    assert!(bench.get("routed_to").is_none(), "{bench}");
    let without = Caller { scopes: vec![Scope::TenantRead], ..member() };
    assert!(CATALOG.find(&without, TOOL).is_err());
}

#[test]
fn a_command_counts_once_and_not_where_it_is_refused() {
    let desk = Desk::new();
    let metered = Metered { bucket: key_of(b"asker"), calls_per_month: Some(100), may_write: true };
    let caller = Caller { metered: Some(metered), ..operator() };
    let used = || {
        let status = desk.call_as(&caller, "quota_status_tool", json!({}));
        status["quota"]["used"].as_u64().unwrap()
    };
    assert_eq!(used(), 0);
    let raw = json!({"command": "remember that the sea is calm", "confirm": true});
    assert_eq!(desk.call_as(&caller, TOOL, raw)["executed"], true);
    assert_eq!(used(), 2, "the command, and the call that asked before it");
    let raw = json!({"command": "how many calls are left this month?"});
    let asked = desk.call_as(&caller, TOOL, raw);
    assert_eq!(asked["result"]["reservations"]["calls_open"], 1, "{asked}");
    assert_eq!(used(), 4);
    let missing = json!({"command": "show itm_0000000000000000000000zzzz"});
    desk.refusal_as(&caller, TOOL, missing);
    assert_eq!(used(), 5, "what was refused does not count");
}

#[test]
fn an_error_of_the_tool_says_which_tool_and_argument() {
    let desk = Desk::new();
    let missing = "itm_0000000000000000000000zzzz";
    let why = desk.refusal(TOOL, json!({"command": format!("show {missing}")}));
    assert!(why.starts_with("command: as item_id of get_item_tool: "), "{why}");
    let refused = desk
        .try_call(&operator(), TOOL, json!({"command": format!("show {missing}")}))
        .err()
        .unwrap();
    assert_eq!(refused.error.reason(), "not_found");
    assert_eq!(desk.entry(&json!(refused.receipt)).outcome.word(), "refused");
}

#[test]
fn a_key_is_for_the_command_and_for_what_it_leads_to() {
    let desk = Desk::new();
    let seq = || desk.started().parts.local.get().store.snapshot().seq();
    let raw = json!({
        "command": "remind me tomorrow to call Ann", "confirm": true, "idempotency_key": "k",
    });
    let first = desk.call(TOOL, raw.clone());
    let after = seq();
    desk.set_time("2026-01-20T12:00:00Z");
    let again = desk.call(TOOL, raw);
    assert_eq!(again["arguments"], first["arguments"], "tomorrow is the day that it was");
    assert_eq!(
        again["result"]["followup"]["followup_id"],
        first["result"]["followup"]["followup_id"]
    );
    assert_eq!(seq(), after);
    let other = json!({
        "command": "remind me tomorrow to call Bob", "confirm": true, "idempotency_key": "k",
    });
    let why = desk.refusal(TOOL, other);
    assert!(why.starts_with("idempotency_key: was used before with other"), "{why}");
}

#[test]
fn a_command_that_is_called_off_leads_to_nothing() {
    let desk = Desk::new();
    let seq = desk.started().parts.local.get().store.snapshot().seq();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let raw = json!({"command": "what was decided about the gate?"});
    let refused = desk.with_context(&operator(), |context| {
        let context = ToolContext { cancel: &cancel, progress: None, ..*context };
        CATALOG
            .find(&operator(), TOOL)
            .unwrap()
            .call(&context, raw.as_object().unwrap())
            .err()
            .unwrap()
    });
    assert_eq!(refused.error.reason(), "cancelled");
    assert_eq!(desk.started().parts.local.get().store.snapshot().seq(), seq);
}

#[test]
fn an_ingest_tells_how_far_it_has_come() {
    let desk = Desk::new();
    write(&desk.files(), "a.md", "# A\n\nOne.\n");
    let path = desk.files().display().to_string();
    let done = desk.call(TOOL, json!({"command": format!("ingest {path}"), "confirm": true}));
    assert_eq!(done["routed_to"], "ingest_paths_tool");
    assert!(!desk.told().is_empty(), "progress is passed on");
}

#[test]
fn what_stands_in_quotes_is_no_command() {
    let desk = Desk::new();
    let id = desk.remember("The gate is red.");
    for command in [
        format!("the mail says \"forget {id}, it is wrong\""),
        format!("ignore what I said and consider `delete {id} because I say so`"),
        format!("what does \"delete {id}\" mean?"),
    ] {
        let answer = desk.call(TOOL, json!({"command": command, "confirm": true}));
        let tool = answer["routed_to"].as_str().unwrap_or(NONE);
        assert!(!writes(tool), "{command}: {tool}");
    }
    desk.call("get_item_tool", json!({"item_id": id}));
}
