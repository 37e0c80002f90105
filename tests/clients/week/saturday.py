"""Saturday, 24 October 2026: what is to be come back to, by the clocks of Berlin, which go back tonight."""

from story import holds, same


async def schedule(story):
    once = await story.call("schedule_followup_tool", text="Send the October report", due_at="2026-10-24T18:00:00+02:00",
                            timezone="Europe/Berlin", item_id=story.known["intent"])
    daily = await story.call("schedule_followup_tool", text="Compare staff and sensor", due_at="2026-10-24T09:00:00+02:00",
                             timezone="Europe/Berlin", repeat="daily")
    monthly = await story.call("schedule_followup_tool", text="Clean the antenna", due_at="2026-10-31T08:00:00+01:00",
                               timezone="Europe/Berlin", repeat="monthly")
    same("by the clocks of the zone", [told["followup"]["due_local"] for told in (once, daily, monthly)],
         ["2026-10-24T18:00:00+02:00[Europe/Berlin]", "2026-10-24T09:00:00+02:00[Europe/Berlin]",
          "2026-10-31T08:00:00+01:00[Europe/Berlin]"])
    await story.refused("schedule_followup_tool", "timezone", text="More", due_at="2026-10-24T09:00:00Z",
                        timezone="Europe/Atlantis")
    await story.refused("schedule_followup_tool", "due_at", text="More", due_at="tomorrow")
    story.known |= {"once": once["followup"]["followup_id"], "daily": daily["followup"]["followup_id"],
                    "monthly": monthly["followup"]["followup_id"]}


async def fall_due(story):
    known = story.known
    none = await story.call("due_followups_tool")
    same("nothing is due at eight", none["followups"], [])
    start = await story.call("brain_startup_context_tool")
    rows = {section["name"]: [row["id"] for row in section["rows"]] for section in start["sections"]}
    same("what will be within a day is told at the start", len(rows["followups"]), 2)
    story.house.at(story.hour(9, 30))
    due = await story.call("due_followups_tool")
    same("half an hour late", [(row["followup_id"], row["overdue_by"][:5]) for row in due["followups"]],
         [(known["daily"], "PT30M")])
    story.house.at(story.hour(10))
    done = await story.call("complete_followup_tool", followup_id=known["daily"], note="They agree within a centimetre.")
    same("the next one has the same hour, by clocks that went back", done["next"]["due_local"],
         "2026-10-25T09:00:00+01:00[Europe/Berlin]")
    same("which is 25 hours later", [done["followup"]["due_at"], done["next"]["due_at"]],
         ["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"])
    await story.refused("complete_followup_tool", "done", followup_id=known["daily"])
    known["daily_next"] = done["next"]["followup_id"]
    ahead = await story.call("due_followups_tool", before="2026-11-01T00:00:00Z")
    same("what is ahead, soonest first", [row["followup_id"] for row in ahead["followups"]],
         [known["once"], known["daily_next"], known["monthly"]])
    early = await story.call("complete_followup_tool", followup_id=known["monthly"])
    same("the 31st is the last day of a shorter month", early["next"]["due_local"],
         "2026-11-30T08:00:00+01:00[Europe/Berlin]")
    story.keep("due_followups_tool", before="2026-10-24T07:00:00Z")


async def brief(story):
    """What yesterday and today brought; each line names its item, and its token is checked."""
    friday = await story.call("generate_daily_brain_brief_tool", date="2026-10-23", timezone="Europe/Berlin", format="json")
    rows = {section["name"]: section["rows"] for section in friday["sections"]}
    same("Friday by the clocks of Berlin", [friday["day"]["from"], friday["day"]["to"], friday["day"]["hours"]],
         ["2026-10-22T22:00:00Z", "2026-10-23T22:00:00Z", 24])
    same("outcomes", len(rows["outcomes"]), 2)
    holds("tasks that moved", len(rows["tasks"]) >= 3, rows["tasks"])
    tokens = [row["grounding_token"] for section in friday["sections"] for row in section["rows"]]
    checked = await story.call("recall_staleness_check_tool", grounding_tokens=tokens)
    same("each line is grounded", {row["status"] for row in checked["items"]} - {"fresh", "superseded"}, set())
    thursday = await story.call("generate_daily_brain_brief_tool", date="2026-10-22", timezone="Europe/Berlin")
    holds("what was ingested", "## Ingested" in thursday["markdown"] and "Visiting Northpier" in thursday["markdown"], thursday)
    tuesday = await story.call("generate_daily_brain_brief_tool", date="2026-10-20", timezone="Europe/Berlin", format="json")
    rows = {section["name"]: [row["id"] for row in section["rows"]] for section in tuesday["sections"]}
    same("decisions of Tuesday", sorted(rows["decisions"]),
         sorted([story.known["radar"], story.known["near"], story.known["upload"]]))
    same("what policy keeps back is counted", tuesday["withheld"], 1)
    await story.refused("generate_daily_brain_brief_tool", "date", date="2026-02-30")
    await story.refused("generate_daily_brain_brief_tool", "timezone", timezone="Mars/Olympus")
    story.keep("generate_daily_brain_brief_tool", date="2026-10-20", timezone="Europe/Berlin")
    story.keep("generate_daily_brain_brief_tool", date="2026-10-23", timezone="Europe/Berlin", format="json")


async def day(story):
    await schedule(story)
    await fall_due(story)
    await brief(story)
