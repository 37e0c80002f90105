# What the commands of benches/*/run have in common; they source it.

# python_environment, which ends with 77 where packages cannot be installed.
# shellcheck source=tests/campaigns/tools.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/campaigns/tools.sh"

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
