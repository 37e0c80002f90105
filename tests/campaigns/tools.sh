# Sourced by the campaigns: what they all need.

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Says loudly that a campaign is not run, and why; no failure: 77, as test runners know it.
skip() {
    printf '!!! SKIPPED: %s\n' "$*" >&2
    exit 77
}

need_root() {
    [[ "$(id -u)" == 0 ]] || skip "$(basename "$0") needs root"
}

# need COMMAND PACKAGE...: installs the packages where COMMAND is missing.
need() {
    command -v "$1" >/dev/null && return
    local root=()
    if [[ "$(id -u)" != 0 ]]; then root=(sudo); fi
    { "${root[@]}" apt-get update -qq && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq "${@:2}"; } \
        >/dev/null 2>&1 || skip "there is no $1 and ${*:2} cannot be installed"
}

# The victim and judge: `$load` is its path.
build_load() {
    cargo build -q -p tests --bin load
    load="${CARGO_TARGET_DIR:-$PWD/target}/debug/load"
}
