#!/usr/bin/env bash
# The suites of the kernels and the encoder, compiled for AArch64 and run under user-mode emulation:
# tests/campaigns/neon.sh. On a CPU that has all there is, and the kernels' on one without the dot product too. Needs a cross
# compiler and the emulator, which it installs, and a standard library for AArch64: rustup's, or else one that is
# built, once, from Debian's sources of the very same Rust version. All that is built is kept in target/neon/.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
. tests/campaigns/tools.sh
# shellcheck source=tests/campaigns/private_apt.sh
. tests/campaigns/private_apt.sh

triple=aarch64-unknown-linux-gnu
folder="${CARGO_TARGET_DIR:-$PWD/target}/neon"
version="$(rustc -vV | sed -n 's/^release: //p')"
host="$(rustc -vV | sed -n 's/^host: //p')"
installed="$(rustc --print sysroot)"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
sysroot="$folder/rust-$version"
build="$folder/build"

# The sources of the standard library, as the private sysroot's.
fetch_sources() {
    local package scratch="$folder/fetched"
    set_up_private_apt "$folder" "stable-backports testing unstable experimental" "the sources of Rust"
    package="$(private_apt apt-cache madison rust-src | cut -d'|' -f2 | tr -d ' ' | grep "^$version+" | head -n 1)" ||
        skip "Debian has no rust-src $version"
    rm -rf "$scratch"
    mkdir -p "$scratch" "$sysroot/lib/rustlib/src/rust"
    (cd "$scratch" && private_apt apt-get -qq download "rust-src=$package" >/dev/null 2>&1) ||
        skip "rust-src $package cannot be fetched"
    dpkg-deb --fsys-tarfile "$scratch"/rust-src_*.deb |
        tar -x -C "$sysroot/lib/rustlib/src/rust" --strip-components=4 "./usr/src/rustc-$version/library"
    rm -rf "$scratch"
}

# A sysroot of our own: the toolchain's libraries for this machine, and one for AArch64 that is built here. Lightly
# optimised, since that takes half the time and the suite spends its own elsewhere.
build_library() {
    local libraries="$sysroot/lib/rustlib/$triple/lib" empty="$folder/empty"
    rm -rf "$sysroot" "$empty"
    fetch_sources
    ln -s "$installed/lib/rustlib/$host" "$sysroot/lib/rustlib/$host"
    mkdir -p "$libraries" "$empty/src"
    printf '[package]\nname = "empty"\nedition = "2024"\n[workspace]\n' >"$empty/Cargo.toml"
    : >"$empty/src/lib.rs"
    # The switch lets this compiler use what only a compiler's own library may.
    (cd "$empty" && RUSTC_BOOTSTRAP=1 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 RUSTC="$folder/rustc" \
        cargo build -q --release -Zbuild-std=std,panic_unwind,test --target "$triple" --target-dir "$empty/target")
    cp "$empty/target/$triple/release/deps"/*.rlib "$libraries"
    rm -rf "$libraries"/libempty* "$empty"
    touch "$sysroot/built"
}

need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
need qemu-aarch64-static qemu-user-static
if [[ ! -d "$installed/lib/rustlib/$triple" ]] &&
    ! timeout "$private_apt_seconds_max" rustup target add "$triple" >/dev/null 2>&1; then
    printf '#!/bin/sh\nexec "%s/bin/rustc" --sysroot "%s" "$@"\n' "$installed" "$sysroot" >"$folder/rustc"
    chmod +x "$folder/rustc"
    [[ -e "$sysroot/built" ]] || build_library
    export RUSTC="$folder/rustc"
    # Cargo cannot tell what was built with which library.
    build="$sysroot/build"
fi

# suite CPU LEVELS CRATE...: their tests on that CPU, which must have those levels, widest first.
suite() {
    local cpu="$1" wanted="$2" crates=("${@:3}") tests=(cargo test --target "$triple" --target-dir "$build" --lib) here
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -cpu $cpu -L /usr/aarch64-linux-gnu"
    here="$("${tests[@]}" -p kernels -- --show-output picks_the_widest | sed -n 's/^levels here: //p')"
    [[ "$here" == "$wanted" ]] || fail "$cpu should have the levels $wanted, and has $here"
    "${tests[@]}" "${crates[@]/#/--package=}"
    echo "on $cpu, all is well at the levels $here"
}

suite max "neon-dot neon scalar" kernels encoder
# Of what differs by CPU the encoder knows nothing.
suite cortex-a72 "neon scalar" kernels
