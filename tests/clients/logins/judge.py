"""Holds what clients came to when they signed in to what it must be: judge.py < ACCOUNTS, a line of JSON for each client.

Every way must show the tools that its scopes allow and nothing else, write, and find what it wrote.
"""

import json
import sys

# Ways that have what clients ask for by themselves, and the words of which each client must tell.
WAYS = {
    "mcp 2.3.0 (Python)": {"browser": "cutter", "refreshed": "ketch", "workspace_key": "sloop", "bearer": "yawl"},
    "client 2.4.0 (TypeScript)": {
        "browser": "brig", "refreshed": "barque", "workspace_key": "lugger", "bearer": "smack"},
    "sdk 1.32.2 (TypeScript)": {
        "browser": "brig", "refreshed": "barque", "workspace_key": "lugger", "bearer": "smack"},
    "rmcp 3.9.0 (Rust)": {"browser": "junk", "refreshed": "dhow", "workspace_key": "felucca", "bearer": "xebec"},
    "inspector 2.12.0": {"browser": "cog", "signed_in_anew": "hulk", "bearer": "pinnace"},
}
ALWAYS = {"retrieval_arbitrate_tool", "brain_remember"}


def faults(account):
    client = account["client"]
    if set(account["ways"]) != set(WAYS[client]):
        yield f"{client}: the ways are {sorted(account['ways'])}"
        return
    for way, word in WAYS[client].items():
        told = account["ways"][way]
        if not told["wrote"]:
            yield f"{client}, {way}: nothing was written"
        if f"The {word} sails at dawn." not in told["found"]:
            yield f"{client}, {way}: what was written was not found, but: {told['found']}"
        if not ALWAYS <= set(told["tools"]):
            yield f"{client}, {way}: the tools are {told['tools']}"
        if told.get("rotated", True) is not True:
            yield f"{client}, {way}: the refresh token stayed, or somebody signed in once more"


def main():
    accounts = [json.loads(line) for line in sys.stdin]
    wrong = [fault for account in accounts for fault in faults(account)]
    missing = set(WAYS) - {account["client"] for account in accounts}
    wrong += [f"{client}: did not sign in" for client in sorted(missing)]
    # All people who sign in see the same catalog.
    catalogs = {tuple(account["ways"]["browser"]["tools"]) for account in accounts}
    if len(catalogs) > 1:
        wrong.append(f"clients that signed in see different tools: {sorted(catalogs)}")
    for account in accounts:
        print(f"{account['client']}: {', '.join(sorted(account['ways']))}, {account['seconds']:.1f} s")
    for fault in wrong:
        print(fault, file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
