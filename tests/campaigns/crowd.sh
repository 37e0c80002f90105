#!/usr/bin/env bash
# A crowd, slow clients and a soak before `recalld serve`, and what those in front of them notice:
#   - idle connections and open MCP streams are held while GET /health and questions are timed, with and without them;
#     memory for each, and descriptors back to where they were once all have left;
#   - clients with a slow head, a slow body, or a large answer that they do not read, and the same times beside them;
#   - mixed traffic (health, recall, MCP calls, ingest, requests broken off) with steady memory and descriptors.
# Ends with 1 when a bound in crowd.py is passed.
#   tests/campaigns/crowd.sh [CONNECTIONS [STREAMS [SOAK_SECONDS [PROGRAM]]]]
# The short form: tests/campaigns/crowd.sh 1000 100 20
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
need python3 python3
program="${4:-}"
if [[ -z "$program" ]]; then
    cargo build -q --release -p recalld-cli
    program="$(target_folder)/release/recalld"
fi
python3 tests/campaigns/crowd.py "$program" "${1:-10000}" "${2:-1000}" "${3:-300}"
