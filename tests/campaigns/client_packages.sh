# Sourced by the campaigns with real MCP clients, behind tools.sh: their packages, by name and version, in target/clients.

# installed FOLDER LIST COMMAND...: runs COMMAND once for each content of LIST.
installed() {
    local folder="$1" list="$2"
    shift 2
    cmp -s "$list" "$folder/installed" && return
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$list" "$folder/"
    (cd "$folder" && timeout 600 "$@") >"$here/install.log" 2>&1 ||
        skip "$* failed in $folder: $(tail -n 5 "$here/install.log")"
    cp "$list" "$folder/installed"
}

# install_scripted_clients: those that nothing has to be built for. `$here` is where, `$node` the folder of node's packages.
install_scripted_clients() {
    here="$(target_folder)/clients"
    mkdir -p "$here"
    need npm npm
    installed "$here/python" tests/clients/requirements.txt \
        python3 -m pip install -q --disable-pip-version-check --target . -r requirements.txt
    installed "$here/node" tests/clients/package.json npm install --no-audit --no-fund --ignore-scripts
    # A module finds its packages beside itself.
    cp tests/clients/client.mjs tests/clients/logins/login.mjs tests/clients/week/afterword.mjs "$here/node/"
    node="$here/node/node_modules"
}

# install_clients: the same, and the one that is written in Rust.
install_clients() {
    install_scripted_clients
    cargo build -q --locked --manifest-path tests/clients/rmcp/Cargo.toml --target-dir "$here/rmcp"
}
