#!/usr/bin/env bash
# The official MCP conformance suite against the fixture binary: tests/campaigns/conformance.sh. Every scenario of the
# stable suite, and every scored one of revisions 2025-11-25 and 2026-07-28 of the next one, must pass; there is no list
# of expected failures. Prints a table; what the suite said and saved of each scenario stays in target/conformance/.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh
# shellcheck source=tests/campaigns/conformance_suite.sh
. tests/campaigns/conformance_suite.sh

suite_seconds_max=600
fixture_pid=""

cleanup() {
    if [[ -n "$fixture_pid" ]]; then kill "$fixture_pid" 2>/dev/null || true; fi
}
trap cleanup EXIT

install_suite
home="$suite_home"
build_program --example mcp_fixture
fifo="$home/ready"
rm -rf "$fifo" "$home/results"
mkfifo "$fifo"
"$(target_folder)/debug/examples/mcp_fixture" --local 127.0.0.1:0 >"$fifo" &
fixture_pid=$!
exec 7<"$fifo"
read -r -t 60 line <&7 || fail "the fixture did not say that it is ready"
url="${line#ready }"

# run NAME PACKAGE ARGUMENT...: one run of a suite, its words in NAME.log.
run() {
    local name="$1" package="$2" status=0
    shift 2
    timeout "$suite_seconds_max" "$suite_node" "$home/node_modules/$package/dist/index.js" \
        server --url "$url" "$@" -o "$home/results/$name" >"$home/$name.log" 2>&1 || status=$?
    python3 tests/conformance/table.py "$name" "$home/$name.log" "$home/results/$name" "$status"
}

status=0
run stable conformance-stable --suite all || status=1
run 2025-11-25 conformance-next --requirements 2025-11-25 || status=1
run 2026-07-28 conformance-next --requirements 2026-07-28 || status=1
((status == 0)) || fail "conformance: see the table, and $home/*.log"
