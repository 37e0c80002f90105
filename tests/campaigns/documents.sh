#!/usr/bin/env bash
# Runs the commands of the documents as a reader would: README.md and each page of docs/, block by block in their order, each page
# in a home of its own, on free ports, with the program in its PATH. Blocks marked `sh no-run` are counted and not run; that their
# commands have the program's subcommands and flags is a test (`cargo test -p e2e documents`).
#   tests/campaigns/documents.sh [PROGRAM [PAGE...]]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
need curl curl ca-certificates
need git git
target="$(target_folder)"
program="${1:-}"
shift $(($# > 0 ? 1 : 0))
if [[ -z "$program" ]]; then
    build_program
    program="$target/debug/recalld"
fi
exec python3 tests/campaigns/documents.py "$(realpath "$program")" "$@"
