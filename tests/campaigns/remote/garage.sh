#!/usr/bin/env bash
# Garage, of one node, that serves S3 on loopback: tests/campaigns/remote/garage.sh up|down|wipe|build|pause|resume.
# `up` prints what to export and nothing else; what is up already stays as it is. `down` keeps the data, `wipe` does
# not, and `wipe cache` takes the program too. `build` only builds it: by cargo from its registry, once, lightly
# optimised, with what one node needs. That takes long, and goes on where it was broken off. Needs cargo, a C compiler
# and make.
#
# REMOTE_PORT is the port, REMOTE_VERSION the version (2.5.0), REMOTE_JOBS how many compilers build it at once (as many
# as cargo likes). Further variables are in service.sh; a key has 8 characters at least and a secret 16.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh
# shellcheck source=tests/campaigns/remote/service.sh
. tests/campaigns/remote/service.sh

usage="garage.sh up|down|wipe [cache]|build|pause|resume"
version="${REMOTE_VERSION:-2.5.0}"
key="${REMOTE_KEY:-recalld-key}"
secret="${REMOTE_SECRET:-recalld-secret-key}"
region=garage

# The program, at `$folder/bin/garage`.
build() {
    command -v cargo >/dev/null || skip "there is no cargo to build Garage with"
    need cc gcc libc6-dev
    need make make
    echo "building Garage $version, once; what cargo says is in $folder/said" >&2
    env -u RUSTFLAGS CARGO_TARGET_DIR="$folder/target" \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_STRIP=symbols \
        nice cargo install garage --version "$version" --locked --root "$folder" ${REMOTE_JOBS:+--jobs "$REMOTE_JOBS"} \
        --no-default-features --features bundled-libs,lmdb </dev/null >"$folder/said" 2>&1 8>&- ||
        skip "Garage cannot be built: $(tail -n 1 "$folder/said")"
    rm -rf "$folder/target"
}

configure() {
    [[ -e "$data/rpc_secret" ]] || od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$data/rpc_secret"
    chmod 600 "$data/rpc_secret"
    cat >"$data/garage.toml" <<TOML
metadata_dir = "$data/metadata"
data_dir = "$data/blocks"
db_engine = "lmdb"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:$rpc_port"
rpc_public_addr = "127.0.0.1:$rpc_port"
rpc_secret_file = "$data/rpc_secret"

[s3_api]
api_bind_addr = "127.0.0.1:$port"
s3_region = "$region"
TOML
}

up() {
    local exports
    rpc_port="$(port_of rpc)"
    port="$(port_of s3 "${REMOTE_PORT:-}")"
    exports="$(print_exports "$port" "$key" "$secret" "$region")"
    if ! is_there garage; then
        must_be_free garage "$rpc_port" "$port"
        configure
        # It makes the key and the bucket itself, unless they are there.
        spawn garage NO_COLOR=1 GARAGE_DEFAULT_ACCESS_KEY="$key" GARAGE_DEFAULT_SECRET_KEY="$secret" \
            GARAGE_DEFAULT_BUCKET="$bucket" \
            "$folder/bin/garage" -c "$data/garage.toml" server --single-node --default-bucket
    fi
    ready garage is_open "$port"
    make_bucket "$exports"
    echo "$exports"
}

case "${1:-} ${2:-}" in
    "up " | "down " | "wipe " | "wipe cache" | "build " | "pause " | "resume ") ;;
    *) fail "$usage" ;;
esac
words_only REMOTE_KEY "$key"
words_only REMOTE_SECRET "$secret"
words_only REMOTE_BUCKET "$bucket"
words_only REMOTE_VERSION "$version"
((${#key} >= 8 && ${#secret} >= 16)) || fail "Garage wants a key of 8 characters or more and a secret of 16 or more"
[[ "${REMOTE_JOBS:-1}" =~ ^[1-9][0-9]{0,2}$ ]] || fail "REMOTE_JOBS is '$REMOTE_JOBS': it must be a number, 1 to 999"
need python3 python3
folder="$cache/garage/$version"
if [[ "$1" == up || "$1" == build ]]; then fill_once "$folder" build; fi
begin_service garage
case "$1" in
    up) up ;;
    build) ;;
    pause) signal garage STOP ;;
    resume) signal garage CONT ;;
    down) end garage ;;
    wipe)
        end garage
        wipe garage "${2:-}"
        ;;
esac
