#!/usr/bin/env bash
# Runs fuzz targets: tests/campaigns/fuzz.sh [SECONDS] [TARGET...]. All of them where none is named, 60 s each.
# Installs cargo-fuzz, and a nightly toolchain, where they are missing. An input that crashes is named at the
# end and kept in fuzz/artifacts/; it becomes a test of tests/tests/regressions.rs.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# Building cargo-fuzz takes a minute on an idle machine and ten on a busy one; more than this is a registry that
# does not answer.
install_seconds_max=1200
seconds="${1:-60}"
shift || true

command -v c++ >/dev/null || skip "fuzz targets: there is no C++ compiler for libFuzzer"
cargo +nightly --version >/dev/null 2>&1 ||
    timeout "$install_seconds_max" rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
    skip "fuzz targets: there is no nightly toolchain (rustup toolchain install nightly)"
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    timeout "$install_seconds_max" cargo install cargo-fuzz --locked --quiet ||
    skip "fuzz targets: cargo-fuzz is not installed (cargo install cargo-fuzz)"

python3 fuzz/seeds.py
cd fuzz
cargo +nightly fuzz build
if (($#)); then targets=("$@"); else mapfile -t targets < <(cargo +nightly fuzz list); fi
for target in "${targets[@]}"; do
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=4096 -verbosity=0 \
        -print_final_stats=1
done
