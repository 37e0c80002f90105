#!/usr/bin/env bash
# Imports documents of about 60 words, killed three times on the way, 100000 by default, with the default model or the one in
# the folder MODEL: tests/campaigns/embed.sh [DOCUMENTS [PROGRAM [MODEL]]]. Prints documents a second, memory from the first
# tenth on and texts that were embedded twice, and fails where one of the bounds in embed.py is broken.
# PROGRAM is target/release/recalld where it is not given, and built if need be.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
program="${2:-}"
if [[ -z "$program" ]]; then
    cargo build -q --release -p recalld-cli
    program="$(target_folder)/release/recalld"
fi
exec python3 -u tests/campaigns/embed.py "$program" "${1:-100000}" "${@:3}"
