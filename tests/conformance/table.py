"""A run of the conformance suite as a table: table.py NAME LOG RESULTS STATUS. Fails unless the run ended well and every
scenario that is not of an extension passed, without a warning, and there were as many of them as there must be."""

import json
import pathlib
import re
import sys

# Scenarios that a run has at least: fewer are no proof.
SCENARIOS_MIN = {"stable": 32, "2025-11-25": 33, "2026-07-28": 40}
LINE = re.compile("^([\u2713\u2717]) ([a-z0-9-]+): ([0-9]+) passed, ([0-9]+) failed")
EXTENSION = re.compile("^  [\u2713\u2717] ([a-z0-9-]+) \\(extension\\)")


def warnings(results, scenario):
    """Checks of a scenario that ended with a warning. One that saved nothing proves nothing."""
    found = []
    folders = list(results.glob(f"server-{scenario}-20*"))
    if not folders:
        return ["no-results"]
    for folder in folders:
        for check in json.loads((folder / "checks.json").read_text()):
            if check["status"] == "WARNING":
                found.append(check["id"])
    return found


def main():
    name, log, results, status = sys.argv[1:]
    text = pathlib.Path(log).read_text()
    lines = text.splitlines()
    extensions = {found[1] for found in map(EXTENSION.match, lines) if found}
    faults = [] if status == "0" else [f"the suite ended with {status}"]
    count = 0
    print(f"\n{name}")
    for found in filter(None, map(LINE.match, lines)):
        mark, scenario, passed, failed = found.groups()
        if scenario in extensions:
            continue
        count += 1
        warned = warnings(pathlib.Path(results), scenario)
        is_good = mark == "\u2713" and failed == "0" and passed != "0" and not warned
        print(f"  {'pass' if is_good else 'FAIL'}  {scenario}: {passed} checks {' '.join(warned)}".rstrip())
        if not is_good:
            faults.append(scenario)
    if count < SCENARIOS_MIN[name]:
        faults.append(f"{count} scenarios ran, and there must be {SCENARIOS_MIN[name]}")
    if extensions:
        print(f"  ({len(extensions)} scenarios of optional extensions are not asked for)")
    print(f"  {count} scenarios, " + (f"not well: {', '.join(faults)}" if faults else "all passed"))
    sys.exit(1 if faults else 0)


main()
