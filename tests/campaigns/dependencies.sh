#!/usr/bin/env bash
# Our dependencies before cargo-deny (deny.toml): licences, bans, sources, and advisories where their database can be reached;
# and target/packages/recalld.cdx.json, the list of all that the program is made of, in CycloneDX's form.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh

# Built quickly rather than to be quick; both only read.
for tool in cargo-deny cargo-cyclonedx; do
    command -v "$tool" >/dev/null || cargo install --quiet --locked --debug "$tool" ||
        skip "dependencies: $tool cannot be installed (cargo install $tool)"
done
cargo deny --log-level error check --hide-inclusion-graph bans licenses sources
database="cargo deny --log-level error fetch db"
if timeout 60 $database >/dev/null 2>&1; then
    cargo deny --log-level error check advisories
else
    echo "!!! SKIPPED: advisories: their database cannot be reached"
fi

folder="$(target_folder)/packages"
mkdir -p "$folder"
# One list is written beside the manifest of each crate, so this is done in a copy, whose folder is no part of their names.
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy" --
cargo cyclonedx --quiet --manifest-path "$copy/server/cli/Cargo.toml" --format json --override-filename recalld.cdx
sed "s|$copy||g" "$copy/server/cli/recalld.cdx.json" >"$folder/recalld.cdx.json"
if grep -q "$copy" "$folder/recalld.cdx.json"; then
    echo "$folder/recalld.cdx.json names the folder that it was made in" >&2
    exit 1
fi
python3 - "$folder/recalld.cdx.json" <<'CHECK'
import json, sys

components = json.load(open(sys.argv[1]))["components"]
names = {component["name"] for component in components}
missing = {"engine", "encoder", "mio", "rustls"} - names
if missing or len(names) < 100:
    sys.exit(f"{sys.argv[1]} has {len(names)} components and lacks {sorted(missing)}")
print(f"checked: {sys.argv[1]} lists {len(components)} components")
CHECK
echo "dependencies: all checks passed"
