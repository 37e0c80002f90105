#!/usr/bin/env bash
# The clients of the crate `recalld-replication` against stores and a coordinator that are really there:
# tests/campaigns/remote/clients.sh [folder|ceph|etcd|garage]..., all of them without an argument. Each is brought up by
# the script beside this one, in data of its own, and ended afterwards. Against a folder, Ceph and etcd the suite of the
# tests passes, and so does the probe of a start; it refuses Garage alone, and takes Garage beside etcd. A gateway that
# is stopped is waited for within bounds, and one that is not there is told; so are a wrong secret, a key that is not
# known and a bucket that is not there; and one member of etcd may be killed. Variables are in service.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh

here=tests/campaigns/remote
scratch="$(mktemp -d)"
export REMOTE_DATA="$scratch/data"
up=()

finish() {
    local service
    for service in "${up[@]}"; do $here/"$service".sh wipe >/dev/null || true; done
    rm -rf "$scratch"
}
trap finish EXIT

bring_up() {
    $here/"$1".sh up >"$scratch/$1"
    up+=("$1")
}

# must CODE COMMAND...: ends with that code; what it says is shown, and is in `$scratch/said`.
must() {
    local wanted="$1" code=0
    shift
    "$@" >"$scratch/said" 2>&1 || code=$?
    sed 's/^/  /' "$scratch/said"
    [[ "$code" == "$wanted" ]] || fail "$* ended with $code, not $wanted"
}

must_say() {
    grep -qF -- "$1" "$scratch/said" || fail "what was wanted was: $1"
}

folder() {
    mkdir "$scratch/objects"
    must 0 "$clients" suite "file://$scratch/objects"
    must 0 "$clients" probe "file://$scratch/objects"
}

ceph() {
    local store
    bring_up ceph
    # shellcheck disable=SC1091
    . "$scratch/ceph"
    store="s3://$REMOTE_BUCKET/clients"
    must 0 "$clients" suite "$store"
    must 0 "$clients" probe "$store"
    AWS_SECRET_ACCESS_KEY=wrong must 3 "$clients" probe "$store"
    must_say "the secret from AWS_ACCESS_KEY_ID is not that of its key"
    AWS_ACCESS_KEY_ID=nobody must 3 "$clients" probe "$store"
    must_say "the key from AWS_ACCESS_KEY_ID is not known there"
    must 3 "$clients" probe s3://no-such-bucket/clients
    must_say "there is no bucket no-such-bucket"
    $here/ceph.sh pause
    must 0 "$clients" hang "$store"
    $here/ceph.sh resume
    $here/ceph.sh stop-gateway
    must 3 "$clients" probe "$store"
    must_say "127.0.0.1:"
    $here/ceph.sh start-gateway
    must 0 "$clients" probe "$store"
}

etcd() {
    local coordinator
    bring_up etcd
    coordinator="$(<"$scratch/etcd")/clients"
    mkdir "$scratch/beside"
    must 0 "$clients" suite "file://$scratch/beside" "$coordinator"
    must 0 "$clients" probe "file://$scratch/beside" "$coordinator"
    $here/etcd.sh kill 1
    must 0 "$clients" suite "file://$scratch/beside" "$coordinator"
    must 0 "$clients" probe "file://$scratch/beside" "$coordinator"
    $here/etcd.sh start 1
}

garage() {
    local store
    bring_up garage
    # shellcheck disable=SC1091
    . "$scratch/garage"
    store="s3://$REMOTE_BUCKET/clients"
    must 3 "$clients" probe "$store"
    must_say "creators win the same new object"
    must_say "name a coordinator"
    bring_up etcd
    must 0 "$clients" probe "$store" "$(<"$scratch/etcd")/beside"
    must 0 "$clients" suite "$store" "$(<"$scratch/etcd")/beside"
}

which=("$@")
if ((${#which[@]} == 0)); then which=(folder ceph etcd garage); fi
for one in "${which[@]}"; do
    case "$one" in
    folder | ceph | etcd | garage) ;;
    *) fail "usage: clients.sh [folder|ceph|etcd|garage]..." ;;
    esac
done
build_with_tests --example clients
clients="$(target_folder)/debug/examples/clients"
for one in "${which[@]}"; do
    echo "$one"
    "$one"
done
echo "all as it must be"
