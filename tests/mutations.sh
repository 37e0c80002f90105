#!/bin/sh
# Breaks the engine on purpose, in a scratch copy, and says after how many seeds the simulation notices:
# tests/mutations.sh [SEEDS]. Fails where it does not notice, or where an edit no longer finds its place
# in the sources.
set -eu

cd "$(dirname "$0")/.."
seeds=${1:-400}
# shellcheck source=tests/mutating.sh
. tests/mutating.sh
begin mutations

mutation 'a write is acknowledged before its log is synced' engine/src/store.rs \
    's/if self\.options\.durability == Durability::Sync \{/if self.options.durability == Durability::Sync && $ENV{RIGHT} {/'
mutation 'a sync of an interval does nothing' engine/src/store/publish.rs \
    's/(pub fn sync\(&self\) -> Result<\(\), WriteError> \{)/$1 if !($ENV{RIGHT}) { return Ok(()); }/'
mutation 'names are not synced after a rename' engine/src/os/disk.rs \
    's/(rename_whole\(disk, name, bytes\)\?;\s*)disk\.sync_names\(\)/$1if $ENV{RIGHT} { disk.sync_names()?; } Ok(())/'
for kind in state manifest; do
    mutation "a $kind is renamed before it is synced" engine/src/os/disk.rs \
        "s/(file\\.append\\(bytes\\)\\?;.*?)file\\.sync\\(\\)\\?;/\$1if !name.starts_with(\"$kind-\") || \$ENV{RIGHT} { file.sync()?; }/s"
done
mutation 'a segment is renamed, and published, before it is synced' engine/src/store/segment_rewrite.rs \
    's/(sink\.finish\(\)\?;\s*)file\.sync\(\)\?;/$1if $ENV{RIGHT} { file.sync()?; }/'
mutation 'a job does not sync names before its install' engine/src/store/segment_rewrite.rs \
    's/(on disk before the name is\.\s*)(disk\.sync_names\(\)\.map_err\(JobError::Names\)\?;)/$1if $ENV{RIGHT} { $2 }/'
mutation 'what was retired while a job ran is not carried over' engine/src/store/writer/rewrite_jobs.rs \
    's/let part = made\.part\(now\);/let part = if $ENV{RIGHT} { made.part(now) } else { made.part(&job.inputs) };/'
mutation 'old logs are dropped before the publish' engine/src/store/writer/rewrite_jobs.rs \
    's/(self\.replace\(job, made\);\s*)(self\.publish\(disk\))/$1if !($ENV{RIGHT}) { for name in self.doomed.iter().filter(|name| name.starts_with("log-")) { let _ = disk.remove(name); } } $2/'
mutation 'doomed files are removed before the publish' engine/src/store/writer.rs \
    's/(let bytes = self\.try_publish\(disk\)\.map_err)/if !($ENV{RIGHT}) { self.doomed.retain(|name| disk.remove(name).is_err()); } $1/'
mutation 'replayed frames are not written anew' engine/src/store.rs \
    's/if must_seal \{/if must_seal && $ENV{RIGHT} {/'
mutation 'how far the log was on disk is not written' engine/src/store/writer.rs \
    's/self\.manifest\.synced_seq = self\.last_seq\(\);/if $ENV{RIGHT} { $& } else { self.manifest.synced_seq = self.manifest.last_seq; }/'
mutation 'how far the log was on disk is not checked' engine/src/store/recovery.rs \
    's/if self\.next_seq <= self\.manifest\.synced_seq/if $ENV{RIGHT} && self.next_seq <= self.manifest.synced_seq/'
mutation 'a log that is named and lost is not missed' engine/src/store/recovery.rs \
    's/found\.chain\(named\.iter\(\)\.copied\(\)\)/found.chain(named.iter().copied().filter(|_| $ENV{RIGHT}))/'
mutation 'erased ids are forgotten before all files are rewritten' engine/src/maintenance/erasure.rs \
    's/self\.flush_alone\(&erased\)\?;/$& if !($ENV{RIGHT}) { self.writer()?.forget_erased(&*self.ground.disk, &erased.ids().collect())?; }/'
mutation 'an erasure is not applied to the tail' engine/src/maintenance/erasure.rs \
    's/self\.flush_alone\(&erased\)\?;/if $ENV{RIGHT} { self.flush_alone(&erased)?; }/'
# Not here: an erasure's flush that keeps the erased rows. They are found in the segment that it makes, and
# that is rewritten like any other: one copy more, and nothing is left.
mutation 'an erasure leaves sealed segments as they are' engine/src/maintenance/erasure.rs \
    's/if is_there \{/if is_there \&\& $ENV{RIGHT} {/'
mutation 'edges of an erased item stay' engine/src/maintenance/erasure.rs \
    's/\|\| segment\.joins\(ItemId\(id\)\)\?/|| $ENV{RIGHT} && segment.joins(ItemId(id))?/'
mutation 'sources that go are not noted' engine/src/maintenance/erasure.rs \
    's/writer\.erase_too\(/if $ENV{RIGHT} { $&/; s/(erase_too\(sources\.iter\(\)\.copied\(\)\);)/$1 }/'
mutation 'removed names of erased files are not synced, nor leftovers removed' engine/src/store/writer.rs \
    's/self\.manifest\.leftovers\(names\)\.into_iter\(\)/$&.filter(|_| $ENV{RIGHT})/'
mutation 'compaction takes what a flush has taken' engine/src/store/writer/rewrite_jobs.rs \
    's/self\.claimed\.contains\(&self\.manifest\.segments\[at\]\.number\)/$ENV{RIGHT} && $&/'
mutation 'a flush takes what compaction has taken' engine/src/store/writer/rewrite_jobs.rs \
    's/if is_taken \|\| /if is_taken && $ENV{RIGHT} || /'
mutation 'a move to another model does not name it' engine/src/maintenance/reembed.rs \
    's/writer\.manifest\.model = Some\(self\.to\);/if $ENV{RIGHT} { $& }/'
mutation 'a move to another model leaves a segment out' engine/src/maintenance/reembed.rs \
    's/for \(job, made\) in remade \{/for (job, made) in remade.into_iter().skip(usize::from(!($ENV{RIGHT}))) {/'
mutation 'files of a backup are not synced before its manifest' engine/src/maintenance/backup.rs \
    's/file\.sync\(\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'names of a backup are not synced before its manifest' engine/src/maintenance/backup.rs \
    's/self\.to\.sync_names\(\)\.map_err\(target\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'a backup removes what it replaces before its manifest' engine/src/maintenance/backup.rs \
    's/let bytes = self\.made\.put_in_place\(self\.to\)/if !($ENV{RIGHT}) { for name in names { self.to.remove(name).map_err(target)?; } } $&/'
mutation 'a backup is made of what is not synced' engine/src/store/publish.rs \
    's/let \(snapshot, bytes, copied\) = self\.sync_with/if !($ENV{RIGHT}) { return self.writer().map(|writer| what_to_copy(&writer)); } $&/'
mutation 'a restore puts the manifest first' engine/src/maintenance/backup.rs \
    's/for file in manifest\.listed\(\) \{/if !($ENV{RIGHT}) { let name = layout::name(FileKind::Manifest, manifest.number); write_file(to, &name, &from.read(&name, MANIFEST_BYTES_MAX).map_err(source)?).map_err(target)?; } $&/'
mutation 'a torn frame in the middle counts as the end' engine/src/wal/reader.rs \
    's/match self\.later_head\(\) \{/match self.later_head().filter(|_| $ENV{RIGHT}) {/'
mutation 'the name of a new log is not synced' engine/src/wal/writer.rs \
    's/(durability\)\?;\s*)(disk\.sync_names\(\)\?;)/$1if $ENV{RIGHT} { $2 }/'
mutation 'the header of a new log is not synced' engine/src/wal/writer.rs \
    's/(file\.append\(&header.*?)(file\.sync\(\)\?;)/$1if $ENV{RIGHT} { $2 }/s'
mutation 'a log is not synced before the next one follows it' engine/src/store/writer/rewrite_jobs.rs \
    's/log\.sync\(\)\.map_err\(\|error\| self\.stop\(error\)\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'states are published before the log that they build on is synced' engine/src/store/writer.rs \
    's/self\.syncer\(\)\.map_or\(Ok\(\(\)\), \|syncer\| syncer\.sync\(\)\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'leftovers are removed before newer names are synced' engine/src/store/writer.rs \
    's/(disk\.sync_names\(\)\?;)(\s*let writer = Self)/if $ENV{RIGHT} { $1 }$2/'
mutation 'the writer goes on after a failed write' engine/src/store/writer.rs \
    's/log\.append\(seq, payload, records\)\.map_err\(\|error\| self\.stop\(error\)\)\?;/if $ENV{RIGHT} { $& } else { log.append(seq, payload, records).map_err(WriteError::Disk)?; }/'
mutation 'checksums of frames are not compared' engine/src/wal/frame.rs \
    's/\(crc == head\.crc\)/(crc == head.crc || !($ENV{RIGHT}))/'
# In every log: as it stands, only one whose frames end where its room does would need some for the mark.
mutation 'room is made for the mark of a log' engine/src/wal/writer.rs \
    's/(self\.put\(self\.last_seq, &\[\], 0\)\?;)/if !($ENV{RIGHT}) { self.shared.file.reserve(self.file_bytes() + LOG_RESERVE_STEP)?; } $1/'
mutation 'what a crash left of a backup stays in the way' engine/src/maintenance/backup.rs \
    's/remove_unfinished\(to, &names\)\.map_err\(target\)\?;/if $ENV{RIGHT} { $& }/'

(cd "$scratch/copy" && CARGO_TARGET_DIR="$scratch" cargo build -q --release -p support-engine --example simulate)
number=0
while read -r name; do
    number=$((number + 1))
    found=$(MUTATION=$number "$scratch/release/examples/simulate" --seeds "$seeds" --start 1 --failures 1 \
        2> /dev/null | sed -n 's/^\([A-Za-z]*\), seed \([0-9]*\): .*/\1, seed \2/p' | head -n 1)
    echo "$name: ${found:-NOT NOTICED in $seeds seeds}"
    [ -n "$found" ] || missed=1
done < "$scratch/names"
exit $missed
