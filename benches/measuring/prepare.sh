# What the commands of benches/*/run have in common; they source it.

# packages FOLDER LIST...: a virtual environment in FOLDER/venv with the packages of the lists. A list is
# installed once; another one, or one that was cut short, is installed again. Sets `python`.
packages() {
    local folder="$1" list done_list
    shift
    python="$folder/venv/bin/python"
    [[ -x "$python" ]] || python3 -m venv "$folder/venv"
    for list in "$@"; do
        done_list="$folder/$(basename "$list").installed"
        if ! cmp -s "$list" "$done_list"; then
            echo "installing $(basename "$list") into a folder of its own" >&2
            "$python" -m pip install --quiet --disable-pip-version-check -r "$list" >&2
            cp "$list" "$done_list"
        fi
    done
}

# built ARGUMENT...: builds as released, and prints where the programs lie: cargo says it, so that any target
# directory does.
built() {
    cargo build --release --message-format=json-render-diagnostics "$@" |
        python3 -c '
import json, sys
for line in sys.stdin:
    if path := json.loads(line).get("executable"):
        print(path)'
}
