"""Small exports of other programs, in the folder that it is run in: what a reader of docs/import.md has, and a scratch home has not."""

import json
import pathlib
import zipfile

home = pathlib.Path.home()
lines = {
    "memory.jsonl": [
        {"type": "entity", "name": "Reef", "entityType": "place", "observations": ["It is crossed at high water."]},
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["She keeps the beacon."]},
        {"type": "relation", "from": "Ada", "to": "Reef", "relationType": "crosses"},
    ],
    "facts.jsonl": [{"text": "The beacon is lit by paraffin.", "tags": ["beacon"]}],
    "all.jsonl": [],
}
for name, rows in lines.items():
    pathlib.Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
whole = {
    "mem0.json": {
        "results": [{"id": "m1", "memory": "Prefers tea", "created_at": "2026-01-02T00:00:00Z"}],
        "history": [
            {"memory_id": "m1", "event": "ADD", "old_memory": None, "new_memory": "Prefers coffee",
             "created_at": "2026-01-01T00:00:00Z"},
            {"memory_id": "m1", "event": "UPDATE", "old_memory": "Prefers coffee", "new_memory": "Prefers tea",
             "created_at": "2026-01-02T00:00:00Z"},
        ],
    },
    "memories.json": {"memories": [{"content": "The gate is green.", "content_hash": "ab12", "tags": ["gate"]}]},
}
for name, value in whole.items():
    pathlib.Path(name).write_text(json.dumps(value))
(home / "notes").mkdir(exist_ok=True)
(home / "notes/lamp.md").write_text("# Lamp room\n\n- [decision] Lamps are trimmed at dusk #lamp\n- near [[Reef]]\n")
(home / "notes/reef.md").write_text("# Reef\n\nCrossed at high water only.\n")


def archive(name, conversations, **others):
    with zipfile.ZipFile(name, "w") as made:
        for file, value in {"conversations": conversations, **others}.items():
            made.writestr(f"{file}.json", json.dumps(value))


def message(text, role, parent, children):
    content = {"content_type": "text", "parts": [text]}
    return {"parent": parent, "children": children,
            "message": {"id": text[:3], "author": {"role": role}, "create_time": 1767225600.0, "content": content}}


mapping = {
    "root": {"id": "root", "message": None, "parent": None, "children": ["a"]},
    "a": {"id": "a", **message("When is high water?", "user", "root", ["b"])},
    "b": {"id": "b", **message("At noon.", "assistant", "a", [])},
}
archive("chatgpt-export.zip", [{"id": "c1", "title": "Tides", "create_time": 1767225600.0, "current_node": "b", "mapping": mapping}])
said = [
    {"uuid": "m1", "sender": "human", "text": "How is the beacon lit?", "created_at": "2026-01-01T00:00:00Z"},
    {"uuid": "m2", "sender": "assistant", "text": "By paraffin.", "created_at": "2026-01-01T00:00:05Z"},
]
archive("claude-export.zip", [{"uuid": "k1", "name": "Beacon", "created_at": "2026-01-01T00:00:00Z", "chat_messages": said}], projects=[])
