#!/usr/bin/env bash
# Runs fuzz targets: tests/campaigns/fuzz.sh [SECONDS] [TARGET...]. All of them where none is named, 60 s each.
# Runs of at most $short_seconds each share one binary, lightly optimised: building and linking one for each target takes
# many times longer than such runs; as many go on at once as there are cores. Longer ones have their own, whose table of
# counters is smaller and code faster.
# Installs cargo-fuzz, and a nightly toolchain, where they are missing. An input that crashes is named at the
# end and kept in fuzz/artifacts/; it becomes a test of engine/tests/it/regressions.rs.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

# Building cargo-fuzz, unoptimised since it only calls others, takes half a minute on an idle machine and some on a
# busy one; more than this is a registry that does not answer.
install_seconds_max=1200
short_seconds=10
seconds="${1:-60}"
shift || true

command -v c++ >/dev/null || skip "fuzz targets: there is no C++ compiler for libFuzzer"
cargo +nightly --version >/dev/null 2>&1 ||
    timeout "$install_seconds_max" rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
    skip "fuzz targets: there is no nightly toolchain (rustup toolchain install nightly)"
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    timeout "$install_seconds_max" cargo install cargo-fuzz --debug --locked --quiet ||
    skip "fuzz targets: cargo-fuzz is not installed (cargo install cargo-fuzz)"

python3 fuzz/seeds.py
cd fuzz
if (($#)); then targets=("$@"); else mapfile -t targets < <(cargo +nightly fuzz list | grep -vx all); fi
if ((seconds <= short_seconds)); then
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
    binaries=(all)
else
    binaries=("${targets[@]}")
fi
began=$SECONDS
for binary in "${binaries[@]}"; do cargo +nightly fuzz build "$binary"; done
echo "built: ${binaries[*]}, $((SECONDS - began)) s"

# run TARGET: what it said goes to the end of its own, so that several can run at once.
run() {
    local target="$1" binary="$1" said status=0
    if ((seconds <= short_seconds)); then binary=all; fi
    mkdir -p "artifacts/$target"
    said="$(FUZZ_TARGET="$target" cargo +nightly fuzz run "$binary" "corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="artifacts/$target/" 2>&1)" || status=$?
    printf -- '--- %s\n%s\n' "$target" "$said"
    return "$status"
}
export -f run
export seconds short_seconds
jobs=1
if ((seconds <= short_seconds)); then jobs="$(nproc)"; fi
# 255 ends all others too.
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I '{}' bash -c 'run {} || exit 255'
