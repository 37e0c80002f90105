"""Tuesday, 20 October 2026: what is decided, preferred and intended."""

from story import holds, same

# In pieces, as in files.py.
KEY = "AKIA" + "Z7YN2VKWQ3EGRTLM"


async def decide(story):
    """Decisions with kinds, tags, sources, sensitivities and gates; nothing is written twice."""
    radar = await story.call(
        "brain_remember", kind="decision", title="Sensor of the gauge", tags=["gauge", "sensor"],
        text="We chose a radar sensor for the tide gauge at Northpier because eelgrass fouls pressure sensors.",
        source={"uri": "https://minutes.example.org/2026-10-20", "title": "Minutes of 20 October"},
        idempotency_key="minutes-1")
    item = radar["item"]
    same("kind, tags and title", [item["kind"], item["tags"], item["title"]],
         ["decision", ["gauge", "sensor"], "Sensor of the gauge"])
    same("its source", item["source"]["uri"], "https://minutes.example.org/2026-10-20")
    same("as sensitive as anything is", item["policy"]["sensitivity"], "internal")
    again = await story.call(
        "brain_remember", kind="decision", title="Sensor of the gauge", tags=["gauge", "sensor"],
        text="We chose a radar sensor for the tide gauge at Northpier because eelgrass fouls pressure sensors.",
        source={"uri": "https://minutes.example.org/2026-10-20", "title": "Minutes of 20 October"},
        idempotency_key="minutes-1")
    same("the same key writes nothing more", again["item"]["id"], item["id"])
    await story.refused("brain_remember", "idempotency_key", text="Something else.", idempotency_key="minutes-1")
    near = await story.call("brain_remember", kind="decision", text="We chose a radar sensor for the tide gauge at "
                            "Northpier, because eelgrass fouls pressure sensors.", tags=["gauge"])
    same("the near duplicate is told", [row["id"] for row in near["possible_duplicates"]], [item["id"]])
    upload = await story.call(
        "brain_remember", kind="decision", tags=["gauge", "upload"], title="Upload of readings",
        text="Readings of the tide gauge are uploaded every hour.")
    budget = await story.call(
        "brain_remember", kind="fact", tags=["budget"], sensitivity="confidential",
        text="The budget of the tide gauge for 2026 is 18,400 euros.", valid_from="2026-01-01T00:00:00Z",
        valid_to="2027-01-01T00:00:00Z")
    same("its time", budget["item"]["validity"],
         {"from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"})
    embargo = await story.call(
        "brain_remember", kind="decision", gates=["embargo"], tags=["grant"],
        text="We apply for the coastal grant in spring; the applicant is the harbour office.")
    story.known |= {"radar": item["id"], "near": near["item"]["id"], "upload": upload["item"]["id"],
                    "budget": budget["item"]["id"], "embargo": embargo["item"]["id"]}


async def prefer(story):
    told = await story.call("brain_remember", kind="preference", tags=["reports"],
                            text="Reports give levels in metres above chart datum, never above the mean.")
    story.known["preference"] = told["item"]["id"]
    # A key that nobody meant to keep: the item is restricted, and the writer is told.
    leaked = await story.call("brain_remember", text=f"Uploads go with the key {KEY} for now.")
    same("where the key is", [(row["field"], row["line"]) for row in leaked["secrets"]], [("text", 1)])
    same("and that it is restricted", leaked["item"]["policy"]["sensitivity"], "restricted")
    story.known["leaked"] = leaked["item"]["id"]


async def intend(story):
    intent = await story.call("capture_operator_intent_tool", horizon="week", tags=["gauge"],
                              intent="Have the gauge's October report out before the clocks change.",
                              due_at="2026-10-24T18:00:00+02:00")
    same("what it is for", intent["item"]["attributes"],
         {"horizon": "week", "due_at": "2026-10-24T16:00:00Z"})
    story.known["intent"] = intent["item"]["id"]


async def refuse(story):
    """What cannot be is refused by name, and nothing is written."""
    before = (await story.call("recall_stats"))["memory_items"]
    await story.refused("brain_remember", "text", text=" ")
    await story.refused("brain_remember", "supersedes", text="New.", supersedes="itm_00000000000000000000000001")
    await story.refused("brain_remember", "sensitivity", "confidential", text="New.", sensitivity="secret")
    await story.refused("brain_remember", "valid_to", text="New.", valid_from="2026-02-01T00:00:00Z",
                        valid_to="2026-01-01T00:00:00Z")
    await story.refused("capture_operator_intent_tool", "horizon", "week", intent="More.", horizon="year")
    same("items", (await story.call("recall_stats"))["memory_items"], before)


async def start(story):
    """What the next session begins with."""
    first = await story.call("brain_startup_context_tool")
    rows = {section["name"]: [row["id"] for row in section["rows"]] for section in first["sections"]}
    known = story.known
    same("preferences", rows["preferences"], [known["preference"]])
    same("intents", rows["intents"], [known["intent"]])
    # The newest first; the one behind a gate that nobody opens is not there.
    same("decisions", rows["decisions"], [known["upload"], known["near"], known["radar"]])
    holds("and in words", "radar sensor" in first.text and "chart datum" in first.text, first.text)


async def recall(story):
    found = await story.call("retrieval_arbitrate_tool", query="why did we choose a radar sensor?")
    best = found["items"][0]
    holds("the decision is recalled", best["id"] in (story.known["radar"], story.known["near"]), found)
    story.known["radar_token"] = best["grounding_token"]
    hidden = await story.call("retrieval_arbitrate_tool", query="who is the applicant for the coastal grant?")
    holds("what is under embargo is withheld", story.known["embargo"] not in [row["id"] for row in hidden["items"]], hidden)
    same("and that something was is told", hidden["routing"]["withheld"], 1)
    for older in ("brain_recall", "semantic_recall_tool", "keyword_recall_tool", "graph_recall_tool"):
        told = await story.call(older, query="why did we choose a radar sensor?")
        same(f"{older} asks the same", told["items"][0]["id"], best["id"])
        same("and says its name", told["routing"]["delegated_from"], older)
    results = (await story.call("search", query="why did we choose a radar sensor?"))["results"]
    same("search finds the same", results[0]["id"], best["id"])
    read = await story.call("fetch", id=results[0]["id"])
    holds("fetch reads it", "eelgrass" in read["text"], read)


async def link(story):
    made = await story.call("link_items_tool", from_id=story.known["upload"], to_id=story.known["radar"],
                            relation="depends_on", weight=0.8, note="A radar measures every six minutes.")
    same("it is new", made["created"], True)
    again = await story.call("link_items_tool", from_id=story.known["upload"], to_id=story.known["radar"],
                             relation="depends_on", weight=0.8)
    same("and is not made twice", [again["created"], again["edge"]["edge_id"]], [False, made["edge"]["edge_id"]])
    wrong = await story.call("link_items_tool", from_id=story.known["preference"], to_id=story.known["budget"],
                             relation="costs")
    gone = await story.call("unlink_items_tool", edge_id=wrong["edge"]["edge_id"], reason="They have nothing to do "
                            "with each other.")
    same("taken away", gone["edge"]["status"], "tombstoned")
    beside = await story.call("graph_neighbors_tool", item_id=story.known["upload"])
    same("neighbours", [(row["relation"], row["direction"], row["item"]["id"]) for row in beside["neighbors"]],
         [("depends_on", "out", story.known["radar"])])
    story.keep("graph_neighbors_tool", item_id=story.known["upload"])
    path = await story.call("graph_path_tool", from_id=story.known["radar"], to_id=story.known["upload"])
    same("path", [path["found"], len(path["edges"])], [True, 1])
    none = await story.call("graph_path_tool", from_id=story.known["preference"], to_id=story.known["upload"])
    same("no path", none["found"], False)
    drawn = await story.call("brain_institutional_graph_tool", item_id=story.known["upload"], format="mermaid")
    holds("a picture", "depends_on" in drawn["picture"], drawn)


async def look_around(story):
    """What a new client asks about the service itself."""
    rules = await story.call("brain_operational_bootstrap_tool")
    named = {tool["name"] for family in rules["families"] for tool in family["tools"]}
    same("the tools by family are those that are listed", sorted(named), sorted(story.listed))
    info = await story.call("tenant_info")
    same("the operator's own workspace", [info["workspace"], info["plan"]], ["local", "operator"])
    same("is not metered", (await story.call("quota_status_tool"))["metered"], False)
    checked = await story.call("brain_runtime_check")
    holds("all is well", checked["ok"], checked)


async def day(story):
    empty = await story.call("brain_startup_context_tool")
    same("nothing is there at first", [len(section["rows"]) for section in empty["sections"]], [0] * 6)
    await look_around(story)
    await decide(story)
    await prefer(story)
    await intend(story)
    await refuse(story)
    await start(story)
    await recall(story)
    await link(story)
    story.keep("retrieval_arbitrate_tool", query="why did we choose a radar sensor?")
    story.keep("get_item_tool", item_id=story.known["budget"])
    story.keep("brain_startup_context_tool")
    story.keep("list_sources_tool")
