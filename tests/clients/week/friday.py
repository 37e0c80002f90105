"""Friday, 23 October 2026: what is tried, what comes of it, what is made, and what an agent keeps."""

from story import holds, same

FIRMWARE = "a1" * 32
NEXT_FIRMWARE = "b2" * 32


async def attempt(story):
    """A task that is blocked, fails, is tried again and succeeds; its history says so."""
    known = story.known
    first = (await story.call("record_task_attempt_tool", task="Mount the second radar", tags=["gauge"],
                              approach="from the boat at low water"))["attempt"]
    same("it is under way", first["status"], "running")
    start = await story.call("brain_startup_context_tool")
    holds("and told at the start", "Mount the second radar" in start.text, start.text)
    part = (await story.call("record_task_attempt_tool", task="Borrow the boat", status="planned",
                             parent_id=first["attempt_id"]))["attempt"]
    await story.refused("update_task_attempt_status_tool", "status", "planned", "running", attempt_id=part["attempt_id"],
                        status="succeeded")
    await story.call("update_task_attempt_status_tool", attempt_id=part["attempt_id"], status="abandoned",
                     note="We wade.")
    for hour, status, note in [(9, "blocked", "The harbour is closed in the gale."), (12, "running", "The gale is over."),
                               (13, "failed", "The bracket is too short.")]:
        story.house.at(story.hour(hour))
        await story.call("update_task_attempt_status_tool", attempt_id=first["attempt_id"], status=status, note=note)
    await story.refused("update_task_attempt_status_tool", "final", attempt_id=first["attempt_id"], status="running")
    before = await story.call("list_task_attempts_tool", task="second radar", status="failed")
    same("what was tried before", [row["note"] for row in before["attempts"]], ["The bracket is too short."])
    second = (await story.call("record_task_attempt_tool", task="Mount the second radar", tags=["gauge"],
                               approach="with a longer bracket"))["attempt"]
    done = await story.call("update_task_attempt_status_tool", attempt_id=second["attempt_id"], status="succeeded",
                            note="It hangs on the fourth piling.", evidence=[known["radar_now"], "gauge/pictures/pier.png"])
    same("evidence", done["attempt"]["evidence"], [known["radar_now"], "gauge/pictures/pier.png"])
    told = await story.call("get_task_attempt_tool", attempt_id=first["attempt_id"])
    same("its history", [row["status"] for row in told["history"]], ["running", "blocked", "running", "failed"])
    same("a list of all", [(row["task"], row["status"]) for row in (await story.call("list_task_attempts_tool"))["attempts"]],
         [("Mount the second radar", "succeeded"), ("Mount the second radar", "failed"), ("Borrow the boat", "abandoned")])
    known |= {"attempt": first["attempt_id"], "retry": second["attempt_id"], "retry_item": done["attempt"]["item_id"]}
    story.keep("get_task_attempt_tool", attempt_id=first["attempt_id"])
    story.keep("list_task_attempts_tool")


async def judge(story):
    """How things turned out is known before they are done again."""
    bad = await story.call("record_outcome_valence_tool", item_id=story.known["attempt"], valence=-0.6,
                           note="Two hours in the water for nothing.")
    same("about what", bad["item"]["attributes"]["about"], story.known["attempt"])
    good = await story.call("record_outcome_valence_tool", subject="A longer bracket", valence=0.9,
                            metric={"name": "gaps in an hour", "value": 0, "unit": "samples"})
    same("what was measured", good["item"]["attributes"]["metric"]["value"], 0)
    await story.refused("record_outcome_valence_tool", "valence", subject="A longer bracket", valence=1.5)
    await story.refused("record_outcome_valence_tool", "subject", valence=0.5)
    found = await story.call("retrieval_arbitrate_tool", query="how did the longer bracket turn out?")
    holds("recall tells", good["item"]["id"] in [row["id"] for row in found["items"][:2]], found)
    story.known["outcome"] = good["item"]["id"]


async def make(story):
    """Things with ids: the same gets the same, and what changed is on record."""
    first = await story.call("issue_artifact_id_tool", kind="firmware", name="logger", content_sha256=FIRMWARE)
    again = await story.call("issue_artifact_id_tool", kind="firmware", name="logger", content_sha256=FIRMWARE)
    same("the same id", [again["created"], again["artifact"]["artifact_id"]], [False, first["artifact"]["artifact_id"]])
    firmware = first["artifact"]["artifact_id"]
    for given, result in [(FIRMWARE, "match"), (NEXT_FIRMWARE, "changed"), (FIRMWARE, "match")]:
        told = await story.call("reconcile_artifact_id_tool", artifact_id=firmware, content_sha256=given)
        same("compared", told["result"], result)
    bundle = await story.call("issue_artifact_id_bundle_tool", artifacts=[
        {"kind": "report", "name": "October", "path": "gauge/README.md"}, {"kind": "log", "name": "Mounting"}])
    same("both are new", bundle["created"], 2)
    report = bundle["artifacts"][0]
    await story.refused("issue_artifact_id_bundle_tool", "member 1", artifacts=[
        {"kind": "report", "name": "November"}, {"kind": "log", "name": "Escape", "path": "../outside/payroll.md"}])
    readme = story.known["gauge"] / "README.md"
    whole = readme.read_bytes()
    readme.write_bytes(whole + b"\n")
    told = await story.call("reconcile_artifact_id_tool", artifact_id=report["artifact_id"], path="gauge/README.md")
    same("its file changed", told["result"], "changed")
    readme.write_bytes(whole)
    listed = await story.call("list_artifact_ids_tool")
    same("none of the bundle that was refused", sorted(row["name"] for row in listed["artifacts"]),
         ["Mounting", "October", "logger"])
    story.keep("list_artifact_ids_tool")


async def keep_state(story):
    """An agent's value by versions; who may have it is up to policy, and what for."""
    place = {"agent_id": "planner", "key": "route"}
    one = await story.call("agent_state_write_tool", **place, value={"next": "Oyster Sill"}, expected_version=0)
    two = await story.call("agent_state_write_tool", **place, value={"next": "Cooper's Gat"}, expected_version=1)
    same("versions", [one["version"], two["version"]], [1, 2])
    await story.refused("agent_state_write_tool", "expected_version", "2", **place, value={"next": "home"}, expected_version=1)
    told = await story.call("agent_state_read_admit_tool", **place, purpose="to sail on")
    same("it is given", [told["admitted"], told["version"], told["value"]], [True, 2, {"next": "Cooper's Gat"}])
    denied = await story.call("agent_state_read_admit_tool", **place, purpose="marketing")
    same("and not for that", [denied["admitted"], denied["rule"], "value" in denied],
         [False, "harbour/no-marketing", False])
    tried = await story.call("agent_state_policy_simulate_tool", **place, purpose="to sail on",
                             **{"as": {"plan": "team", "scopes": ["tenant:read"]}})
    same("who has no scope for it would not get it", tried["admitted"], False)
    lineage = await story.call("agent_state_lineage_tool", **place)
    same("who wrote it when", [(row["version"], row["status"]) for row in lineage["versions"]],
         [(2, "current"), (1, "superseded")])
    brief = await story.call("agent_state_write_tool", agent_id="planner", key="tide", value={"level": 2.31}, ttl_s=3600)
    holds("it says until when", brief["expires_at"].startswith("2026-10-23T"), brief)
    story.house.at(story.hour(17))
    over = await story.call("agent_state_read_admit_tool", agent_id="planner", key="tide", purpose="to sail on")
    same("after that it is over", over["admitted"], False)
    holds("and told why", "expired" in over["why"], over)
    story.keep("agent_state_lineage_tool", **place)
    story.keep("agent_state_read_admit_tool", **place, purpose="to sail on")


async def day(story):
    await attempt(story)
    await judge(story)
    await make(story)
    await keep_state(story)
