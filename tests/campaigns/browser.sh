#!/usr/bin/env bash
# The pages in Chromium: tests/campaigns/browser.sh. Of /docs each operation by its form, wrong bodies, the curl commands it shows;
# of signing in, with a fixture behind the pages, all ways to end it and to get it wrong. Both by keyboard, contrast, width
# of a phone, light and dark; nothing on the console, no breach of their policy, no request to anybody else. Screenshots are
# in target/browser/shots. Installs Chromium, playwright-core and axe-core where they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

playwright=1.65.0
axe=4.14.1
# More than this is a registry, or a page, that does not answer.
seconds_max=300
target="$(target_folder)"
folder="$target/browser"
need node nodejs npm
need npm npm
need chromium chromium
CHROMIUM="$(command -v chromium)"
export CHROMIUM
mkdir -p "$folder"
[[ -f "$folder/package.json" ]] || echo '{"private": true}' >"$folder/package.json"
installed="$(cd "$folder" && npm ls --parseable --long playwright-core axe-core 2>/dev/null || true)"
if [[ "$installed" != *"playwright-core@$playwright"* || "$installed" != *"axe-core@$axe"* ]]; then
    (cd "$folder" && timeout "$seconds_max" npm install --no-fund --no-audit --save-exact \
        "playwright-core@$playwright" "axe-core@$axe" >/dev/null) || skip "playwright-core and axe-core cannot be installed"
fi
cargo build -q -p server --bin recalld --example sign_in_pages
pages="$PWD/tests/browser/pages.mjs"
start_server "$target/debug/recalld" --ingest format-spec
page="$PWD/tests/browser/docs.mjs"
cd "$folder"
timeout "$seconds_max" node "$page" "$url" "$scratch/credentials.json" "$folder/shots"

mkfifo "$scratch/pages"
"$target/debug/examples/sign_in_pages" >"$scratch/pages" &
pages_pid=$!
trap 'kill "$pages_pid" "$server_pid" 2>/dev/null; rm -rf "$scratch"' EXIT
read -r -t 60 line <"$scratch/pages" || fail "the fixture did not say that it is ready"
timeout "$seconds_max" node "$pages" "${line#ready }" "$folder/shots"
