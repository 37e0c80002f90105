#!/bin/sh
# Breaks the engine on purpose, in a scratch copy, and says after how many seeds the simulation notices:
# tests/mutations.sh [SEEDS]. Fails where it does not notice, or where an edit no longer finds its place
# in the sources. All edits are made at once and built once; a variable chooses the one that is in force.
set -eu

cd "$(dirname "$0")/.."
seeds=${1:-400}
scratch=${CARGO_TARGET_DIR:-$PWD/target}/mutations
missed=0

rm -rf "$scratch/copy"
mkdir -p "$scratch/copy"
: > "$scratch/names"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$scratch/copy"

# mutation NAME FILE EDIT: EDIT is a Perl substitution over the whole file. In what it puts there,
# $ENV{RIGHT} is a condition that is false while this mutation is in force.
mutation() {
    echo "$1" >> "$scratch/names"
    number=$(wc -l < "$scratch/names")
    cp "$scratch/copy/$2" "$scratch/before"
    RIGHT="std::env::var(\"MUTATION\").as_deref() != Ok(\"$number\")" perl -0pi -e "$3" "$scratch/copy/$2"
    if cmp -s "$scratch/before" "$scratch/copy/$2"; then
        echo "$1: the edit of $2 finds nothing to change"
        missed=1
    fi
}

mutation 'a write is acknowledged before its log is synced' engine/src/log.rs \
    's/if durability == Durability::Sync \{/if durability == Durability::Sync && $ENV{RIGHT} {/'
mutation 'names are not synced after a rename' engine/src/os/disk.rs \
    's/(disk\.rename\(&fresh, name\)\?;\s*)disk\.sync_names\(\)/$1if $ENV{RIGHT} { disk.sync_names()?; } Ok(())/'
for kind in segment state manifest; do
    mutation "a $kind is renamed before it is synced" engine/src/os/disk.rs \
        "s/(file\\.append\\(bytes\\)\\?;.*?)file\\.sync\\(\\)\\?;/\$1if !name.starts_with(\"$kind-\") || \$ENV{RIGHT} { file.sync()?; }/s"
done
mutation 'replayed logs are not synced' engine/src/writer.rs \
    's/disk\.sync\(&layout::name\(FileKind::Log, number\)\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'a torn frame in the middle counts as the end' engine/src/log.rs \
    's/self\.check_torn\(at, seq\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'the name of a new log is not synced' engine/src/log.rs \
    's/(file\.sync\(\)\?;\s*)(disk\.sync_names\(\)\?;)/$1if $ENV{RIGHT} { $2 }/'
mutation 'the header of a new log is not synced' engine/src/log.rs \
    's/(file\.append\(&header.*?)(file\.sync\(\)\?;)/$1if $ENV{RIGHT} { $2 }/s'
mutation 'states are published before the log that they build on is synced' engine/src/writer.rs \
    's/self\.log\.as_mut\(\)\.map_or\(Ok\(\(\)\), LogWriter::sync\)/if $ENV{RIGHT} { $& } else { Ok(()) }/'
mutation 'leftovers are removed before newer names are synced' engine/src/writer.rs \
    's/(disk\.sync_names\(\)\?;)(\s*writer\.remove_leftovers)/if $ENV{RIGHT} { $1 }$2/'
mutation 'the writer goes on after a failed write' engine/src/writer.rs \
    's/logged\.map_err\(\|error\| self\.stop\(error\)\)\?;/if $ENV{RIGHT} { $& } else { logged?; }/'
mutation 'checksums of frames are not compared' engine/src/log.rs \
    's/&& crc == (crc32c::crc32c\(&rest\[8\.\.end\]\))/&& (crc == $1 || !($ENV{RIGHT}))/'
mutation 'old logs are removed before the manifest is in place' engine/src/writer.rs \
    's/self\.manifest\.number \+= 1;/if !($ENV{RIGHT}) { self.remove_leftovers(disk, &disk.names()?)?; } $&/'

(cd "$scratch/copy" && CARGO_TARGET_DIR="$scratch" cargo build -q -p tests --example simulate)
number=0
while read -r name; do
    number=$((number + 1))
    found=$(MUTATION=$number "$scratch/debug/examples/simulate" --seeds "$seeds" --start 1 --failures 1 \
        2> /dev/null | sed -n 's/^\([A-Za-z]*\), seed \([0-9]*\): .*/\1, seed \2/p' | head -n 1)
    echo "$name: ${found:-NOT NOTICED in $seeds seeds}"
    [ -n "$found" ] || missed=1
done < "$scratch/names"
exit $missed
