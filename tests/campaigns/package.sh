#!/usr/bin/env bash
# The Debian package of a built program: made twice to the same bytes, looked at by lintian and systemd-analyze, installed
# in a fresh Debian, where the service's user remembers and recalls, upgraded with its store, put in the place of an older
# release with its data, removed and purged.
#   tests/campaigns/package.sh [PROGRAM [STATIC]]
# PROGRAM is target/dist/recalld where it is not given, and built if need be; the size of one that is not optimised is not
# judged. STATIC is one without libraries (how to build it is in docs/operations.md), which then remembers and recalls in
# a folder that has nothing else.
# With a fresh Debian only as root, where debootstrap can be installed; else that part is said not to be run.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
program="${1:-}"
static="${2:-}"
if [[ -z "$program" ]]; then
    cargo build -q --profile dist -p recalld-cli
    program="$(target_folder)/dist/recalld"
fi
need dpkg-deb dpkg
need objcopy binutils
need lintian lintian
need systemd-analyze systemd
checked() { echo "checked: $*"; }

# The program as it is installed, without symbols.
PROGRAM_BYTES_MAX=$((32 << 20))
PACKAGE_BYTES_MAX=$((10 << 20))

scratch="$(mktemp -d)"
root="$scratch/debian"
server_pid=""
cleanup() {
    if [[ -n "$server_pid" ]]; then end_programs "$server_pid"; fi
    if mountpoint -q "$root/proc" 2>/dev/null; then umount "$root/proc"; fi
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

packaging/deb.sh "$program" "$scratch/one"
packaging/deb.sh "$program" "$scratch/two" >/dev/null
package="$(echo "$scratch"/one/*.deb)"
cmp "$package" "$scratch"/two/*.deb || fail "the same program gives two packages"
cmp "$scratch"/one/*.debug "$scratch"/two/*.debug || fail "the same program gives two files of line tables"
checked "made twice, the package and its line tables are the same to the byte"
installed="$(dpkg-deb -c "$package" | awk '$6 == "./usr/bin/recalld" {print $3}')"
if [[ "$program" != */debug/* ]]; then
    (($(stat -c %s "$package") < PACKAGE_BYTES_MAX)) || fail "the package has more than 10 MiB"
    ((installed < PROGRAM_BYTES_MAX)) || fail "the program has $installed bytes"
fi
checked "the package has $(stat -c %s "$package") bytes, the program $installed"
lintian --allow-root --fail-on error "$package" || fail "lintian found errors"
checked "lintian finds no error"

score="$(systemd-analyze security --offline=true --no-pager packaging/recalld.service |
    sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p')"
python3 -c 'import sys; sys.exit(not 0.0 < float(sys.argv[1]) < 2.0)' "$score" || fail "systemd-analyze security says $score"
checked "systemd-analyze security says $score, below 2.0"

need_root
need debootstrap debootstrap
suite="$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")"
debootstrap --variant=minbase --include=adduser,procps,systemd "$suite" "$root" >"$scratch/debootstrap" 2>&1 ||
    skip "no fresh Debian: $(tail -n 1 "$scratch/debootstrap")"
mount -t proc proc "$root/proc"
cp "$package" "$root/tmp/"
chroot "$root" dpkg -i "/tmp/$(basename "$package")" >"$scratch/dpkg" 2>&1 || fail "dpkg: $(cat "$scratch/dpkg")"
chroot "$root" getent passwd recalld >/dev/null || fail "there is no user recalld"
systemd-analyze verify --root="$root" --man=no /usr/lib/systemd/system/recalld.service || fail "the unit is wrong"
checked "it installs in a fresh Debian, with its user and a unit that systemd understands"

# The folders that the service manager makes for the unit; the model is the host's.
install -d -m 700 -o "$(chroot "$root" id -u recalld)" -g "$(chroot "$root" id -g recalld)" \
    "$root/var/lib/recalld" "$root/var/cache/recalld"
"$program" remember "The model is there." --data "$scratch/host" >"$scratch/model" 2>&1 ||
    fail "the host has no model: $(cat "$scratch/model")"
models="${RECALLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/recalld}/models"
cp -r "$models" "$root/var/cache/recalld/models"
chroot "$root" chown -R recalld:recalld /var/cache/recalld

# What runs a command as the service's user, in its environment; each of these becomes the next, so that signals arrive.
inside=(chroot "$root" setpriv --reuid=recalld --regid=recalld --clear-groups
    env -i PATH=/usr/bin HOME=/var/lib/recalld RECALLD_DATA=/var/lib/recalld RECALLD_CACHE=/var/cache/recalld
    RECALLD_MODEL_HUB=off)
# serve ARGUMENT...: what the unit starts, on a free port.
serve() {
    rm -f "$scratch/ready"
    mkfifo "$scratch/ready"
    "${inside[@]}" recalld serve --local 127.0.0.1:0 "$@" >"$scratch/ready" 2>"$scratch/said" &
    server_pid=$!
    exec 7<"$scratch/ready"
    read -r -t 120 line <&7 || fail "the service did not say that it is ready: $(cat "$scratch/said")"
    [[ "$line" == "ready local=http://"* ]] || fail "not a ready line: $line"
}
stop() {
    local status=0
    kill -TERM "$server_pid"
    wait "$server_pid" || status=$?
    server_pid=""
    exec 7<&-
    ((status == 0)) || fail "SIGTERM ended the service with $status"
}
settings=(--config /etc/recalld/recalld.toml)
serve "${settings[@]}"
"${inside[@]}" recalld remember "The beacon of Gull Rock burns paraffin." --kind decision >/dev/null
"${inside[@]}" recalld recall "what does the beacon burn?" | grep -q paraffin || fail "it does not recall what it was told"
stop
checked "as its user it serves, remembers and recalls"

DEB_VERSION="$("$program" --version | cut -d' ' -f2)+next" packaging/deb.sh "$program" "$scratch/next" >/dev/null
cp "$scratch"/next/*.deb "$root/tmp/"
echo '# changed by hand' >>"$root/etc/recalld/recalld.toml"
chroot "$root" dpkg -i "/tmp/$(basename "$scratch"/next/*.deb)" >"$scratch/dpkg" 2>&1 || fail "dpkg: $(cat "$scratch/dpkg")"
grep -q 'changed by hand' "$root/etc/recalld/recalld.toml" || fail "the upgrade took the operator's settings"
serve "${settings[@]}"
"${inside[@]}" recalld recall "what does the beacon burn?" | grep -q paraffin || fail "the upgrade lost the store"
"${inside[@]}" recalld verify >/dev/null || fail "the store does not verify after the upgrade"
stop
checked "an upgrade keeps the store and the settings"

# What an operator of an older release has in its place: a store of format version 1, with its keys and its ledger.
manifest_versions() { sed -n 's/.*"write_version":\([0-9]*\).*/\1/p' "$root"/var/lib/recalld/tenants/local/store/manifest-* | sort -u; }
mv "$root/var/lib/recalld" "$scratch/set-aside"
# Killed as it was, it has a log to replay as well.
cp -r tests/golden/first-release "$root/var/lib/recalld"
chmod -R u=rwX,go= "$root/var/lib/recalld"
chroot "$root" chown -R recalld:recalld /var/lib/recalld
[[ "$(manifest_versions)" == 1 ]] || fail "tests/golden/first-release is not of format version 1"
"${inside[@]}" recalld verify >/dev/null || fail "a store of an older release does not verify"
serve "${settings[@]}"
"${inside[@]}" recalld recall "what feeds the lamp of the lighthouse?" | grep -q colza || fail "what an older release stored is not recalled"
"${inside[@]}" recalld recall "when does the boat come?" | grep -q "on the tenth" || fail "what it stored last is not recalled"
[[ "$("${inside[@]}" recalld credentials show --json)" == *recalld_pat_HZRmG3B0* ]] || fail "its clients have other credentials now"
"${inside[@]}" recalld remember "The beacon of Gull Rock burns paraffin." --kind decision >/dev/null
"${inside[@]}" recalld recall "what does the beacon burn?" | grep -q paraffin || fail "a store of an older release takes nothing new"
stop
[[ "$(manifest_versions)" == 2 ]] || fail "the store was not brought to the new form"
"${inside[@]}" recalld verify >/dev/null || fail "a store of an older release does not verify once it is brought to the new form"
"${inside[@]}" recalld ledger verify --all >/dev/null || fail "the ledger of an older release does not go on"
rm -r "$root/var/lib/recalld"
mv "$scratch/set-aside" "$root/var/lib/recalld"
checked "it takes up the data of an older release"

chroot "$root" dpkg --purge recalld >"$scratch/dpkg" 2>&1 || fail "dpkg: $(cat "$scratch/dpkg")"
[[ -d "$root/var/lib/recalld/tenants" && ! -e "$root/usr/bin/recalld" && ! -e "$root/etc/recalld" ]] ||
    fail "a purge leaves something else than the data"
checked "a purge leaves what is remembered, and nothing else"
if [[ -n "$static" ]]; then
    if readelf -lW "$static" | grep -q INTERP; then fail "$static asks for libraries"; fi
    alone="$scratch/alone"
    mkdir -p "$alone/cache"
    cp -r "$models" "$alone/cache/models"
    strip --strip-all -o "$alone/recalld" "$static"
    static_bytes="$(stat -c %s "$alone/recalld")"
    ((static_bytes < PROGRAM_BYTES_MAX)) || fail "the static program has $static_bytes bytes"
    inside=("$(command -v env)" -i PATH=/ HOME=/ RECALLD_DATA=/data RECALLD_CACHE=/cache RECALLD_MODEL_HUB=off
        "$(command -v chroot)" "$alone")
    [[ "$("${inside[@]}" recalld --version)" == "$("$program" --version)" ]] || fail "$static is another version"
    serve
    "${inside[@]}" recalld remember "The beacon of Gull Rock burns paraffin." --kind decision >/dev/null
    "${inside[@]}" recalld recall "what does the beacon burn?" | grep -q paraffin || fail "the static program does not recall"
    stop
    "${inside[@]}" recalld verify >/dev/null || fail "the static program's store does not verify"
    checked "a static program of $static_bytes bytes serves, remembers and recalls where there is nothing else"
fi
echo "package: all checks passed"
