"""Thursday, 22 October 2026: a repository is read, and followed as its files change."""

import asyncio

import files
from story import holds, same


async def read(story):
    """One job with a file of each kind; the broken one and the one that leads out are told, and end nothing."""
    gauge = files.make(story.house.root, story.house.scratch / "outside")
    story.known["gauge"] = gauge
    tried = await story.call("ingest_paths_tool", paths=["gauge"], dry_run=True)
    same("a dry run is no job", ["job_id" in tried, tried["dry_run"]], [False, True])
    heard = []

    async def progress(done, total, message):
        heard.append((done, total, message))

    report = await story.call("ingest_paths_tool", paths=["gauge"], progress=progress)
    steps = [done for done, _, _ in heard]
    holds("progress is told, and only grows", steps and steps == sorted(set(steps)), heard)
    same("files, items and secrets are those of the dry run", [report[name] for name in ("files", "items", "secrets")],
         [tried[name] for name in ("files", "items", "secrets")])
    same("the broken file is one error", [row["path"] for row in report["errors"]], [str(gauge / "papers/torn.pdf")])
    skipped = {row["path"]: row["why"] for row in report["skipped"]}
    holds("the link that leads out is passed over", str(gauge / "docs/payroll.md") in skipped, skipped)
    same("the secret is told", [(row["path"], row["line"]) for row in report["secrets"]],
         [(str(gauge / "docs/deploy.md"), files.SECRET_LINE)])
    holds("but not repeated", files.SECRET not in report.text, report.text)
    story.known["job"] = report["job_id"]
    jobs = await story.call("ingest_status_tool", job_id=report["job_id"])
    same("the job is on record", [(row["state"], row["files"], row["errors_count"]) for row in jobs["jobs"]],
         [("done", report["files"], 1)])


async def keep_out(story):
    """What the operator did not open is not read, however it is named."""
    for path, word in [("../outside/payroll.md", "paths"), (str(story.house.scratch / "outside/payroll.md"), "paths"),
                       ("gauge/docs/payroll.md", "paths"), ("gauge/.git/HEAD", "hidden")]:
        await story.refused("ingest_paths_tool", word, paths=[path])
    found = await story.call("retrieval_arbitrate_tool", query="who reads the payroll?")
    holds("nothing of it was read", "treasurer" not in found.text, found.text)


async def call_off(story):
    """A long job is called off on its way, told as such, and goes on where it was."""
    begun = asyncio.Event()

    async def progress(done, *_):
        # The first word may come before anything is stored.
        if done > 0:
            begun.set()

    job = asyncio.create_task(story.client.call_tool("ingest_paths_tool", {"paths": ["survey"]},
                                                     progress_callback=progress))
    await begun.wait()
    job.cancel()
    ended = (await asyncio.gather(job, return_exceptions=True))[0]
    holds("the call is over", isinstance(ended, asyncio.CancelledError), repr(ended))
    # The next job has its turn once the first has let go.
    rest = await story.call("ingest_paths_tool", paths=["survey"])
    same("all files are looked at", rest["files"], files.SURVEY_FILES)
    holds("some were there, and not all", 0 < rest["unchanged"] < files.SURVEY_FILES, rest)
    states = [row["state"] for row in (await story.call("ingest_status_tool"))["jobs"]]
    same("the jobs of today, newest first", states[:3], ["done", "cancelled", "done"])
    again = await story.call("ingest_paths_tool", paths=["survey"])
    same("nothing is left", [again["items"], again["unchanged"]], [0, files.SURVEY_FILES])


async def look_up(story):
    """Each kind of file is found by what it says, and shown by lines."""
    gauge = story.known["gauge"]
    listed = await story.call("docstore_manifest_tool", path_prefix="gauge")
    formats = {row["path"].rsplit("/", 1)[1]: row["format"] for row in listed["documents"]}
    same("what was read, and as what", formats, {
        "README.md": "markdown", "decisions.md": "markdown", "deploy.md": "markdown", "runbook.rst": "rst",
        "visitors.html": "html", "gauge.rs": "rust", "report.py": "python", "stations.csv": "csv",
        "readings.jsonl": "jsonl", "datum.pdf": "pdf", "pier.png": "image"})
    for words, name in [("brass bolt quay wall", "papers/datum.pdf"), ("radar third piling", "pictures/pier.png"),
                        ("Bram Teague", "data/stations.csv"), ("spring tide highest year", "data/readings.jsonl"),
                        ("slipway", "docs/visitors.html"), ("is_crest", "src/gauge.rs"),
                        ("highest and low waters", "src/report.py"), ("slack water", "README.md")]:
        hits = (await story.call("docstore_search_tool", query=words))["hits"]
        holds(f"{words!r} leads to {name}", str(gauge / name) in [hit["path"] for hit in hits[:2]], hits)
    hit = (await story.call("docstore_search_tool", query="wipe the antenna"))["hits"][0]
    same("where", [hit["path"], hit["heading"]], [str(gauge / "docs/runbook.rst"), "Runbook > Sensor silent"])
    lines = await story.call("docstore_get_lines_tool", path=hit["path"], line_start=hit["line_start"],
                             line_end=hit["line_end"])
    holds("its lines are those of the file", "\n".join(lines["lines"]) in files.RUNBOOK, lines)
    outline = await story.call("docstore_get_outline_tool", path="gauge/docs/runbook.rst")
    same("its headings", [[row["title"] for row in outline["headings"]],
                          [row["title"] for row in outline["headings"][0]["children"]]],
         [["Runbook"], ["Sensor silent", "Staff and sensor differ"]])
    chunk = await story.call("docstore_get_chunk_tool", chunk_id=hit["chunk_id"])
    holds("the piece", "green key" in chunk["chunk"]["text"], chunk)
    whole = await story.call("docstore_get_document_tool", path="gauge/docs/runbook.rst")
    same("the whole", whole["text"], files.RUNBOOK)
    where = await story.call("retrieval_arbitrate_tool", query="where is level_above_datum?")
    place = where["items"][0]["map_evidence"]
    same("where a name is", [place["path"], place["file"]], [str(gauge / "src/gauge.rs"), "unchanged"])
    story.known |= {"runbook": whole["document_id"], "runbook_chunk": hit["chunk_id"]}


async def trace(story):
    """Where a document came from."""
    gauge = story.known["gauge"]
    sources = await story.call("list_sources_tool", uri_prefix=f"file://{gauge}/papers")
    same("sources", [row["uri"] for row in sources["sources"]], [f"file://{gauge}/papers/datum.pdf"])
    told = await story.call("source_provenance_tool", source_id=sources["sources"][0]["source_id"])
    same("it came in by the job", [told["came_in"]["via"], told["came_in"]["job_id"]],
         ["ingest_paths_tool", story.known["job"]])
    found = (await story.call("docstore_search_tool", query=files.SECRET))["hits"][0]
    item = await story.call("get_item_tool", item_id=found["chunk_id"])
    same("what has the secret is restricted", item["item"]["policy"]["sensitivity"], "restricted")
    story.known["secret_chunk"] = found["chunk_id"]


async def follow(story):
    """Files are renamed, edited and deleted; what was read of them is found stale, swept, and read again."""
    gauge = story.known["gauge"]
    story.house.at(story.hour(14))
    held = {name: (await story.call("docstore_get_document_tool", path=f"gauge/docs/{name}"))["document_id"]
            for name in ("decisions.md", "visitors.html", "runbook.rst")}
    ids = [held["decisions.md"], held["runbook.rst"], story.known["upload_now"], story.known["radar"]]
    fresh = await story.call("recall_staleness_check_tool", item_ids=ids)
    same("before", [row["status"] for row in fresh["items"]], ["fresh", "fresh", "fresh", "superseded"])
    files.change(gauge)
    stale = await story.call("recall_staleness_check_tool", item_ids=ids)
    same("after", [row["status"] for row in stale["items"]], ["source_changed", "source_missing", "fresh", "superseded"])
    gone = [str(gauge / "docs/runbook.rst"), str(gauge / "docs/visitors.html")]
    for dry in (True, False):
        swept = await story.call("tombstone_reconcile_sweep_tool", path_prefix="gauge", **({} if dry else {"dry_run": False}))
        same("dry unless told otherwise", swept["dry_run"], dry)
        same("missing", sorted(row["path"] for row in swept["missing"]), gone)
        same("changed", [row["path"] for row in swept["changed"]], [str(gauge / "docs/decisions.md")])
        listed = await story.call("docstore_manifest_tool", path_prefix="gauge/docs")
        same("what is listed", len(listed["documents"]), 4 if dry else 2)
    stale = await story.call("recall_staleness_check_tool", item_ids=ids)
    same("swept", [row["status"] for row in stale["items"]][:2], ["source_changed", "tombstoned"])
    report = await story.call("ingest_paths_tool", paths=["gauge"])
    same("one is new, one changed", [report["superseded"], report["unchanged"]], [1, 8])
    found = await story.call("docstore_search_tool", query="wipe the antenna")
    same("it is found under its new name", found["hits"][0]["path"], str(gauge / "docs/when-it-fails.rst"))
    history = await story.call("docstore_get_history_tool", path="gauge/docs/decisions.md")
    same("versions", [(row["version"], row["status"]) for row in history["versions"]], [(2, "current"), (1, "superseded")])
    old = await story.call("docstore_get_lines_tool", path="gauge/docs/decisions.md", line_start=11, line_end=11,
                           version=history["versions"][1]["content_sha256"])
    same("a line of the older one", old["lines"], ["Readings are uploaded every hour over the harbour's wireless network."])
    story.keep("docstore_get_history_tool", path="gauge/docs/decisions.md")


async def come_back(story):
    """A file that is there again comes back by the next sweep; a path that is tombstoned, by the next ingest."""
    gauge = story.known["gauge"]
    files.git(gauge, "checkout", "HEAD~1", "--", "docs/visitors.html")
    swept = await story.call("tombstone_reconcile_sweep_tool", path_prefix="gauge", dry_run=False)
    same("it is back", [row["path"] for row in swept["returned"]], [str(gauge / "docs/visitors.html")])
    hits = (await story.call("docstore_search_tool", query="slipway"))["hits"]
    same("and found", hits[0]["path"], str(gauge / "docs/visitors.html"))
    for dry in (True, False):
        taken = await story.call("tombstone_paths_tool", paths=["gauge/data"], reason="The figures are wrong.", dry_run=dry)
        same("documents of the folder", [taken["documents"], taken["dry_run"]], [2, dry])
        left = await story.call("docstore_manifest_tool", path_prefix="gauge/data")
        same("are out of sight", len(left["documents"]), 2 if dry else 0)
    swept = await story.call("tombstone_reconcile_sweep_tool")
    same("a sweep leaves alone what it did not take", swept["returned_count"], 0)
    await story.call("ingest_paths_tool", paths=["gauge/data"])
    back = await story.call("docstore_manifest_tool", path_prefix="gauge/data")
    same("are back", len(back["documents"]), 2)


async def mend(story):
    """The broken file is made whole, and no error is left."""
    (story.known["gauge"] / "papers/torn.pdf").write_bytes(files.pdf("Levelling", [["The staff was levelled in May."]]))
    report = await story.call("ingest_paths_tool", paths=["gauge"])
    same("one file more, and no error", [report["errors_count"], report["items"]], [0, 2])


async def paste(story):
    """A text that is given becomes a document; the same address again is its next version."""
    first = await story.call("ingest_text_tool", title="Talk with the harbour master", uri="note:harbour-master",
                             text="The harbour master lends us the green key until Christmas.")
    again = await story.call("ingest_text_tool", title="Talk with the harbour master", uri="note:harbour-master",
                             text="The harbour master lends us the green key until Easter.")
    same("versions", [first["document"]["version"], again["document"]["version"]], [1, 2])
    found = await story.call("retrieval_arbitrate_tool", query="until when may we keep the green key?")
    holds("the newer one answers", "Easter" in found["items"][0]["text"], found)
    hit = (await story.call("docstore_search_tool", query="harbour master lends"))["hits"][0]
    same("where it is from", hit["path"], "note:harbour-master")


async def day(story):
    await read(story)
    await keep_out(story)
    await call_off(story)
    await look_up(story)
    await trace(story)
    await follow(story)
    await come_back(story)
    await mend(story)
    await paste(story)
    story.keep("docstore_manifest_tool", path_prefix="gauge")
    story.keep("docstore_search_tool", query="wipe the antenna")
    story.keep("retrieval_arbitrate_tool", query="where is level_above_datum?")
    story.keep("ingest_status_tool", job_id=story.known["job"])
