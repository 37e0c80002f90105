#!/usr/bin/env bash
# One writer, one standby and three replicas of a workspace on object storage, as processes on loopback: loaded by clients
# that write and read at all of them, and that make, revoke and use keys which all share; and hurt meanwhile. Nodes are
# killed, wiped, stopped past their lease and cut off; the store and the coordinator are stopped, slow, and fail in the
# middle of requests. Then a checker judges all that was asked and answered, and the chains as a stranger saw them: nothing
# that was acknowledged is lost, no answer is older than it says, no pointer moves back, no epoch has two writers, no key
# opens long after it was revoked, no quota is overrun (`remote/checker.py` has the rules).
#   tests/campaigns/remote.sh [folder|ceph|garage-etcd [SECONDS [PROGRAM]]]
# RECALLD_TEST_SEED=N draws the same faults again; the moments differ. The short form: tests/campaigns/remote.sh folder 45
#
# Cutting off takes network namespaces, and those take root; without them a proxy stands in, and the run says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh

here=tests/campaigns/remote
mode="${1:-folder}"
seconds="${2:-300}"
program="${3:-}"
up=()

finish() {
    local service
    for service in "${up[@]}"; do $here/"$service".sh wipe >/dev/null || true; done
    rm -rf "$scratch"
}

bring_up() {
    up+=("$1")
    $here/"$1".sh up >"$scratch/$1"
}

case "$mode" in
folder | ceph | garage-etcd) ;;
*) fail "usage: remote.sh [folder|ceph|garage-etcd [SECONDS [PROGRAM]]]" ;;
esac
need python3 python3
python3 $here/checker_test.py
if [[ -z "$program" ]]; then
    build_program
    program="$(target_folder)/debug/recalld"
fi
scratch="$(mktemp -d)"
export REMOTE_DATA="$scratch/data"
trap finish EXIT
# A node in a namespace of its own reaches nothing that it could fetch the model from.
"$program" model fetch --data "$scratch/model" >"$scratch/fetched" 2>&1 ||
    fail "there is no model for the nodes: $(tail -n 1 "$scratch/fetched")"
case "$mode" in
ceph)
    bring_up ceph
    # shellcheck disable=SC1091
    source "$scratch/ceph"
    ;;
garage-etcd)
    bring_up garage
    bring_up etcd
    # shellcheck disable=SC1091
    source "$scratch/garage"
    REMOTE_COORDINATOR="$(<"$scratch/etcd")"
    export REMOTE_COORDINATOR
    ;;
esac
python3 $here/campaign.py "$mode" "$seconds" "$program" ${RECALLD_TEST_SEED:+"$RECALLD_TEST_SEED"}
