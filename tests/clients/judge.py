"""Reads accounts (README.md) from standard input, one a line, each beside its `client`, `era`, `word`, `seconds`
and the `expected` revision; judge.py CATALOG, where CATALOG is the committed list of tools. Prints a table; ends
with 1 and what differs when an account is not as it must be."""

import json
import sys

MISSPELT = "arguments: `quary` is not an argument; did you mean `query`?"
UNKNOWN = {"code": -32602, "message": "Unknown tool: brain_rember; did you mean `brain_remember`?"}
TOKEN_CHARS = 152
# The brief; and the prompts that are listed in format-spec/mcp.md.
TEMPLATES = ["memory://item/{id}", "memory://document/{id}"]
OFFERED = {"resources": 1, "prompts": 3}


def checks(told, catalog, first):
    """Name, outcome and subject of each check of one account; `first` is one that it must agree with."""
    inspector = told["client"].startswith("inspector")
    blind = told.get("blind", False)
    recall, again, item = (told[name]["structured"] for name in ("recall", "again", "remember"))
    item = item["item"]
    best = recall["items"][0]

    yield "revision", told["protocol"] == (None if inspector else told["expected"]), told["protocol"]
    yield "server", blind or told["server"] == "recalld", told["server"]
    yield ("instructions", blind or "retrieval_arbitrate_tool" in (told["instructions"] or ""),
           told["instructions"])
    yield "tools", told["tools"] == catalog, [tool for tool in told["tools"] if tool not in catalog]
    yield "core", told["core"] == first["core"] and 0 < len(told["core"]) < len(catalog), told["core"]
    yield ("recall", not told["recall"]["error"] and "paraffin" in best["text"]
           and "paraffin" in told["recall"]["text"] and len(best["grounding_token"]) == TOKEN_CHARS
           and recall["receipt"]["decision"] == "allow", recall)
    yield ("write", not told["remember"]["error"] and item["tags"] == [told["word"], "birds"]
           and told["word"] in item["text"], item)
    yield "found again", not told["again"]["error"] and again["items"][0]["id"] == item["id"], again
    yield ("misspelt argument", told["misspelt"]["error"] and told["misspelt"]["text"] == MISSPELT,
           told["misspelt"])
    # The Inspector looks the name up itself.
    yield "misspelt tool", told["unknown"] == (None if inspector else UNKNOWN), told["unknown"]
    for name, count in OFFERED.items():
        yield name, told[name] == count, told[name]
    yield from beyond_tools(told, inspector)
    yield "ended", told["ended"] is True, told["ended"]


def beyond_tools(told, inspector):
    """The same of resources, prompts, completions, and of what goes on while a call is under way."""
    word, resource, prompt = told["word"], told["resource"], told["prompt"]
    yield "resource", resource.startswith("# Brief of "), resource
    yield "templates", told["templates"] == TEMPLATES, told["templates"]
    yield "prompt", f"where is the {word}?" in prompt, prompt
    if inspector:
        return
    yield "template", word in json.loads(told["template"])["text"], told["template"]
    yield "completed", told["completed"] == [word], told["completed"]
    yield "updated", told["updated"] == "memory://brief/today", told["updated"]
    off, again = told["called_off"], told["called_off"]["again"]
    # The job has let go of its turn, and has not done all.
    yield ("called off", off["ended"] and not again["error"]
           and again["structured"]["unchanged"] < again["structured"]["files"], off)
    if told["protocol"] == "2026-07-28":
        return  # which has neither a level to set nor streams to take up again
    yield "log level", told["logging"] is True, told["logging"]
    # rmcp takes streams up again by itself, and offers no way to ask for it.
    if not told["client"].startswith("rmcp"):
        one, same = told["resumed"]
        yield "resumed", one == same and bool(one), told["resumed"]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        catalog = json.load(file)
    accounts = [json.loads(line) for line in sys.stdin]
    if not accounts:
        sys.exit("no accounts")
    wrong = []
    print(f"{'client':28} {'era':12} {'revision':11} {'tools':>5} {'core':>4} {'resources':>9} "
          f"{'prompts':>7} {'seconds':>7}  found")
    for told in accounts:
        failed = [(name, subject) for name, good, subject in checks(told, catalog, accounts[0])
                  if not good]
        wrong += [(told, name, subject) for name, subject in failed]
        cells = ["-" if told[name] is None else told[name]
                 for name in ("protocol", "resources", "prompts")]
        print(f"{told['client']:28} {told['era']:12} {cells[0]:11} {len(told['tools']):5} "
              f"{len(told['core']):4} {cells[1]:>9} {cells[2]:>7} {told['seconds']:7.1f}  "
              f"{', '.join(name for name, _ in failed) or 'nothing'}")
    for told, name, subject in wrong:
        print(f"{told['client']}, {told['era']}: {name} is not as it must be: "
              f"{json.dumps(subject)[:2000]}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
