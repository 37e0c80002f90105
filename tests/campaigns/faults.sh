#!/usr/bin/env bash
# Makes system calls fail, each in turn: tests/campaigns/faults.sh [CALLS_MAX]. For every way of failing below
# and every N, a lone load runs under strace with call N failing, once or from then on, until it runs without
# coming as far as call N (or N is above CALLS_MAX). Where the load stopped it must have said why, in words; the
# store must then open with all that was acknowledged and nothing half. Needs strace.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

calls_max="${1:-1000000}"
# Enough for each kind of file, a merge, a compaction, a tombstone and an erasure.
batches=24
need strace strace
build_load

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

runs=0
stopped=0
# fault CALL HOW WHEN: one load with that fault; returns 1 when it ended without meeting it.
fault() {
    local call="$1" how="$2" when="$3" status=0
    rm -rf "$scratch/store"
    strace -f -o "$scratch/trace" -e trace="$call" -e inject="$call:$how:when=$when" \
        "$load" write "$scratch/store" fault 1 "$batches" >"$scratch/said" 2>"$scratch/errors" || status=$?
    grep -q INJECTED "$scratch/trace" || return 1
    runs=$((runs + 1))
    case "$status" in
        0) ;;
        127) return 0 ;; # the call was one of those that load the program
        1)
            stopped=$((stopped + 1))
            # Named are the act, the file, and what the system said.
            grep -Eq 'could not .+ .+: .+ \(os error [0-9]+\)' "$scratch/errors" ||
                fail "$call $how $when: stopped without saying why: $(cat "$scratch/errors")"
            ;;
        *) fail "$call $how $when: ended with $status: $(cat "$scratch/errors")" ;;
    esac
    if [[ -d "$scratch/store" ]]; then
        "$load" check "$scratch/store" "$scratch/said" >"$scratch/found" 2>&1 ||
            fail "$call $how $when: $(cat "$scratch/found")"
    fi
}

for way in fdatasync:error=EIO fsync:error=EIO pwrite64:error=ENOSPC pwrite64:error=EIO fallocate:error=ENOSPC \
    fallocate:error=EIO rename:error=EIO unlink:error=EIO statfs:error=EIO openat:error=EMFILE; do
    call="${way%%:*}"
    how="${way#*:}"
    for then in "" "+"; do
        began=$runs
        for ((n = 1; n <= calls_max; n++)); do
            fault "$call" "$how" "$n$then" || break
        done
        echo "$call $how${then:+ from then on}: $((runs - began)) runs"
    done
done
echo "$runs loads with a failing call, $stopped of them stopped and said why; all that was acknowledged is there"
