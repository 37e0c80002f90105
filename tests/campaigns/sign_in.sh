#!/usr/bin/env bash
# Signing in to the real server in Chromium: tests/campaigns/sign_in.sh [SHOTS]. Allow, refuse, wrong key, spent key, the back
# button, a form sent twice, in a window of the client's own, by keyboard alone; on a phone, in light and in dark, with text
# twice as large. Screenshots are in SHOTS, or target/browser/sign_in. What browser.sh installs is installed here, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# More than this is a page that does not answer.
seconds_max=300
target="$(target_folder)"
install_browser "$target/browser"
shots="$(realpath -m "${1:-$target/browser/sign_in}")"
build_program --example sign_in_ground
script="$PWD/tests/browser/sign_in.mjs"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
"$target/debug/examples/sign_in_ground" "$scratch/data" >"$scratch/ground.json"
start_server "$target/debug/recalld" --hosted 127.0.0.1:0
hosted="${line#* hosted=}"
hosted="${hosted%% *}"
cd "$target/browser"
timeout "$seconds_max" node "$script" "$hosted" "$scratch/ground.json" "$shots"
