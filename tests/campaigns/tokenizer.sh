#!/usr/bin/env bash
# Our tokenizer beside the crate tokenizers: tests/campaigns/tokenizer.sh [STRINGS [SEED]], or `short [SEED]`, or
# `speed`. Every Unicode scalar value in its contexts, STRINGS random strings (200000), the documents of this
# repository and texts of a mebibyte, under 49 settings (`short`: 5000 strings, seven settings, what is assigned of
# Unicode). A difference is printed at its smallest, escaped, under its setting; it becomes a test of
# encoder/src/tokenizer.rs. The reference is a workspace of its own, tests/oracle.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh

target="${CARGO_TARGET_DIR:-$PWD/target}/oracle"
published="$target/tokenizer.json"
mkdir -p "$target"
build_with_tests
"$(target_folder)/debug/examples/tokenizer_json" >"$published"
cargo build -q --release --locked --manifest-path tests/oracle/Cargo.toml --target-dir "$target"

oracle=("$target/release/oracle" "$published")
case "${1:-}" in
    short) exec "${oracle[@]}" --short --strings 5000 ${2:+--seed "$2"} ;;
    speed) exec "${oracle[@]}" --speed ;;
    *) exec "${oracle[@]}" ${1:+--strings "$1"} ${2:+--seed "$2"} ;;
esac
