#!/usr/bin/env bash
# schemathesis against /openapi.json of a scratch server: tests/campaigns/schemathesis.sh [EXAMPLES [SEED]], 1000 for each
# operation by default. All its checks; its examples, its coverage and its fuzzing. It must find nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

target="$(target_folder)"
folder="$target/schemathesis"
python_environment "$folder" tests/fastapi/schemathesis.txt tests/fastapi/requirements.txt
build_program
start_server "$target/debug/recalld" --ingest format-spec
python3 - "$scratch/credentials.json" >"$scratch/schemathesis.toml" <<'CONFIG'
import json
import sys

shown = json.load(open(sys.argv[1]))
for scheme, field, name in [
    ("gatewayClientId", "api_key", "gateway_client_id"),
    ("gatewayClientSecret", "api_key", "gateway_client_secret"),
    ("bearer", "bearer", "bearer"),
]:
    print(f'[auth.openapi.{scheme}]\n{field} = "{shown[name]}"')
CONFIG
seed="${2:-$RANDOM}"
echo "seed $seed"
hooks="$PWD/tests/fastapi"
cd "$scratch"
PYTHONPATH="$hooks" SCHEMATHESIS_HOOKS=hooks "$folder/venv/bin/schemathesis" \
    --config-file "$scratch/schemathesis.toml" run "$url/openapi.json" --phases examples,coverage,fuzzing \
    --continue-on-failure --seed "$seed" -n "${1:-1000}" --no-color
