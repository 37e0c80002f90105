"""Wednesday, 21 October 2026: what was wrong is put right, and what was said before can still be found."""

from story import holds, same

OLD = "every hour"
NEW = "Readings of the tide gauge are uploaded every ten minutes."


async def correct(story):
    """The operator puts an item right: what stands in its place says so, and no session is told the wrong thing again."""
    known = story.known
    told = await story.call("record_operator_correction_tool", wrong="Readings are uploaded every hour.", right=NEW,
                            item_id=known["upload"], reason="The harbour's network has room now.")
    same("the item says what is right", [told["item"]["text"], told["item"]["supersedes"]], [NEW, [known["upload"]]])
    known |= {"correction": told["correction"]["id"], "upload_now": told["item"]["id"]}
    start = await story.call("brain_startup_context_tool")
    rows = {section["name"]: [row["id"] for row in section["rows"]] for section in start["sections"]}
    same("the correction is there at the start", rows["corrections"], [known["correction"]])
    holds("and the decision as it is now", known["upload_now"] in rows["decisions"], rows)
    holds("and no more as it was", known["upload"] not in rows["decisions"], rows)
    found = await story.call("retrieval_arbitrate_tool", query="how often are readings uploaded?")
    holds("recall says what holds", "ten minutes" in found["items"][0]["text"], found)
    before = await story.call("retrieval_arbitrate_tool", query="how often are readings uploaded, as of 2026-10-20?")
    holds("and what held then", OLD in before["items"][0]["text"], before)


async def supersede(story):
    """A decision changes twice; its chain says when, by whom and why."""
    known = story.known
    first = await story.call("supersede_item_tool", item_id=known["radar"], reason="The first one could not see small waves.",
                             text="We chose an 80 GHz radar sensor for the tide gauge at Northpier.")
    known["radar_80"] = first["item"]["id"]
    story.house.at(story.hour(11))
    second = await story.call("supersede_item_tool", item_id=known["radar_80"], reason="Two sensors tell when one drifts.",
                              text="We chose two 80 GHz radar sensors for the tide gauge at Northpier.")
    known["radar_now"] = second["item"]["id"]
    same("tags and kind stay", [second["item"]["kind"], second["item"]["tags"]], ["decision", ["gauge", "sensor"]])
    chain = [known["radar"], known["radar_80"], known["radar_now"]]
    same("the chain", [row["id"] for row in second["chain"]], chain)
    await story.refused("supersede_item_tool", known["radar_now"], item_id=known["radar"], text="More.", reason="More.")
    asked = await story.call("supersession_chain_tool", item_id=known["radar_80"])
    same("from any of its versions", [(row["id"], row["status"]) for row in asked["chain"]],
         list(zip(chain, ["superseded", "superseded", "current"])))
    same("why", [row.get("reason") for row in asked["chain"]][1:],
         ["The first one could not see small waves.", "Two sensors tell when one drifts."])
    story.keep("supersession_chain_tool", item_id=known["radar"])


async def look_back(story):
    known = story.known
    then = await story.call("get_item_tool", item_id=known["radar_now"], as_of="2026-10-20T20:00:00Z")
    same("the version of Tuesday", then["item"]["id"], known["radar"])
    await story.refused("get_item_tool", "as_of", item_id=known["radar_now"], as_of="2026-10-19T00:00:00Z")
    events = await story.call("item_timeline_tool", item_id=known["radar_now"])
    told = [(row["what"], row["item"]["id"]) for row in events["events"]]
    for event in [("created", known["radar"]), ("superseded", known["radar"]), ("linked", known["radar"]),
                  ("superseded", known["radar_80"])]:
        holds(f"the timeline tells of {event}", event in told, told)
    same("oldest first", [row["at"] for row in events["events"]], sorted(row["at"] for row in events["events"]))
    today = await story.call("item_timeline_tool", query="radar sensor", **{"from": "2026-10-20T22:00:00Z"})
    holds("today's alone", {row["at"][:10] for row in today["events"]} == {"2026-10-21"}, today)
    story.keep("item_timeline_tool", item_id=known["radar_now"])
    story.keep("get_item_tool", item_id=known["radar_now"], as_of="2026-10-20T20:00:00Z")


async def disagree(story):
    """Two statements that cannot both hold are found, and one replaces the other."""
    one = await story.call("brain_remember", kind="fact", tags=["staff"],
                           text="The zero of the tide staff is 1.20 m above chart datum.")
    other = await story.call("brain_remember", kind="fact", tags=["staff"],
                             text="The zero of the tide staff is 1.35 m above chart datum.")
    ids = {one["item"]["id"], other["item"]["id"]}
    pairs = (await story.call("contradiction_scan_tool", topic="zero of the tide staff"))["pairs"]
    same("the pair", [({row["one"]["id"], row["other"]["id"]}, row["why"]) for row in pairs], [(ids, "number")])
    asked = await story.call("retrieval_arbitrate_tool", query="where is the zero of the tide staff?")
    same("recall names it", [set(row["items"]) for row in asked["conflicts"]], [ids])
    mended = await story.call("brain_remember", kind="fact", tags=["staff"], supersedes=one["item"]["id"],
                              text="The zero of the tide staff is 1.35 m above chart datum since it was moved in May.")
    left = await story.call("contradiction_scan_tool", topic="zero of the tide staff")
    same("no pair is left", left["pairs"], [])
    story.known |= {"staff_old": one["item"]["id"], "staff": other["item"]["id"], "staff_now": mended["item"]["id"]}


async def scan_duplicates(story):
    """What was written down twice is found, with the one to keep; nothing is taken away by that."""
    text = "The gangway at Northpier is slippery at low water in winter."
    ids = [(await story.call("brain_remember", text=text))["item"]["id"] for _ in range(2)]

    async def groups():
        found = (await story.call("duplicate_scan_tool"))["groups"]
        return [[group["keep"]["id"], *(row["id"] for row in group["others"])] for group in found]

    together = [group for group in await groups() if set(group) == set(ids)]
    same("the two are one group", len(together), 1)
    await story.call("forget_item_tool", item_id=together[0][1], reason="It is there twice.")
    same("and none once one has gone", [group for group in await groups() if set(group) & set(ids)], [])
    kept = await story.call("get_item_tool", item_id=together[0][0])
    same("the one to keep is there", kept["item"]["text"], text)


async def day(story):
    await correct(story)
    await supersede(story)
    await look_back(story)
    await disagree(story)
    await scan_duplicates(story)
    story.keep("retrieval_arbitrate_tool", query="how often are readings uploaded?")
    story.keep("retrieval_arbitrate_tool", query="how often are readings uploaded, as of 2026-10-20?")
    story.keep("contradiction_scan_tool", topic="zero of the tide staff")
