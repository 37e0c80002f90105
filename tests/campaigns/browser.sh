#!/usr/bin/env bash
# The pages in Chromium: tests/campaigns/browser.sh. Of /docs each operation by its form, wrong bodies, the curl commands it shows;
# of signing in, with a fixture behind the pages, all ways to end it and to get it wrong. Both by keyboard, contrast, width
# of a phone, light and dark; nothing on the console, no breach of their policy, no request to anybody else. Screenshots are
# in target/browser/shots. Installs Chromium, playwright-core and axe-core where they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# More than this is a page that does not answer.
seconds_max=300
target="$(target_folder)"
folder="$target/browser"
install_browser "$folder"
build_program --example sign_in_pages
pages="$PWD/tests/browser/pages.mjs"
start_server "$target/debug/recalld" --ingest format-spec
page="$PWD/tests/browser/docs.mjs"
cd "$folder"
timeout "$seconds_max" node "$page" "$url" "$scratch/credentials.json" "$folder/shots"

mkfifo "$scratch/pages"
"$target/debug/examples/sign_in_pages" >"$scratch/pages" &
pages_pid=$!
trap 'end_scratch "$pages_pid" "$server_pid"' EXIT
read -r -t 60 line <"$scratch/pages" || fail "the fixture did not say that it is ready"
timeout "$seconds_max" node "$pages" "${line#ready }" "$folder/shots"
