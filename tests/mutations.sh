#!/bin/sh
# Mutation testing of the engine: breaks a scratch copy of its sources on purpose, and prints the first seed at which
# the simulation fails: tests/mutations.sh [SEEDS]. Fails if the simulation does not notice a mutation, or if an edit no
# longer matches the sources.
set -eu

cd "$(dirname "$0")/.."
seeds=${1:-400}
# shellcheck source=tests/mutating.sh
. tests/mutating.sh
begin mutations

mutation 'a write is acknowledged before the sync of its log' engine/src/store.rs \
    's/if self\.options\.durability == Durability::Sync \{/if self.options.durability == Durability::Sync && $ENV{RIGHT} {/'
mutation 'an interval sync does nothing' engine/src/store/publish.rs \
    's/(pub fn sync\(&self\) -> Result<\(\), WriteError> \{)/$1 if !($ENV{RIGHT}) { return Ok(()); }/'
mutation 'the directory is not synced after an atomic write' engine/src/os/disk.rs \
    's/(rename_synced\(disk, name, bytes\)\?;\s*)disk\.sync_names\(\)/$1if $ENV{RIGHT} { disk.sync_names()?; } Ok(())/'
for kind in state manifest; do
    mutation "a $kind file is renamed before it is synced" engine/src/os/disk.rs \
        "s/(file\\.append\\(bytes\\)\\?;.*?)file\\.sync\\(\\)\\?;/\$1if !name.starts_with(\"$kind-\") || \$ENV{RIGHT} { file.sync()?; }/s"
done
mutation 'a segment file is renamed and published before it is synced' engine/src/store/segment_rewrite.rs \
    's/(sink\.finish\(\)\?;\s*)file\.sync\(\)\?;/$1if $ENV{RIGHT} { file.sync()?; }/'
mutation 'the directory is not synced before a rewrite job is installed' engine/src/store/segment_rewrite.rs \
    's/disk\.sync_names\(\)\.map_err\(JobError::DirectorySync\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'row states set while a rewrite job runs are lost at its install' engine/src/store/writer/rewrite_jobs.rs \
    's/let part = made\.to_snapshot\(now\);/let part = if $ENV{RIGHT} { made.to_snapshot(now) } else { made.to_snapshot(&job.inputs) };/'
mutation 'obsolete logs are removed before the manifest is published' engine/src/store/writer/rewrite_jobs.rs \
    's/(self\.replace\(job, made\);\s*)(self\.publish\(disk\))/$1if !($ENV{RIGHT}) { for name in self.obsolete_files.iter().filter(|name| name.starts_with("log-")) { let _ = disk.remove(name); } } $2/'
mutation 'obsolete files are removed before the manifest is published' engine/src/store/writer.rs \
    's/(let bytes = self\.try_publish\(disk\)\.map_err)/if !($ENV{RIGHT}) { self.obsolete_files.retain(|name| disk.remove(name).is_err()); } $1/'
mutation 'recovered frames that may be unsynced are not sealed at open' engine/src/store.rs \
    's/if must_seal \{/if must_seal && $ENV{RIGHT} {/'
mutation 'the last synced commit is not written to the manifest' engine/src/store/writer.rs \
    's/self\.manifest\.synced_seq = self\.last_seq\(\);/if $ENV{RIGHT} { $& } else { self.manifest.synced_seq = self.manifest.last_seq; }/'
mutation 'the last synced commit in the manifest is not checked at recovery' engine/src/store/recovery.rs \
    's/if self\.next_seq <= self\.manifest\.synced_seq/if $ENV{RIGHT} && self.next_seq <= self.manifest.synced_seq/'
mutation 'a missing log that the manifest lists is ignored at recovery' engine/src/store/recovery.rs \
    's/found\.chain\(named\.iter\(\)\.copied\(\)\)/found.chain(named.iter().copied().filter(|_| $ENV{RIGHT}))/'
mutation 'pending erasures are completed before all segments are rewritten' engine/src/maintenance/erasure.rs \
    's/self\.flush_tail\(&erased\)\?;/$& if !($ENV{RIGHT}) { self.writer()?.complete_erasures(&*self.env.disk, &erased.ids().collect())?; }/'
mutation 'an erasure skips the tail' engine/src/maintenance/erasure.rs \
    's/self\.flush_tail\(&erased\)\?;/if $ENV{RIGHT} { $& }/'
# Not here: a flush that keeps the erased rows. The erasure finds them in the flushed segment and rewrites that, like
# any other: this costs one more copy, and no erased row remains.
mutation 'an erasure skips sealed segments' engine/src/maintenance/erasure.rs \
    's/if is_there \{/if is_there \&\& $ENV{RIGHT} {/'
mutation 'an erasure skips segments that have only edges of the erased item' engine/src/maintenance/erasure.rs \
    's/\|\| segment\.is_node\(ItemId\(id\)\)\?/|| $ENV{RIGHT} && segment.is_node(ItemId(id))?/'
mutation 'orphaned sources are not added to the pending erasures' engine/src/maintenance/erasure.rs \
    's/writer\.add_erasures\(sources\.iter\(\)\.copied\(\)\);/if $ENV{RIGHT} { $& }/'
mutation 'obsolete files that a crash left are not removed at open' engine/src/store/writer.rs \
    's/self\.manifest\.obsolete_files\(names\)\.into_iter\(\)/$&.filter(|_| $ENV{RIGHT})/'
mutation 'a compaction takes segments that a flush has claimed' engine/src/store/writer/rewrite_jobs.rs \
    's/self\.claimed\.contains\(&self\.manifest\.segments\[at\]\.number\)/$ENV{RIGHT} && $&/'
mutation 'a flush takes segments that a compaction has claimed' engine/src/store/writer/rewrite_jobs.rs \
    's/if is_taken \|\| /if is_taken && $ENV{RIGHT} || /'
mutation 'a re-embedding does not write its model to the manifest' engine/src/maintenance/reembed.rs \
    's/writer\.manifest\.model = Some\(self\.model\);/if $ENV{RIGHT} { $& }/'
mutation 'a re-embedding omits one segment from its manifest' engine/src/maintenance/reembed.rs \
    's/for \(job, made\) in remade \{/for (job, made) in remade.into_iter().skip(usize::from(!($ENV{RIGHT}))) {/'
mutation 'the files of a backup are not synced before its manifest' engine/src/maintenance/backup.rs \
    's/file\.sync\(\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'the directory of a backup is not synced before its manifest' engine/src/maintenance/backup.rs \
    's/self\.to\.sync_names\(\)\.map_err\(target_error\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'files of an earlier backup are removed before the new manifest' engine/src/maintenance/backup.rs \
    's/let bytes = self\.manifest\.install\(self\.to\)/if !($ENV{RIGHT}) { for name in names { self.to.remove(name).map_err(target_error)?; } } $&/'
mutation 'a backup copies commits that are not synced' engine/src/store/publish.rs \
    's/let \(snapshot, bytes, copied\) = self\.sync_with/if !($ENV{RIGHT}) { return self.writer().map(|writer| backup_contents(&writer)); } $&/'
mutation 'a restore writes the manifest before the listed files' engine/src/maintenance/backup.rs \
    's/for file in manifest\.listed_files\(\) \{/if !($ENV{RIGHT}) { let name = layout::file_name(FileKind::Manifest, manifest.number); write_file(to, &name, &from.read(&name, MANIFEST_BYTES_MAX).map_err(source_error)?).map_err(target_error)?; } $&/'
mutation 'a damaged frame in the middle of a log counts as a torn end' engine/src/wal/reader.rs \
    's/match self\.later_head\(\) \{/match self.later_head().filter(|_| $ENV{RIGHT}) {/'
mutation 'the directory is not synced after a new log' engine/src/wal/writer.rs \
    's/(durability\)\?;\s*)(disk\.sync_names\(\)\?;)/$1if $ENV{RIGHT} { $2 }/'
mutation 'the header of a new log is not synced' engine/src/wal/writer.rs \
    's/(file\.append\(&header.*?)(file\.sync\(\)\?;)/$1if $ENV{RIGHT} { $2 }/s'
mutation 'a log is not synced before the next log is created' engine/src/store/writer/rewrite_jobs.rs \
    's/log\.sync\(\)\.map_err\(\|error\| self\.stop\(error\)\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'row states are published before the log of their commits is synced' engine/src/store/writer.rs \
    's/self\.syncer\(\)\.map_or\(Ok\(\(\)\), \|syncer\| syncer\.sync\(\)\)\?;/if $ENV{RIGHT} { $& }/'
mutation 'obsolete files are removed at open before the directory is synced' engine/src/store/writer.rs \
    's/(disk\.sync_names\(\)\?;)(\s*let writer = Self)/if $ENV{RIGHT} { $1 }$2/'
mutation 'the writer continues after a failed append to the log' engine/src/store/writer.rs \
    's/log\.append\(seq, payload, records\)\.map_err\(\|error\| self\.stop\(error\)\)\?;/if $ENV{RIGHT} { $& } else { log.append(seq, payload, records).map_err(WriteError::Disk)?; }/'
mutation 'frame checksums are not compared' engine/src/wal/frame.rs \
    's/\(crc == head\.crc\)/(crc == head.crc || !($ENV{RIGHT}))/'
# In every log: the sources, if they reserved space for the mark, would do so only for a log whose frames end where its
# reserved space does.
mutation 'space is reserved for the closing mark of a log' engine/src/wal/writer.rs \
    's/(self\.write_frame\(self\.last_seq, &\[\], 0\)\?;)/if !($ENV{RIGHT}) { self.shared.file.reserve(self.file_bytes() + LOG_RESERVE_STEP)?; } $1/'
mutation 'unfinished files of an interrupted backup are not removed' engine/src/maintenance/backup.rs \
    's/remove_unfinished\(to, &names\)\.map_err\(target_error\)\?;/if $ENV{RIGHT} { $& }/'

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
