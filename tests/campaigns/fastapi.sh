#!/usr/bin/env bash
# FastAPI and `recalld serve` side by side: tests/campaigns/fastapi.sh [REQUESTS [SEED]], 60000 by default. What was thought of
# is asked first, then as many requests as are wanted from the seed: bodies of every kind, broken in every way, under odd
# content types. Status and body must be the same, `msg`, `ctx` and `input` included, but for what format-spec/http.md
# lists. A difference becomes a case of tests/fastapi/bodies.py, and so a golden one.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# Later Pythons word some JSON errors in another way, and nest deeper.
python="$(command -v python3.11 || command -v python3)"
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || skip "the reference needs Python 3.11"
export python
target="$(target_folder)"
python_environment "$target/fastapi" tests/fastapi/requirements.txt
build_program
exec "$target/fastapi/venv/bin/python" tests/fastapi/compare.py "$target/debug/recalld" "${1:-60000}" "${2:-$RANDOM}"
