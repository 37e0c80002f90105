#!/usr/bin/env bash
# Imports documents of about 60 words, killed three times on the way: tests/campaigns/embed.sh [DOCUMENTS [MODEL]], 100000 by
# default, with the default model or the one in the folder MODEL. Prints documents a second, memory from the first tenth on
# and texts that were embedded twice, and fails where one of the bounds in embed.py is broken.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build -q --release -p recalld-cli
exec python3 -u tests/campaigns/embed.py "${CARGO_TARGET_DIR:-$PWD/target}/release/recalld" "${1:-100000}" "${@:2}"
