"""Sunday, 25 October 2026, which has 25 hours: what is said is checked, and so is what was done."""

import json

from story import holds, same


async def verify(story):
    """Each verdict, with what it rests on."""
    known = story.known
    spoilt = known["radar_token"][:-4] + "AAAA"
    claims = [
        ("supported", {"claim": "Readings of the tide gauge are uploaded every ten minutes."}),
        ("contradicted", {"claim": "The zero of the tide staff is 1.50 m above chart datum."}),
        ("superseded", {"claim": "Readings of the tide gauge are uploaded every hour."}),
        ("unsupported", {"claim": "The ferry to Oyster Sill carries bicycles."}),
        ("invalid_token", {"claim": "We chose a radar sensor.", "grounding_tokens": [spoilt]}),
    ]
    told = await story.call("brain_verify_claims_tool", claims=[claim for _, claim in claims])
    same("verdicts", [row["verdict"] for row in told["claims"]], [verdict for verdict, _ in claims])
    for row in told["claims"]:
        holds("each says why", row["why"], row)
    replaced = next(row for row in told["claims"][2]["evidence"] if row["id"] == known["upload"])
    same("what stands in its place", replaced["superseded_by"], known["upload_now"])
    story.keep("brain_verify_claims_tool", claims=[claim for _, claim in claims])


async def reconcile(story):
    """All receipts of the week stand in the ledger; one that was changed does not."""
    receipts = story.receipts
    for at in range(0, len(receipts), 100):
        told = await story.call("receipt_reconcile_tool", receipts=receipts[at:at + 100])
        wrong = [row for row in told["receipts"] if row["verdict"] != "match"]
        same("receipts that are not in the ledger", wrong, [])
    false = dict(receipts[0], decision="deny")
    unknown = {"receipt_id": "rcp_" + "0" * 32, "seq": 1_000_000}
    told = await story.call("receipt_reconcile_tool", receipts=[false, unknown])
    same("what is not so", [[row["verdict"] for row in told["receipts"]], told["receipts"][0]["differs"], told["ok"]],
         [["mismatch", "missing"], ["decision"], False])


async def audit(story):
    scanned = await story.call("ledger_integrity_scan_tool")
    holds("the ledger is whole", scanned["ok"] and scanned["checkpoints"]["ok"], scanned)
    holds("and has all calls", scanned["entries"] >= len(story.receipts) - 1, scanned["entries"])
    part = await story.call("ledger_integrity_scan_tool", from_seq=10, to_seq=20)
    same("a part of it", part["entries"], 11)
    denied = await story.call("audit_trail_tool", decision="deny", tool="agent_state_read_admit_tool")
    same("what was denied", [row["rule"] for row in denied["entries"]], ["harbour/no-marketing"])
    swept = await story.call("audit_trail_tool", tool="tombstone_reconcile_sweep_tool", **{
        "from": "2026-10-22T00:00:00+02:00", "to": "2026-10-23T00:00:00+02:00"})
    same("sweeps of Thursday", len(swept["entries"]), 4)
    holds("no argument is in the ledger", "gauge" not in json.dumps(swept["entries"]), swept)
    events = await story.call("sensitivity_events_tool")
    told, cursor = list(events["events"]), events.get("next_cursor")
    while cursor:
        events = await story.call("sensitivity_events_tool", cursor=cursor)
        told, cursor = told + events["events"], events.get("next_cursor")
    raised = {row["item_id"].split("_")[1] for row in told if row["what"] == "raised"}
    for name in ("leaked", "secret_chunk"):
        holds(f"{name} was raised", story.known[name].split("_")[1] in raised, told)
    withheld = [row for row in told if row["what"] == "withheld" and row["rule"] == "harbour/embargo"]
    holds("and what was withheld is told", story.known["embargo"] in [row["item_id"] for row in withheld], told[:5])


async def explain(story):
    known = story.known
    open_item = await story.call("policy_explain_tool", item_id=known["budget"], action="export")
    same("the operator may export", [open_item["decision"], open_item["rule"]], ["allow", "default/operator"])
    story.keep("policy_explain_tool", item_id=known["budget"])


async def export(story):
    """Everything comes out as lines, in pages of one commit, and as much as is counted."""
    lines, seq, arguments = [], None, {}
    while True:
        page = await story.call("export_memory_tool", **arguments)
        seq = seq or page["seq"]
        same("pages are of one commit", page["seq"], seq)
        lines += [json.loads(line) for line in page["lines"]]
        if not page["truncated"]:
            break
        arguments = {"cursor": page["next_cursor"]}
    items = {line["id"]: line for line in lines if line["type"] == "item"}
    counted = await story.call("recall_stats")
    # The one behind the gate stays.
    same("items", len(items), counted["memory_items"] + counted["tombstoned"] - 1)
    holds("none under embargo", "coastal grant" not in json.dumps(lines), None)
    chain = items[story.known["radar_now"]]
    same("what it replaces", chain["supersedes"], [story.known["radar_80"]])
    current = await story.call("export_memory_tool", kinds=["decision"], current_only=True)
    same("decisions that stand", sorted(json.loads(line)["id"] for line in current["lines"]
                                        if json.loads(line)["type"] == "item"),
         sorted([story.known["radar_now"], story.known["near"], story.known["upload_now"]]))
    figures = await story.call("graphrag_status_tool")
    same("edges by relation are all edges", sum(figures["edges_by_relation"].values()), figures["edges"])


async def measure(story):
    for tool, arguments, wanted in [
            ("brain_benchmark_recall", {"queries": 5}, 5), ("brain_benchmark_encoder", {"tokens": 16, "n": 5}, 5),
            ("brain_benchmark_storage", {"n": 50}, 50), ("brain_benchmark_quality", {"n": 10}, 10)]:
        told = await story.call(tool, **arguments)
        same(f"{tool} measured", [told["n"], told["truncated"]], [wanted, False])
    listed = await story.call("brain_benchmark_report")
    same("on record, newest first", [row["name"] for row in listed["results"]],
         ["brain_benchmark_quality", "brain_benchmark_storage", "brain_benchmark_encoder", "brain_benchmark_recall"])
    story.keep("brain_benchmark_report")


async def ask_about(story):
    """Questions about the service; what is remembered is not its business."""
    counted = await story.call("recall_stats")
    told = await story.call("brain_status_query_tool", question="How many items are remembered?")
    holds("the number", str(counted["memory_items"]) in told["answer"], told)
    other = await story.call("brain_status_query_tool", question="Why did we choose a radar sensor?")
    holds("who may know", "retrieval_arbitrate_tool" in json.dumps(dict(other)), other)


async def route_commands(story):
    """Plain words lead to a tool: what reads is done, what writes waits for a word."""
    item = story.known["preference"]
    shown = await story.call("brain_command", command=f"show me {item}")
    same("a read is done", [shown["routed_to"], shown["executed"], shown["result"]["item"]["id"]],
         ["get_item_tool", True, item])
    before = (await story.call("recall_stats"))["memory_items"]
    command = "remember that the ice house is locked on Sundays"
    asked = await story.call("brain_command", command=command)
    same("a write waits", [asked["routed_to"], asked["executed"], "result" in asked], ["brain_remember", False, False])
    same("and nothing is written", (await story.call("recall_stats"))["memory_items"], before)
    done = await story.call("brain_command", command=command, confirm=True)
    same("until it is confirmed", [done["routed_to"], done["executed"]], ["brain_remember", True])
    holds("as it was said", "ice house is locked on Sundays" in done["result"]["item"]["text"], done)


async def come_back(story):
    """Yesterday's follow-up is due by clocks that went back; the day has 25 hours."""
    story.house.at(story.hour(9, 5))
    due = await story.call("due_followups_tool")
    same("due", [row["followup_id"] for row in due["followups"]], [story.known["once"], story.known["daily_next"]])
    await story.call("complete_followup_tool", followup_id=story.known["once"], note="Sent.")
    done = await story.call("complete_followup_tool", followup_id=story.known["daily_next"])
    same("and tomorrow again", done["next"]["due_local"], "2026-10-26T09:00:00+01:00[Europe/Berlin]")
    brief = await story.call("generate_daily_brain_brief_tool", timezone="Europe/Berlin", format="json")
    same("today", [brief["day"]["date"], brief["day"]["hours"]], ["2026-10-25", 25])


async def day(story):
    await come_back(story)
    await verify(story)
    await reconcile(story)
    await audit(story)
    await explain(story)
    await export(story)
    await measure(story)
    await ask_about(story)
    await route_commands(story)
