#!/usr/bin/env bash
# Real MCP clients sign in to the hosted listener: tests/campaigns/logins.sh. `recalld serve` on free ports and a scratch
# folder, with a workspace `acme`; the Python, TypeScript and Rust clients and the Inspector's command line each come with
# the address alone and sign in (tests/clients/logins/README.md says on which ways), and tests/clients/logins/judge.py says
# what differs. Then the authorization scenarios of the official conformance suite, which must all pass.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/campaigns/tools.sh
. tests/campaigns/client_packages.sh
. tests/campaigns/conformance_suite.sh

scenarios_seconds_max=120

install_clients
install_suite
build_program
recalld="$(target_folder)/debug/recalld"
start_server "$recalld" --hosted 127.0.0.1:0
[[ "$line" == *" hosted="* ]] || fail "the server did not say where it is hosted: $line"
hosted="${line#* hosted=}"
hosted="${hosted%% *}"
mkdir "$scratch/home"

# administered ARGUMENT...: one member of what an act of administration prints, its name in `$member`.
administered() {
    "$recalld" "$@" --json --data "$scratch/data" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$member"
}
member=slug administered tenant create acme --plan team >"$scratch/slug"
once() { member=secret administered key issue acme --kind once; }
key="$(member=secret administered key rotate acme)"
bearer="$(member=secret administered key issue acme --kind bearer --name gateway)"

# account CLIENT COMMAND...: runs it with `$arguments` behind, and keeps what it tells.
account() {
    local client="$1" began
    shift
    began=$(date +%s%N)
    HOME="$scratch/home" PYTHONPATH="$here/python" timeout 180 "$@" >"$scratch/account" 2>"$scratch/error" ||
        fail "$client: $(tail -c 3000 "$scratch/error")"
    python3 -c '
import json, sys
told = json.load(open(sys.argv[1], encoding="utf-8"))
client, began, ended = sys.argv[2:]
print(json.dumps({"client": client, "ways": told, "seconds": (int(ended) - int(began)) / 1e9}))
' "$scratch/account" "$client" "$began" "$(date +%s%N)" >>"$scratch/accounts"
}

logins=tests/clients/logins
account "mcp 2.3.0 (Python)" python3 "$logins/login.py" "$hosted" acme "$(once)" "$key" "$bearer"
for package in "client 2.4.0 (TypeScript)" "sdk 1.32.2 (TypeScript)"; do
    account "$package" "$node/.bin/node" "$here/node/login.mjs" "${package%% *}" "$PWD/$logins/walk.py" \
        "$hosted" acme "$(once)" "$key" "$bearer"
done
account "rmcp 3.9.0 (Rust)" "$here/rmcp/debug/login-rmcp" "$logins/walk.py" "$hosted" acme "$(once)" "$key" "$bearer"
account "inspector 2.12.0" python3 "$logins/login_inspector.py" "$node" "$hosted" acme "$(once)" "$(once)" "$bearer"
python3 "$logins/judge.py" <"$scratch/accounts" || fail "clients did not come to what they must"

# The suite is a client that has registered; it prints where a person has to go, and waits for the answer.
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
client="$(python3 - "$hosted" "$port" <<'PY'
import json, sys, urllib.request
body = json.dumps({"client_name": "Conformance", "token_endpoint_auth_method": "none",
                   "redirect_uris": [f"http://127.0.0.1:{sys.argv[2]}/callback"]}).encode()
ask = urllib.request.Request(f"{sys.argv[1]}/register", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(ask, timeout=30))["client_id"])
PY
)"
mkfifo "$scratch/suite"
timeout "$scenarios_seconds_max" "$suite_node" "$suite_home/node_modules/conformance-next/dist/index.js" authorization \
    --url "$hosted" --client-id "$client" --resource "$hosted/mcp" -p "$port" -o "$suite_home/results/authorization" \
    >"$scratch/suite" 2>&1 &
suite_pid=$!
while read -r said; do
    printf '%s\n' "$said"
    if [[ "$said" == "$hosted/authorize?"* ]]; then
        python3 "$logins/walk.py" "$said" acme "$(once)" --arrive >"$scratch/walked"
    fi
done <"$scratch/suite"
status=0
wait "$suite_pid" || status=$?
((status == 0)) || fail "the authorization scenarios of the conformance suite ended with $status"
