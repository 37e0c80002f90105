#!/usr/bin/env bash
# A week of an operator's work over the real MCP endpoint: tests/campaigns/week.sh. The Python client decides, corrects,
# supersedes, ingests a repository, attempts tasks, follows up, verifies and forgets, a day each, and asks everything again
# after each evening's SIGTERM or SIGKILL; the TypeScript client then has a short story of its own (tests/clients/week/).
# libfaketime tells the program what day it is. All that was asked and answered is in target/clients/week.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/campaigns/tools.sh
. tests/campaigns/client_packages.sh

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

need git git
need faketime faketime
install_scripted_clients
build_program

library="$(faketime -m '2026-10-20' printenv LD_PRELOAD)" || fail "faketime does not say where its library is"
PYTHONPATH="$here/python" timeout 900 python3 tests/clients/week/main.py \
    "$(target_folder)/debug/recalld" "$scratch" "$library" "$here/week.md" "$node/.bin/node" "$here/node/afterword.mjs"
