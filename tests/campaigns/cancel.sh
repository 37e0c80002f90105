#!/usr/bin/env bash
# How long a read of a large store goes on once nobody waits for it any more, which is how long a call that is called off
# or past its time holds its worker: a scan by meaning, searches by words, neighbours of a hub, a walk, counts, all
# records of an export; each whole, and stopped at 40 moments of it. Ends with 1 where one goes on for a second.
#   tests/campaigns/cancel.sh [ROWS]
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo run -q --release -p engine --example interrupts -- "${1:-300000}"
