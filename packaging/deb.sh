#!/usr/bin/env bash
# Makes recalld_VERSION_ARCHITECTURE.deb of a built program: packaging/deb.sh [PROGRAM [FOLDER]].
# PROGRAM is target/dist/recalld and FOLDER target/packages where they are not given. Nothing is built here, and the
# same program gives the same package, to the byte: times are those of the last commit, or of SOURCE_DATE_EPOCH.
# Beside the package stands recalld_VERSION_ARCHITECTURE.debug, the line tables of the program in it: a debugger finds
# them by that name in /usr/lib/debug/usr/bin.
# DEB_VERSION is another version than the program's, for trying an upgrade.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
program="${1:-target/dist/recalld}"
folder="${2:-target/packages}"
fail() {
    printf 'deb.sh: %s\n' "$*" >&2
    exit 1
}
[[ -x "$program" ]] || fail "there is no $program: cargo build --profile dist"
command -v dpkg-deb >/dev/null || fail "dpkg-deb is needed: apt-get install dpkg"
command -v objcopy >/dev/null || fail "objcopy is needed: apt-get install binutils"

export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
version="${DEB_VERSION:-$("$program" --version | cut -d' ' -f2)}"
architecture="$(dpkg --print-architecture)"
name="recalld_${version}_$architecture"
tree="$(mktemp -d)"
chmod 755 "$tree"
trap 'rm -rf "$tree"' EXIT

# put MODE SOURCE PLACE: a file of the package.
put() {
    install -D -m "$1" "$2" "$tree/$3"
}

mkdir -p "$folder"
objcopy --only-keep-debug "$program" "$folder/$name.debug"
chmod 644 "$folder/$name.debug"
objcopy --strip-all --add-gnu-debuglink="$folder/$name.debug" "$program" "$tree/program"
put 755 "$tree/program" usr/bin/recalld
rm "$tree/program"
put 644 packaging/recalld.service usr/lib/systemd/system/recalld.service
put 644 packaging/recalld.sysusers usr/lib/sysusers.d/recalld.conf
put 644 packaging/recalld.default etc/default/recalld
put 644 packaging/README.Debian usr/share/doc/recalld/README.Debian
put 644 packaging/copyright usr/share/doc/recalld/copyright
"$program" config example >"$tree/example"
put 644 "$tree/example" etc/recalld/recalld.toml
rm "$tree/example"

compressed() {
    mkdir -p "$tree/$(dirname "$1")"
    gzip -9 -n >"$tree/$1"
    chmod 644 "$tree/$1"
}
"$program" man | compressed usr/share/man/man1/recalld.1.gz
printf 'recalld (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- recalld maintainers <recalld@recalld.invalid>  %s\n' \
    "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | compressed usr/share/doc/recalld/changelog.gz
compressed usr/share/doc/recalld/CHANGELOG.md.gz <CHANGELOG.md
# Each shell by its own rules of where.
while read -r shell place; do
    mkdir -p "$tree/$(dirname "$place")"
    "$program" completions "$shell" >"$tree/$place"
    chmod 644 "$tree/$place"
done <<'PLACES'
bash usr/share/bash-completion/completions/recalld
zsh usr/share/zsh/vendor-completions/_recalld
fish usr/share/fish/vendor_completions.d/recalld.fish
PLACES

mkdir "$tree/DEBIAN"
for script in postinst prerm postrm; do install -m 755 "packaging/debian/$script" "$tree/DEBIAN/$script"; done
printf '/etc/default/recalld\n/etc/recalld/recalld.toml\n' >"$tree/DEBIAN/conffiles"
# The newest version of the C library whose symbols the program asks for; one that is linked statically asks for none.
# Packed addresses (server/cli/build.rs) are asked for under a name of their own, which 2.36 was the first to know.
libc="$({ objdump -p "$program" || true; } | { grep -o 'GLIBC_[A-Z0-9._]*' || true; } |
    sed 's/GLIBC_ABI_DT_RELR/2.36/; s/GLIBC_//' | { grep '^[0-9]' || true; } | sort -Vu | tail -n 1)"
depends="adduser, procps, systemd"
[[ -z "$libc" ]] || depends="libc6 (>= $libc), libgcc-s1, $depends"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: recalld
Version: $version
Architecture: $architecture
Maintainer: recalld maintainers <recalld@recalld.invalid>
Installed-Size: $(du -k -s --apparent-size "$tree" | cut -f1)
Depends: $depends
Recommends: python3-pip
Section: net
Priority: optional
Description: memory recall for AI tools
 Keeps typed memory items with their provenance and finds them by words, by
 meaning and by the links between them, over HTTP and over the Model Context
 Protocol. One program and one directory: no database, no model server.
CONTROL
(cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$tree" "$folder/$name.deb" >/dev/null
echo "$folder/$name.deb $(stat -c %s "$folder/$name.deb") bytes, program $(stat -c %s "$tree/usr/bin/recalld") bytes"
