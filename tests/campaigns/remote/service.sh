# Sourced by the scripts beside it, behind tools.sh: daemons on loopback that outlive the script that began them, and
# are found again and ended by what was noted of them. Variables of the environment that all of them heed:
#
#   REMOTE_CACHE   what is fetched or built, kept between runs; $XDG_CACHE_HOME/recalld-remote, ~/.cache/recalld-remote
#   REMOTE_DATA    data, logs, ports and processes of what runs, in a folder of its own for each service; several
#                  stand side by side in several folders; $REMOTE_CACHE/data
#   REMOTE_PORT    the port of the endpoint; one that is free, chosen once and kept with the data
#   REMOTE_KEY, REMOTE_SECRET, REMOTE_BUCKET
#                  credentials, and the bucket that is there when a store is up (`recalld`)

cache="${REMOTE_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither REMOTE_CACHE nor HOME is set}/.cache}/recalld-remote}"
mkdir -p "$cache"
cache="$(cd "$cache" && pwd)"
bucket="${REMOTE_BUCKET:-recalld}"
# A daemon that is not ready after this will not be.
ready_seconds_max=120
# One that was asked to end and has not after this is killed.
end_seconds_max=20

# begin_service NAME: `$data` is the folder of this service, in which nobody else is at work.
begin_service() {
    need flock util-linux
    data="${REMOTE_DATA:-$cache/data}/$1"
    mkdir -p "$data"/{run,log,port}
    data="$(cd "$data" && pwd)"
    exec 9>"$data.lock"
    flock -w "$ready_seconds_max" 9 || fail "another $(basename "$0") is at work in $data"
}

# fill_once FOLDER COMMAND...: FOLDER is made by COMMAND, which finds it empty, or as it was when it was last broken
# off; by one script at a time, and never again. Before `begin_service`: it may take long, and others need not wait for
# the data.
fill_once() {
    local folder="$1"
    need flock util-linux
    [[ ! -e "$folder/done" ]] || return 0
    mkdir -p "$folder"
    (
        exec 8>"$folder/lock"
        flock 8
        [[ ! -e "$folder/done" ]] || exit 0
        "${@:2}"
        touch "$folder/done"
    )
}

# begun PID: when that process began, in ticks; nothing where there is none, or only what is left of one. With the
# number it tells a process from a later one of the same number. One that ended while threads of it still do is there:
# they hold its ports.
begun() {
    local fields
    { read -r fields <"/proc/$1/stat"; } 2>/dev/null || return 0
    read -ra fields <<<"${fields##*) }"
    [[ "${fields[0]}" == [ZX] ]] && ((fields[17] <= 1)) || echo "${fields[19]}"
}

# process NAME: the number of a daemon of ours that is alive; fails where there is none.
process() {
    local pid since
    { read -r pid since <"$data/run/$1"; } 2>/dev/null && [[ -n "$since" && "$(begun "$pid")" == "$since" ]] &&
        echo "$pid"
}

# is_there NAME: whether a daemon of ours is alive; if it was paused, it goes on.
is_there() {
    local pid
    pid="$(process "$1")" && kill -s CONT "$pid"
}

# spawn NAME COMMAND...: begins a daemon with nothing of our environment; what it says is in log/NAME. The plain locale
# is the one that there is without packages of locales.
spawn() {
    local name="$1" pid
    shift
    setsid env -i PATH="$PATH" HOME="$data" LC_ALL=C "$@" </dev/null >>"$data/log/$name" 2>&1 9>&- &
    pid=$!
    echo "$pid $(begun "$pid")" >"$data/run/$name"
}

# signal NAME SIGNAL: of a daemon that must be alive.
signal() {
    local pid
    pid="$(process "$1")" || fail "no $1 runs in $data"
    kill -s "$2" "$pid"
}

# end NAME [SIGNAL]: ends it, if it is there, by TERM or another signal; one that is paused too.
end() {
    local pid
    if pid="$(process "$1")"; then
        kill -s "${2:-TERM}" "$pid"
        kill -s CONT "$pid" 2>/dev/null || true
        if ! wait_until "$end_seconds_max" gone "$1"; then
            kill -s KILL "$pid" 2>/dev/null || true
            wait_until "$end_seconds_max" gone "$1" || fail "$1 (process $pid) does not end"
        fi
    fi
    rm -f "$data/run/$1"
}

gone() {
    ! process "$1" >/dev/null
}

# wait_until SECONDS COMMAND...: until that succeeds; fails where it has not by then.
wait_until() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < until)) || return 1
        sleep 0.05
    done
}

# ready NAME COMMAND...: waits until COMMAND succeeds while that daemon lives; else ends all with what it said last.
ready() {
    local name="$1"
    shift
    wait_until "$ready_seconds_max" answers_or_gone "$name" "$@" && process "$name" >/dev/null && return
    tail -n 5 "$data/log/$name" >&2
    fail "$name is not ready; what it said is in $data/log/$name"
}

answers_or_gone() {
    "${@:2}" >/dev/null 2>&1 || gone "$1"
}

# is_open PORT: whether somebody listens on it.
is_open() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# port_of NAME [PORT]: the port of that name: what was noted, or PORT, which is noted. Else one that is free and below
# what the system gives to those who connect, so that it is still free after the daemon was away.
port_of() {
    local note="$data/port/$1" port="${2:-}" tries
    if [[ -n "$port" ]]; then
        [[ "$port" =~ ^[0-9]{1,5}$ ]] && ((10#$port >= 1 && 10#$port <= 65535)) ||
            fail "the port is $port: it must be 1 to 65535"
        [[ ! -e "$note" || "$(<"$note")" == "$port" ]] ||
            fail "$1 has the port $(<"$note") in $data, not $port: wipe first, or take another REMOTE_DATA"
    elif [[ -e "$note" ]]; then
        port="$(<"$note")"
    else
        for ((tries = 0; tries < 100; tries++)); do
            port=$((20000 + RANDOM % 12000))
            is_open "$port" || grep -qsx "$port" "$data"/port/* || break
        done
    fi
    echo "$port" | tee "$note"
}

# must_be_free NAME PORT...: before that daemon is begun.
must_be_free() {
    local port
    for port in "${@:2}"; do ! is_open "$port" || fail "the port $port is taken, $1 cannot have it"; done
}

# print_exports PORT KEY SECRET REGION: what whoever asks the store sets, for `eval` or a file.
print_exports() {
    printf 'export %s\n' "AWS_ENDPOINT_URL=http://127.0.0.1:$1" "AWS_ACCESS_KEY_ID=$2" "AWS_SECRET_ACCESS_KEY=$3" \
        "AWS_REGION=$4" "REMOTE_BUCKET=$bucket"
}

# make_bucket EXPORTS: as those say.
make_bucket() {
    (eval "$1" && python3 tests/campaigns/remote/s3.py "$bucket") || fail "there is no bucket $bucket"
}

# words_only NAME VALUE: what is put into files and `eval` has no characters that mean something there.
words_only() {
    [[ "$2" =~ ^[A-Za-z0-9._-]+$ ]] || fail "$1 is '$2': it must be letters, digits, '.', '_' and '-'"
}

# wipe: what runs has ended; its data goes. `cache` as well: all that was fetched or built for it.
wipe() {
    rm -rf "${data:?}"
    if [[ "${2:-}" == cache ]]; then rm -rf "${cache:?}/$1"; fi
}
