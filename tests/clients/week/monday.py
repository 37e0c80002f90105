"""Monday, 26 October 2026: what is no longer wanted is forgotten, hidden or to the last byte."""

import json

from story import holds, same


async def hide(story):
    """A tombstone hides; the chain still says that something was there."""
    known = story.known
    gone = await story.call("forget_item_tool", item_id=known["near"], reason="It says the same as another.")
    same("hidden", [gone["status"], gone["forgotten"]], ["tombstoned", 1])
    await story.refused("get_item_tool", "item_id", item_id=known["near"])
    found = await story.call("retrieval_arbitrate_tool", query="why did we choose a radar sensor?")
    holds("recall has it no more", known["near"] not in [row["id"] for row in found["items"]], found)


async def erase(story):
    """An erasure leaves no byte in any file of the store."""
    known = story.known
    held = await story.call("brain_remember", text="The skipper's number is 555-0142.", gates=["legal_hold"])
    await story.refused("forget_item_tool", "legal-hold", item_id=held["item"]["id"], reason="No longer needed.", mode="erase")
    gone = await story.call("forget_item_tool", item_id=known["leaked"], reason="A key has no place here.", mode="erase")
    same("erased", [gone["status"], gone["forgotten"]], ["erased", 1])
    await story.refused("get_item_tool", "item_id", item_id=known["leaked"])
    chain = await story.call("forget_item_tool", item_id=known["staff_old"], reason="It was never so.")
    same("a version that was replaced goes, too", chain["status"], "tombstoned")
    told = await story.call("supersession_chain_tool", item_id=known["staff_now"])
    same("its place in the chain stays", [row["status"] for row in told["chain"]], ["tombstoned", "current"])
    document = await story.call("docstore_get_document_tool", path="gauge/docs/deploy.md")
    whole = await story.call("forget_item_tool", item_id=document["document_id"], reason="It holds a key.", mode="erase")
    holds("a document goes with its pieces", whole["forgotten"] >= 2, whole)
    known["erased_document"] = document["document_id"]
    # The file goes, too, or the next ingest reads it again.
    (known["gauge"] / "docs/deploy.md").unlink()


async def look(story):
    known = story.known
    ids = [known["leaked"], known["near"], known["radar"], known["radar_now"], "itm_00000000000000000000000001"]
    told = await story.call("recall_staleness_check_tool", item_ids=ids)
    same("what became of them", [row["status"] for row in told["items"]],
         ["tombstoned", "tombstoned", "superseded", "fresh", "unknown"])
    token = await story.call("recall_staleness_check_tool", grounding_tokens=[known["radar_token"]])
    same("a token of Tuesday", [row["status"] for row in token["items"]], ["tombstoned"])
    old = await story.call("recall_staleness_check_tool", older_than_days=5)
    holds("what has stood for five days", known["preference"] in [row["id"] for row in old["items"]], old)
    events = await story.call("sensitivity_events_tool", **{"from": "2026-10-26T00:00:00+01:00"})
    holds("the erasure is told", ("erased", known["leaked"]) in [(row["what"], row["item_id"]) for row in events["events"]],
          events)
    # To check an item is an event of its timeline, which is a question that is kept.
    story.keep("recall_staleness_check_tool", item_ids=[known["leaked"], known["near"], known["preference"]])
    story.keep("supersession_chain_tool", item_id=known["staff_now"])


def prove(story):
    """`recalld verify --erased` over the files, once nobody writes them."""
    for name, phrase in [("leaked", "for now"), ("erased_document", "key of the harbour office")]:
        status, told, said = story.house.command("verify", "--erased", story.known[name], "--text", phrase, "--json")
        proof = json.loads(told)
        same(f"{name} is proven gone", [status, proof["proven"], proof["left"]], [0, True, []])
    status, told, said = story.house.command("verify", "--json")
    same("store and ledger are clean", [status, json.loads(told)["clean"]], [0, True])


async def day(story):
    await hide(story)
    await erase(story)
    await look(story)
