#!/usr/bin/env bash
# The tests of the engine, the kernels and the encoder under AddressSanitizer and ThreadSanitizer:
# tests/campaigns/sanitizers.sh [address|thread]... Both where none is named. Needs a nightly toolchain;
# ThreadSanitizer also its component rust-src, since the standard library must be built with it (an uninstrumented
# one gives false alarms). Beside the engine's own tests, those of stores that are written, read, sealed and
# compacted at the same time, and under ThreadSanitizer those of the way of many batches into a store. The kernels' run
# at every level of this CPU, on one thread and on several; what is written in assembler (the matrix units) no
# sanitizer sees into.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

cargo +nightly --version >/dev/null 2>&1 || skip "there is no nightly toolchain (rustup toolchain install nightly)"
host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
target="${CARGO_TARGET_DIR:-$PWD/target}"
(($#)) || set -- address thread

# under NAME FLAGS...: the tests with that sanitizer, in a target folder of its own.
under() {
    local name="$1" tests=(cargo +nightly test --target "$host" --target-dir "$target/$1-sanitizer" "${@:2}")
    export RUSTFLAGS="-Zsanitizer=$name" RUSTDOCFLAGS="-Zsanitizer=$name"
    "${tests[@]}" -p kernels -p encoder -p engine --lib
    "${tests[@]}" -p engine --test it -- store:: model:: reader:: failing_disk:: regressions::
    # The golden stores are exported by the program, which would be built without the sanitizer's flags.
    "${tests[@]}" -p recalld-cli --test it -- reader:: --skip golden_stores_read_as_they_are_exported
    # The threads between who makes batches and the store.
    [[ "$name" != thread ]] || "${tests[@]}" -p recalld-embedding --lib inflow
    unset RUSTFLAGS RUSTDOCFLAGS
}

for name in "$@"; do
    case "$name" in
        # Leaks are not asked for: threads that outlive a test's end look like some.
        address) ASAN_OPTIONS=detect_leaks=0 under address ;;
        thread)
            library="$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library"
            if [[ ! -e "$library/Cargo.lock" ]]; then
                rustup component add rust-src --toolchain nightly >/dev/null 2>&1 ||
                    skip "ThreadSanitizer: rust-src of the nightly toolchain is not there and cannot be installed"
            fi
            TSAN_OPTIONS=halt_on_error=1 under thread -Zbuild-std
            ;;
        *) fail "sanitizers.sh [address|thread]..." ;;
    esac
done
