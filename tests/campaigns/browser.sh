#!/usr/bin/env bash
# The page at /docs in Chromium: tests/campaigns/browser.sh. Each operation by its form, wrong bodies, the curl commands it shows,
# keyboard, contrast, width of a phone, light and dark; nothing on the console, no breach of its policy, no request to
# anybody else. Screenshots are in target/browser/shots. Installs Chromium and playwright-core where they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

playwright=1.65.0
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
if [[ "$(cd "$folder" && npm ls --parseable --long playwright-core 2>/dev/null)" != *"@$playwright"* ]]; then
    (cd "$folder" && timeout "$seconds_max" npm install --no-fund --no-audit --save-exact "playwright-core@$playwright" >/dev/null) ||
        skip "playwright-core cannot be installed"
fi
cargo build -q -p server
start_server "$target/debug/recalld" --ingest format-spec
page="$PWD/tests/browser/docs.mjs"
cd "$folder"
timeout "$seconds_max" node "$page" "$url" "$scratch/credentials.json" "$folder/shots"
