#!/usr/bin/env bash
# How much memory an idle connection takes, plain and with TLS: connections are opened, each has had one answer, and then
# rests; what the server holds more than before, divided by their number. Ends with 1 when one takes 4 KiB or more.
#   tests/campaigns/idle.sh [CONNECTIONS [PROGRAM]]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
need openssl openssl
connections="${1:-10000}"
program="${2:-}"
if [[ -z "$program" ]]; then
    cargo build -q --release -p recalld-cli
    program="${CARGO_TARGET_DIR:-$PWD/target}/release/recalld"
fi
python3 tests/campaigns/idle.py "$program" "$connections"
