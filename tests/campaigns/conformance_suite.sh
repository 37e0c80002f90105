# Sourced by the campaigns with the official conformance suite, behind tools.sh. Every package is pinned by version and hash
# in tests/conformance/package-lock.json, which names no registry (npm install --package-lock-only
# --omit-lockfile-registry-resolved), and installed into target/conformance.

install_seconds_max=600

# install_suite: `$suite_home` is where, `$suite_node` the Node that runs it.
install_suite() {
    [[ "$(uname -m)" == x86_64 ]] || skip "conformance: the pinned Node is one for x86-64"
    need npm npm
    suite_home="$(target_folder)/conformance"
    suite_node="$suite_home/node_modules/.bin/node"
    mkdir -p "$suite_home"
    for list in package.json package-lock.json; do
        cmp -s "tests/conformance/$list" "$suite_home/$list" || {
            rm -rf "$suite_home/node_modules"
            cp "tests/conformance/$list" "$suite_home/$list.new"
            mv "$suite_home/$list.new" "$suite_home/$list"
        }
    done
    [[ -x "$suite_node" && -d "$suite_home/node_modules/conformance-next" ]] && return
    (cd "$suite_home" && timeout "$install_seconds_max" npm ci --silent --no-audit --no-fund >npm.log 2>&1) ||
        skip "conformance: npm cannot install the suite, see $suite_home/npm.log"
}
