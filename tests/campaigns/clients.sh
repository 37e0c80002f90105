#!/usr/bin/env bash
# Real MCP clients against the program: tests/campaigns/clients.sh [ERA...], with ERA `handshake` (revisions that begin
# with `initialize`) or `per-request` (2026-07-28); both by default. `recalld serve` on a free port and a scratch folder;
# the Python, TypeScript and Rust clients and the Inspector's command line each connect, list, recall, write, find again,
# misspell, read resources and
# prompts, complete, follow, call a job off, take a stream up again where they can, and leave; tests/clients/judge.py says what differs. Packages are installed by name and version into
# target/clients.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/campaigns/tools.sh
. tests/campaigns/client_packages.sh

eras=("$@")
((${#eras[@]})) || eras=(handshake per-request)

scratch="$(mktemp -d)"
server_pid=""
trap 'end_scratch $server_pid' EXIT

install_clients
build_program

mkdir "$scratch/documents" "$scratch/home"
printf '# Lamp\n\nThe lamp burns paraffin.\n' >"$scratch/documents/lamp.md"
mkfifo "$scratch/ready"
"$(target_folder)/debug/recalld" serve --local 127.0.0.1:0 --data "$scratch/data" --ingest "$scratch/documents" \
    >"$scratch/ready" 2>"$scratch/said" &
server_pid=$!
exec 7<"$scratch/ready"
# Ten minutes: the first start may have to fetch the model.
read -r -t 600 line <&7 || fail "the server did not say that it is ready: $(cat "$scratch/said")"
url="${line#ready local=}"
url="${url%% *}"

# Each account writes of a bird of its own.
birds=(wren teal knot ruff smew dunlin curlew plover merlin linnet petrel gannet)
newest=2025-11-25
[[ " ${eras[*]} " != *" per-request "* ]] || newest=2026-07-28

# documents NAME: a folder of so many files that ingesting them can be called off on the way.
documents() {
    mkdir "$scratch/documents/$1"
    for number in {1..400}; do
        printf '# %s %d\n\nOn day %d the %s flew %d miles along the coast, and was seen from %d boats.\n' \
            "$1" "$number" "$number" "$1" $((number * 3)) $((number % 7)) >"$scratch/documents/$1/$number.md"
    done
}

# account CLIENT ERA COMMAND...: runs it with URL, ERA and WORD behind, and keeps what it tells.
account() {
    local client="$1" era="$2" word="${birds[0]}" began expected=2025-11-25
    shift 2
    birds=("${birds[@]:1}")
    case "$era" in per-request) expected=2026-07-28 ;; auto) expected=$newest ;; esac
    documents "$word"
    began=$(date +%s%N)
    HOME="$scratch/home" timeout 180 "$@" "$url" "$era" "$word" >"$scratch/account" 2>"$scratch/error" ||
        fail "$client, $era: $(tail -c 3000 "$scratch/error")"
    python3 -c '
import json, sys
told = json.load(open(sys.argv[1], encoding="utf-8"))
client, era, word, expected, began, ended = sys.argv[2:]
told |= {"client": client, "era": era, "word": word, "expected": expected,
         "seconds": (int(ended) - int(began)) / 1e9}
print(json.dumps(told))
' "$scratch/account" "$client" "$era" "$word" "$expected" "$began" "$(date +%s%N)" >>"$scratch/accounts"
}

export PYTHONPATH="$here/python"
for era in "${eras[@]}" auto; do
    account "mcp 2.3.0 (Python)" "$era" python3 tests/clients/client.py
    account "client 2.4.0 (TypeScript)" "$era" "$node/.bin/node" "$here/node/client.mjs" client
    account "rmcp 3.9.0 (Rust)" "$era" "$here/rmcp/debug/client-rmcp"
    if [[ "$era" != auto ]]; then
        account "inspector 2.12.0" "$era" python3 tests/clients/inspector.py "$node"
    fi
    if [[ "$era" == handshake ]]; then
        account "sdk 1.32.2 (TypeScript)" "$era" "$node/.bin/node" "$here/node/client.mjs" sdk
    fi
done
unset PYTHONPATH

python3 tests/clients/judge.py tests/golden/tools.json <"$scratch/accounts" || fail "the accounts differ from what they must be"

kill -TERM "$server_pid"
status=0
wait "$server_pid" || status=$?
server_pid=""
((status == 0)) || fail "SIGTERM ended the server with $status instead of 0"
