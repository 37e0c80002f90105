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
    # One at a time: campaigns run side by side, and another may have installed it meanwhile.
    (
        flock 9
        command -v "$1" >/dev/null && exit
        "${root[@]}" apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq "${@:2}"
    ) 9>"${TMPDIR:-/tmp}/recalld-campaigns-$(id -u).lock" >/dev/null 2>&1 || skip "there is no $1 and ${*:2} cannot be installed"
}

# build_with_tests ARGUMENT...: what cargo's ARGUMENTs name, for everyday. An example of any package makes all
# dependencies have the features that they have in `cargo test --workspace`: what that has built is not built once more.
build_with_tests() {
    cargo build -q --workspace --example tokenizer_json "$@"
}

# build_program ARGUMENT...: the program, and what else is named.
build_program() {
    build_with_tests --bin recalld "$@"
}

# The victim and judge: `$load` is its path.
build_load() {
    build_with_tests --bin load
    load="${CARGO_TARGET_DIR:-$PWD/target}/debug/load"
}

# Where cargo builds, as a whole path.
target_folder() {
    mkdir -p "${CARGO_TARGET_DIR:-target}"
    (cd "${CARGO_TARGET_DIR:-target}" && pwd)
}

# python_environment FOLDER REQUIREMENTS...: FOLDER/venv has these packages, in these versions; of `$python`, or python3.
python_environment() {
    local folder="$1" file wanted=() marker="$1/installed"
    shift
    for file in "$@"; do wanted+=(-r "$file"); done
    if [[ -f "$marker" ]] && cmp -s "$marker" <(cat "$@"); then return; fi
    mkdir -p "$folder"
    "${python:-python3}" -m venv "$folder/venv" && timeout 600 "$folder/venv/bin/pip" install -q "${wanted[@]}" ||
        skip "the packages of $* cannot be installed"
    cat "$@" >"$marker"
}

# install_browser FOLDER: Chromium, at `$CHROMIUM`, and in FOLDER what drives it (playwright-core) and looks for barriers
# (axe-core), where they are missing.
install_browser() {
    local playwright=1.65.0 axe=4.14.1 installed
    need node nodejs npm
    need npm npm
    need chromium chromium
    CHROMIUM="$(command -v chromium)"
    export CHROMIUM
    mkdir -p "$1"
    [[ -f "$1/package.json" ]] || echo '{"private": true}' >"$1/package.json"
    installed="$(cd "$1" && npm ls --parseable --long playwright-core axe-core 2>/dev/null || true)"
    if [[ "$installed" == *"playwright-core@$playwright"* && "$installed" == *"axe-core@$axe"* ]]; then return; fi
    # Three minutes: a registry that takes longer does not answer.
    (cd "$1" && timeout 180 npm install --no-fund --no-audit --save-exact \
        "playwright-core@$playwright" "axe-core@$axe" >/dev/null) || skip "playwright-core and axe-core cannot be installed"
}

# end_programs PID...: ends these, which the script began, and waits until they are gone.
end_programs() {
    kill -9 "$@" 2>/dev/null || true
    wait "$@" 2>/dev/null || true
}

# end_scratch PID...: the same, and removes `$scratch` then: one that still writes there would keep it from going.
end_scratch() {
    if (($#)); then end_programs "$@"; fi
    rm -rf "$scratch"
}

# start_server PROGRAM ARGUMENT...: `recalld serve` on scratch data and a free port; `$url` is where, `$scratch` a folder
# that goes away with the script, as the server does, and `$scratch/credentials.json` what `credentials show` prints. Where
# `$scratch` is there before, it is taken, with the data in it. `$line` is what the server said.
start_server() {
    local program="$1"
    shift
    [[ -n "${scratch:-}" ]] || scratch="$(mktemp -d)"
    trap 'end_scratch "$server_pid"' EXIT
    mkfifo "$scratch/ready"
    "$program" serve --local 127.0.0.1:0 --data "$scratch/data" "$@" >"$scratch/ready" 2>"$scratch/said" &
    server_pid=$!
    exec 8<"$scratch/ready"
    # Ten minutes: the first start may have to fetch the model.
    read -r -t 600 line <&8 || fail "the server did not say that it is ready: $(cat "$scratch/said")"
    url="${line#ready local=}"
    url="${url%% *}"
    "$program" credentials show --json --data "$scratch/data" >"$scratch/credentials.json"
}
