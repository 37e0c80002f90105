#!/usr/bin/env bash
# The console in Chromium: tests/campaigns/console.sh [ITEMS [PROGRAM [STORE [PART...]]]]. A store of ITEMS plain items (20,000), of a project's
# and of texts that would do harm if they were taken for markup: every view and every act, search as one types, keyboard, errors,
# sessions of administration and who may not have one, tenants' workspaces, items corrected and erased; width of a phone, light and
# dark, axe-core; nothing on the browser's console, no breach of the policy, no request to anybody else. Says how long it takes from a
# key to what was found, and from a click to each view. Screenshots are in target/browser/console.
# With a PROGRAM that one is tried (a release, for figures), and with a STORE a copy of that data directory, which has those items.
# On a machine with other work to do figures say something under `chrt -r 10`, with root: others wait for them meanwhile.
# What browser.sh installs is installed here, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# More than this is a page that does not answer.
seconds_max=1200
items="${1:-20000}"
target="$(target_folder)"
install_browser "$target/browser"
program="${2:-}"
if [[ -z "$program" ]]; then
    build_program
    program="$target/debug/recalld"
fi
program="$(realpath "$program")"
script="$PWD/tests/browser/console.mjs"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
if [[ -n "${3:-}" ]]; then
    cp -r "$3" "$scratch/data"
else
    python3 tests/campaigns/console_store.py "$items" >"$scratch/store.jsonl"
    "$program" import "$scratch/store.jsonl" --strict --json --data "$scratch/data" >"$scratch/imported.json"
fi
start_server "$program" --ingest format-spec
cd "$target/browser"
timeout "$seconds_max" node "$script" "$url" "$scratch/credentials.json" "$items" "$target/browser/console" "${@:4}"
