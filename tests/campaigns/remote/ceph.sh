#!/usr/bin/env bash
# A real Ceph of one node (monitor, manager, storage daemon, gateway) that serves S3 on loopback:
# tests/campaigns/remote/ceph.sh up|down|wipe, and against its gateway pause|resume|stop-gateway [KILL]|start-gateway.
# `up` prints what to export and nothing else; what is up already stays as it is. `down` keeps the data, `wipe` does
# not, and `wipe cache` takes the unpacked packages too. `pause` is SIGSTOP; `stop-gateway KILL` is a crash, and faster:
# a gateway that is told to end may take twenty seconds. The packages are those of Debian's newer suites, unpacked into
# a folder of their own; each daemon runs with that as its root, in a mount namespace of its own, and nothing of the
# machine changes. Needs root, and Debian's apt the first time.
#
# REMOTE_PORT is the gateway's port and REMOTE_BYTES the size of the disk, a sparse file (4294967296). REMOTE_SUITE is
# the suite (`sid`). Further variables are in service.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh
# shellcheck source=tests/campaigns/private_apt.sh
. tests/campaigns/private_apt.sh
# shellcheck source=tests/campaigns/remote/service.sh
. tests/campaigns/remote/service.sh

usage="ceph.sh up|down|wipe [cache]|pause|resume|stop-gateway [KILL]|start-gateway"
suite="${REMOTE_SUITE:-sid}"
disk_bytes="${REMOTE_BYTES:-4294967296}"
disk_bytes_min=$((1 << 30))
key="${REMOTE_KEY:-recalld}"
secret="${REMOTE_SECRET:-recalld-secret}"
# Least memory that a storage daemon takes as its aim.
memory_target=939524096

# The packages, with all they need, unpacked below `$system`. They are not set up: their scripts do not run.
fetch() {
    local package
    rm -rf "$system" "$cache/ceph/apt"
    set_up_private_apt "$cache/ceph" "$suite" "Ceph"
    echo "fetching Ceph of $suite, once" >&2
    private_apt apt-get install -y -qq --download-only --no-install-recommends \
        ceph-mon ceph-mgr ceph-osd radosgw ceph-common base-files coreutils >/dev/null 2>"$cache/ceph/said" ||
        skip "the packages of Ceph cannot be fetched: $(tail -n 1 "$cache/ceph/said")"
    mkdir -p "$system"/usr/{bin,sbin,lib,lib64} "$system"/{proc,dev,sys,tmp,data,etc}
    for package in bin sbin lib lib64; do ln -s "usr/$package" "$system/$package"; done
    for package in "$cache"/ceph/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system" --keep-directory-symlink
    done
    echo "root:x:0:0:root:/:/bin/sh" >"$system/etc/passwd"
    echo "root:x:0:" >"$system/etc/group"
    echo "127.0.0.1 localhost" >"$system/etc/hosts"
    rm -rf "$cache/ceph/apt" "$cache/ceph/said"
}

# What stands before a command of the unpacked system, where our data is /data: `"${inside[@]}" "$system" "$data"`. What
# it mounts nobody else sees, and it goes away with the command.
# shellcheck disable=SC2016  # It is a script of its own.
inside=(unshare --mount --propagation private bash -c '
    set -e
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --bind "$2" "$1/data"
    exec chroot "$1" "${@:3}"' inside)

# ceph_tool NAME ARGUMENT...: one of its tools; what it says goes to the log.
ceph_tool() {
    timeout "$ready_seconds_max" "${inside[@]}" "$system" "$data" "$1" -c /data/ceph.conf "${@:2}" \
        </dev/null 2>>"$data/log/tools" 9>&- || fail "$1 ${*:2} failed: $(tail -n 1 "$data/log/tools")"
}

# ceph_daemon NAME PROGRAM ARGUMENT...: begins it, where it does not run yet.
ceph_daemon() {
    is_there "$1" || spawn "$1" "${inside[@]}" "$system" "$data" "$2" -c /data/ceph.conf -f "${@:3}"
}

configure() {
    mkdir -p "$data"/{mon,mgr,osd,rgw,crash,sockets}
    cat >"$data/ceph.conf" <<CONF
[global]
fsid = $1
mon_host = [v2:127.0.0.1:$monitor_port]
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
keyring = /data/keyring
mon_data = /data/mon
mgr_data = /data/mgr
osd_data = /data/osd
rgw_data = /data/rgw
crash_dir = /data/crash
run_dir = /data/sockets
admin_socket = /data/sockets/\$name.\$pid.asok
log_file = /data/log/\$name.log
# One disk has one copy of everything.
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data_avail_crit = 1
mon_data_avail_warn = 2
auth_allow_insecure_global_id_reclaim = false
# What a killed gateway watched holds the next one up for so many seconds.
osd_client_watch_timeout = 3
bluestore_block_size = $disk_bytes
osd_memory_target = $memory_target
[client.admin]
rgw_frontends = beast endpoint=127.0.0.1:$gateway_port
CONF
}

# A new cluster: what its daemons must find before they begin for the first time.
create() {
    local fsid disk
    fsid="$(</proc/sys/kernel/random/uuid)"
    disk="$(</proc/sys/kernel/random/uuid)"
    rm -rf "$data"/{mon,mgr,osd,rgw,crash,sockets,keyring,map}
    configure "$fsid"
    ceph_tool ceph-authtool --create-keyring /data/keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null
    ceph_tool ceph-authtool /data/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' \
        --cap mgr 'allow *'
    ceph_tool ceph-authtool /data/keyring --gen-key -n mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *'
    ceph_tool ceph-authtool /data/keyring --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' \
        --cap mgr 'allow profile osd'
    ceph_tool monmaptool --create --addv a "[v2:127.0.0.1:$monitor_port]" --fsid "$fsid" /data/map >/dev/null
    ceph_tool ceph-mon -i a --mkfs --monmap /data/map --keyring /data/keyring
    ceph_daemon monitor ceph-mon -i a
    ready monitor is_open "$monitor_port"
    ceph_tool ceph --connect-timeout "$ready_seconds_max" osd new "$disk" 0 >/dev/null
    ceph_tool ceph-osd -i 0 --mkfs --osd-uuid "$disk"
}

start_gateway() {
    is_there gateway || must_be_free gateway "$gateway_port"
    ceph_daemon gateway radosgw -n client.admin
    ready gateway is_open "$gateway_port"
}

up() {
    local exports
    monitor_port="$(port_of monitor)"
    gateway_port="$(port_of gateway "${REMOTE_PORT:-}")"
    is_there monitor || must_be_free monitor "$monitor_port"
    # Broken off in the middle of its creation, it is created anew.
    if [[ ! -e "$data/created" ]]; then
        down
        create
    fi
    ceph_daemon monitor ceph-mon -i a
    ceph_daemon manager ceph-mgr -i x
    ceph_daemon disk ceph-osd -i 0
    start_gateway
    exports="$(print_exports "$gateway_port" "$key" "$secret" us-east-1)"
    if [[ ! -e "$data/created" ]]; then
        ceph_tool radosgw-admin user create --uid=recalld --display-name=recalld --access-key="$key" \
            --secret-key="$secret" >/dev/null
        echo "$key $secret" >"$data/created"
    fi
    [[ "$(<"$data/created")" == "$key $secret" ]] ||
        fail "what is in $data was created with another key or secret: wipe first, or take another REMOTE_DATA"
    make_bucket "$exports"
    echo "$exports"
}

down() {
    local name
    # The gateway has no state, and takes twenty seconds to end where it has just begun.
    end gateway KILL
    for name in manager disk monitor; do end "$name"; done
}

case "${1:-} ${2:-}" in
    "up " | "down " | "wipe " | "wipe cache" | "pause " | "resume " | "start-gateway ") ;;
    "stop-gateway " | "stop-gateway KILL") ;;
    *) fail "$usage" ;;
esac
words_only REMOTE_KEY "$key"
words_only REMOTE_SECRET "$secret"
words_only REMOTE_BUCKET "$bucket"
words_only REMOTE_SUITE "$suite"
[[ "$disk_bytes" =~ ^[1-9][0-9]{0,14}$ ]] || disk_bytes=0
((disk_bytes >= disk_bytes_min)) ||
    fail "REMOTE_BYTES is '${REMOTE_BYTES:-}': it must be a number of bytes, at least $disk_bytes_min"
need_root
need unshare util-linux
need python3 python3
system="$cache/ceph/system"
if [[ "$1" == up ]]; then fill_once "$cache/ceph" fetch; fi
begin_service ceph
case "$1" in
    up) up ;;
    down) down ;;
    wipe)
        down
        wipe ceph "${2:-}"
        ;;
    pause) signal gateway STOP ;;
    resume) signal gateway CONT ;;
    stop-gateway) end gateway "${2:-TERM}" ;;
    start-gateway)
        [[ -e "$data/created" ]] || fail "there is no gateway in $data: up first"
        gateway_port="$(port_of gateway)"
        start_gateway
        ;;
esac
