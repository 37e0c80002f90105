#!/usr/bin/env bash
# Kills a process that writes, seals, compacts and erases: tests/campaigns/kill.sh [KILLS], 300 by default.
# Prints the seed; RECALLD_TEST_SEED=N plays the same loads again (the moments differ by microseconds).
set -euo pipefail
cd "$(dirname "$0")/../.."

RECALLD_KILLS="${1:-300}" cargo test -p support-engine --test crash -- --nocapture
