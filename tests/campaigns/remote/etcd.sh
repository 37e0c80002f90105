#!/usr/bin/env bash
# Three members of etcd on loopback: tests/campaigns/remote/etcd.sh up|down|wipe, and against one of them (1, 2 or 3)
# kill N|start N|pause N|resume N. `up` prints where they are, as `etcd://HOST:PORT,HOST:PORT,HOST:PORT`, and nothing
# else; what is up already stays as it is. `kill` is SIGKILL and `pause` SIGSTOP. `down` keeps the data, `wipe` does
# not, and `wipe cache` takes the program too. The program is that of the package `etcd-server` of the machine's own
# Debian, unpacked and not installed. Ports are free ones; with REMOTE_PORT, six from there on. Further variables are in
# service.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh
# shellcheck source=tests/campaigns/remote/service.sh
. tests/campaigns/remote/service.sh

usage="etcd.sh up|down|wipe [cache]|kill N|start N|pause N|resume N"
# Longer than etcd's own, for machines that do much else: milliseconds between heartbeats, and without one until a vote.
heartbeat=200
election=2000

# The package of the machine's own suite, unpacked in `$system`.
fetch() {
    command -v apt-get >/dev/null || skip "there is no apt to fetch etcd with"
    rm -rf "${system:?}/package" "${system:?}/usr"
    mkdir "$system/package"
    [[ -n "$(apt-cache madison etcd-server)" ]] || apt-get -qq update >/dev/null 2>&1 ||
        skip "apt cannot update its lists, and knows no etcd-server"
    (cd "$system/package" && apt-get -qq download etcd-server >/dev/null 2>"$system/said") ||
        skip "etcd-server cannot be fetched: $(tail -n 1 "$system/said")"
    dpkg-deb --fsys-tarfile "$system"/package/*.deb | tar -x -C "$system" ./usr/bin/etcd
    rm -rf "$system/package" "$system/said"
}

# ports: `$clients` and `$peers`, for each member from 1 on.
ports() {
    local member from="${REMOTE_PORT:-}"
    clients=(none) peers=(none)
    for member in 1 2 3; do
        clients[member]="$(port_of "client$member" ${from:+$((from + 2 * member - 2))})"
        peers[member]="$(port_of "peer$member" ${from:+$((from + 2 * member - 1))})"
    done
}

# start MEMBER: with the data that it has. Members take part again when two of them are there.
start() {
    local name="member$1" client="http://127.0.0.1:${clients[$1]}" peer="http://127.0.0.1:${peers[$1]}" all=() member
    ! is_there "$name" || return 0
    must_be_free "$name" "${clients[$1]}" "${peers[$1]}"
    for member in 1 2 3; do all+=("member$member=http://127.0.0.1:${peers[member]}"); done
    # On other machines than amd64 it wants to be told that this is meant.
    spawn "$name" ETCD_UNSUPPORTED_ARCH="$(dpkg --print-architecture)" "$system/usr/bin/etcd" --name "$name" \
        --data-dir "$data/$name" --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "$(IFS=, && echo "${all[*]}")" --initial-cluster-token recalld \
        --heartbeat-interval "$heartbeat" --election-timeout "$election"
}

# Whether a member knows a leader.
is_healthy() {
    curl -fsS --max-time 3 "http://127.0.0.1:${clients[$1]}/health" | grep -q '"health":"true"'
}

member="${2:-}"
case "${1:-}" in
    kill | start | pause | resume) [[ "$member" == [123] ]] || fail "$usage: N is '$member', and must be 1, 2 or 3" ;;
    wipe) [[ -z "$member" || "$member" == cache ]] || fail "$usage" ;;
    up | down) [[ -z "$member" ]] || fail "$usage" ;;
    *) fail "$usage" ;;
esac
need curl curl
system="$cache/etcd"
if [[ "$1" == up ]]; then fill_once "$system" fetch; fi
begin_service etcd
case "$1" in
    up)
        ports
        for member in 1 2 3; do start "$member"; done
        for member in 1 2 3; do ready "member$member" is_healthy "$member"; done
        echo "etcd://127.0.0.1:${clients[1]},127.0.0.1:${clients[2]},127.0.0.1:${clients[3]}"
        ;;
    start)
        [[ -e "$data/member$member" ]] || fail "there is no member $member in $data: up first"
        ports
        start "$member"
        ready "member$member" is_open "${clients[member]}"
        ;;
    kill) end "member$member" KILL ;;
    pause) signal "member$member" STOP ;;
    resume) signal "member$member" CONT ;;
    down | wipe)
        for one in 1 2 3; do end "member$one"; done
        [[ "$1" == down ]] || wipe etcd "$member"
        ;;
esac
