"""Reads accounts (README.md) from standard input, one a line, each beside its `client`, `era`, `word`, `seconds`
and the `expected` revision; judge.py CATALOG, where CATALOG is the committed list of tools. Prints a table; ends
with 1 and what differs when an account is not as it must be."""

import json
import sys

MISSPELT = "arguments: `quary` is not an argument; did you mean `query`?"
UNKNOWN = {"code": -32602, "message": "Unknown tool: brain_rember; did you mean `brain_remember`?"}
TOKEN_CHARS = 152


def checks(told, catalog, first):
    """Name and outcome of each check of one account; `first` is the account that it must agree with."""
    inspector = told["client"].startswith("inspector")

    def same(name):
        # The Inspector asks for lists that the server does not offer, and shows them as empty.
        return told[name] == first[name] or inspector and not told[name] and not first[name]

    items = told["recall"]["structured"]["items"]
    again = told["again"]["structured"]["items"]
    item = told["remember"]["structured"]["item"]
    yield "revision", inspector or told["protocol"] == told["expected"]
    yield "server", inspector or told["server"] == "recalld"
    yield "instructions", inspector or "retrieval_arbitrate_tool" in (told["instructions"] or "")
    yield "tools", told["tools"] == catalog
    yield "core", told["core"] == first["core"] and 0 < len(told["core"]) < len(catalog)
    yield "recall", (not told["recall"]["error"] and "paraffin" in items[0]["text"]
                     and "paraffin" in told["recall"]["text"]
                     and len(items[0]["grounding_token"]) == TOKEN_CHARS
                     and told["recall"]["structured"]["receipt"]["decision"] == "allow")
    yield "write", (not told["remember"]["error"] and item["tags"] == [told["word"], "birds"]
                    and told["word"] in item["text"])
    yield "found again", not told["again"]["error"] and again[0]["id"] == item["id"]
    yield "misspelt argument", told["misspelt"]["error"] and told["misspelt"]["text"] == MISSPELT
    yield "misspelt tool", inspector or told["unknown"] == UNKNOWN
    yield "resources", same("resources")
    yield "prompts", same("prompts")
    yield "ended", told["ended"] is True


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
        failed = [name for name, good in checks(told, catalog, accounts[0]) if not good]
        wrong += [(told, name) for name in failed]
        cells = ["-" if told[name] is None else told[name]
                 for name in ("protocol", "resources", "prompts")]
        print(f"{told['client']:28} {told['era']:12} {cells[0]:11} {len(told['tools']):5} "
              f"{len(told['core']):4} {cells[1]:>9} {cells[2]:>7} {told['seconds']:7.1f}  "
              f"{', '.join(failed) or 'nothing'}")
    for told, name in wrong:
        print(f"\n{told['client']}, {told['era']}: {name} is not as it must be in {json.dumps(told)[:4000]}",
              file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
