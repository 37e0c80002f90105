#!/bin/sh
# Breaks the protocol on purpose, in a scratch copy, and says after how many seeds the simulation notices:
# server/replication/tests/mutations.sh [SEEDS]. Where few or no seeds show something, tests of one case each are to notice it.
# Fails where nothing does, or where an edit no longer finds its place in the sources.
set -eu

cd "$(dirname "$0")/../../.."
seeds=${1:-300}
# shellcheck source=tests/mutating.sh
. tests/mutating.sh
begin far_mutations

# build TESTS NAME: tests as they are in the copy by now, as the program NAME; those of the library are `recalld_replication`.
build() {
    which="--test $1"
    [ "$1" != recalld_replication ] || which=--lib
    rm -f "$scratch/release/deps/$1"-*
    # shellcheck disable=SC2086
    (cd "$scratch/copy" && CARGO_TARGET_DIR="$scratch" cargo test -q --release -p recalld-replication $which --no-run)
    cp "$(find "$scratch/release/deps" -name "$1-*" -perm -u+x -type f | head -n 1)" "$scratch/$2"
}

build it whole

mutation 'the edge is not read after a creation' server/replication/src/core/create.rs \
    's/let is_fresh = /$&!($ENV{RIGHT}) || /'
mutation 'the edge is read before a creation and not after it' server/replication/src/core/create.rs \
    's/(    let created = attempt\()/    if !($ENV{RIGHT}) && port.now() - known > FRESH_MAX && port.edge().await.is_ok_and(|edge| number <= edge.boundary) { return Created::Below; }\n$1/; s/let is_fresh = /$&!($ENV{RIGHT}) || /'
mutation 'nothing is read back after a doubt' server/replication/src/core/create.rs \
    's/is_open = true;/$& if !($ENV{RIGHT}) { return Created::Taken(Vec::new()); }/'
mutation 'a number that exists is taken by somebody else' server/replication/src/core/create.rs \
    's/is_open = true;/$& if !($ENV{RIGHT}) \&\& why == "412" { return Created::Taken(Vec::new()); }/'
mutation 'what is refused after a doubt counts as nowhere' server/replication/src/core/create.rs \
    's/if !is_open =>/if !is_open || !($ENV{RIGHT}) =>/'
mutation 'any record at the number counts as ours' server/replication/src/core/create.rs \
    's/if found == \*\*bytes =>/if found == **bytes || !($ENV{RIGHT}) =>/'
mutation 'a number at or below the edge counts as ours' server/replication/src/core/create.rs \
    's/if number <= edge\.boundary => return Created::Below/if number <= edge.boundary \&\& $ENV{RIGHT} => return Created::Below/'
mutation 'a follower believes what comes late' server/replication/src/core/follower.rs \
    's/if port\.now\(\) - known > FRESH_MAX/if $ENV{RIGHT} \&\& port.now() - known > FRESH_MAX/'
mutation 'a follower counts from the record, not from when it was at the newest' server/replication/src/core/follower.rs \
    's/next = batch\.read\(port, known\)/next = batch.read(port, if $ENV{RIGHT} { known } else { port.now() })/'
mutation 'a follower is fresh as of the answer' server/replication/src/core/follower.rs \
    's/Next::Nothing\(before\),/Next::Nothing(if $ENV{RIGHT} { before } else { port.now() }),/'
mutation 'a follower is fresh as of a record' server/replication/src/core/follower.rs \
    's/(_ if !batch\.records\.is_empty\(\) => )None/$1if $ENV{RIGHT} { None } else { Some(port.now()) }/'
mutation 'a follower is fresh before it is where others were' server/replication/src/core/follower.rs \
    's/\*target <= number\)/*target <= number || !($ENV{RIGHT}))/'
mutation 'the edge is not read after the newest record was found' server/replication/src/core/newest.rs \
    's/if lowest <= /if $ENV{RIGHT} \&\& lowest <= /'
mutation 'records are removed as soon as they are known' server/replication/src/core/collector.rs \
    's/port\.now\(\) - \*since >= CHAIN_KEPT_MIN/(port.now() - *since >= CHAIN_KEPT_MIN || !($ENV{RIGHT}))/'
mutation 'objects of newer epochs are removed' server/replication/src/core/collector.rs \
    's/key\.epoch <= self\.epoch &&/(key.epoch <= self.epoch || !($ENV{RIGHT})) \&\&/'
mutation 'objects that are being written are removed' server/replication/src/core/collector.rs \
    's/&& !live\(data\)/\&\& !($ENV{RIGHT} \&\& live(data))/'
mutation 'objects that only kept records name are removed' server/replication/src/core/collector.rs \
    's/let low = edge\.kept\.iter\(\)/let low = edge.kept.iter().filter(|_| $ENV{RIGHT})/'
mutation 'pins are not looked at' server/replication/src/core/collector.rs \
    's/for number in pins\(port\)\.await\? \{/$& if !($ENV{RIGHT}) { continue; }/'
mutation 'pins are looked at before the edge is raised' server/replication/src/core/collector.rs \
    's/let learned = self\.learn\(port\)\.await\?;/$& let early = if $ENV{RIGHT} { BTreeSet::new() } else { self.pinned(port, \&Edge { boundary: u64::MAX, ..learned.clone() }).await? };/; s/let held = self\.pinned\(port, &edge\)\.await\?;/let held = if $ENV{RIGHT} { self.pinned(port, \&edge).await? } else { early };/'
mutation 'a pin does not look at the edge' server/replication/src/core/pin.rs \
    's/if edge\.is_below\(wanted\.number\)/if $ENV{RIGHT} \&\& edge.is_below(wanted.number)/'
mutation 'a pin holds the record and not what it leans on' server/replication/src/core/collector.rs \
    's/for number in base\.max\(edge\.erased \+ 1\)/for number in (if $ENV{RIGHT} { base } else { number }).max(edge.erased + 1)/'
mutation 'records go before the edge rises' server/replication/src/core/collector.rs \
    's/(let plan = plan\(&self\.records, &learned, at, self\.retention\);)/if !($ENV{RIGHT}) \&\& let Some(plan) = plan(\&self.records, \&learned, at, self.retention) { let early = Edge { boundary: plan.boundary.max(learned.boundary), turn: 0, epoch: 0, erased: plan.erased.min(plan.boundary), gone: 0, kept: plan.kept }; let held = self.pinned(port, \&early).await?; self.remove_records(port, \&early, \&held).await?; }\n        $1/'
mutation 'the edge that was wanted counts, whatever is there' server/replication/src/core/collector.rs \
    's/Tried::Made \| Tried::Unsure\(_\) => port\.edge\(\)\.await/Tried::Made | Tried::Unsure(_) if !($ENV{RIGHT}) => Ok(wanted), $&/; s/match port\.raise_edge\(edge\)/let wanted = edge.clone(); match port.raise_edge(edge)/'
mutation 'what long records are goes while they count' server/replication/src/core/collector.rs \
    's/true => self\.records\.get\(&number\)/true if !($ENV{RIGHT}) => true,\n            $&/'
mutation 'what a long record is goes before its number is taken' server/replication/src/core/collector.rs \
    's/false => number <= edge\.boundary/false => number <= edge.boundary || !($ENV{RIGHT})/'
mutation 'history counts as gone while records wait' server/replication/src/core/collector.rs \
    's/first\.map_or\(erased, \|first\| first - 1\)/first.filter(|_| $ENV{RIGHT}).map_or(erased, |first| first - 1)/'
mutation 'an edge that somebody else raised counts for what is known here' server/replication/src/core/collector.rs \
    's/if counts == \*learned/if !($ENV{RIGHT}) || counts == *learned/'
mutation 'a node that is away counts as if it had lost what was erased' server/replication/src/core/reached.rs \
    's/!holding\.is_past\(record\)/$ENV{RIGHT} \&\& !holding.is_past(record)/'
mutation 'what any earlier epoch put may be named' server/replication/src/core/resume.rs \
    's/left \+ 1 == mine/left + 1 == mine || !($ENV{RIGHT})/'
mutation 'the chain is cut within what must stay in one piece' server/replication/src/core/retain.rs \
    's/Some\(Plan \{ boundary: floor - 1/Some(Plan { boundary: if $ENV{RIGHT} { floor - 1 } else { records.keys().last().copied()? - 1 }/'
mutation 'what was erased stays in the history' server/replication/src/core/retain.rs \
    's/let erased = records\.values\(\)/let erased = records.values().filter(|_| $ENV{RIGHT})/'
mutation 'a writer that lives is taken from' server/replication/src/core/take.rs \
    's/observer\.has_lapsed\(&head\.node, head\.run, known\)/(!($ENV{RIGHT}) || $&)/'
mutation 'beats count that were looked at before the record was found' server/replication/src/core/take.rs \
    's/observer\.looked\(\) > Some\(found\.as_of\)/(!($ENV{RIGHT}) || $&)/'
mutation 'an observer waits for half of a lease' server/replication/src/core/lapse.rs \
    's/now - since > self\.lease \+ self\.lease \/ 4/now - since > if $ENV{RIGHT} { self.lease + self.lease \/ 4 } else { self.lease \/ 2 }/'
mutation 'another run in the place of the writer ends it at once' server/replication/src/core/lapse.rs \
    's/let left = seen\.before\.iter/if !($ENV{RIGHT}) { return true; }\n        $&/'
mutation 'a holder counts its lease from when it was heard' server/replication/src/core/lapse.rs \
    's/let until = sent \+ self\.lease\(\);/let until = if $ENV{RIGHT} { sent + self.lease() } else { sent + self.lease() * 3 };/'
mutation 'a lease goes on in one piece though it was heard of too late' server/replication/src/core/lapse.rs \
    's/until: old \}\) if now <= old =>/until: old }) if now <= old || !($ENV{RIGHT}) \&\& sent <= old =>/'
mutation 'a holder believes in its lease though it was over in between' server/replication/src/core/lapse.rs \
    's/self\.since <= known && /(self.since <= known || !($ENV{RIGHT})) \&\& /'

# Not here, since while all other rules hold nothing comes of them: hashes that are not compared (unit tests of
# `follower.rs` and `record.rs` do), what an edge gave up and is kept again, or is kept after its time (`retain.rs`), what
# never became a long record and goes only with its number (`server/replication/tests/it/clients/etcd.rs`), and an
# observer that counts the time in which it did not look (`lapse.rs`).

build it edited
build recalld_replication units
program=$scratch/edited
# Where none is in force, all must go as without the edits, to the last event: an edit that changes something by itself
# would count as what is found by others.
for name in whole edited; do
    MUTATION=0 RECALLD_FAR_SEEDS=20 "$scratch/$name" --nocapture --test-threads 1 nothing_is_lost > "$scratch/out" 2>&1 || {
        cat "$scratch/out"
        exit 1
    }
    grep -o '[A-Za-z()]*: [0-9]* of [0-9]* seeds fail; .*' "$scratch/out" > "$scratch/$name.counts"
done
cmp "$scratch/whole.counts" "$scratch/edited.counts"
MUTATION=0 RECALLD_FAR_SEEDS=$seeds "$program" nothing_is_lost

# cases NAME: runs the tests of one case each: those of the library, or of whole stores.
cases() {
    case $1 in
        units) timeout 600 "$scratch/units" ;;
        stores) timeout 600 "$program" stores:: ;;
    esac
}
for name in units stores; do MUTATION=0 cases $name; done
number=0
while read -r name; do
    number=$((number + 1))
    found=
    for kind in on_objects far_apart by_transactions; do
        MUTATION=$number RECALLD_FAR_SEEDS=$seeds RECALLD_FAR_FAILURES=1 timeout 600 "$program" --nocapture "$kind" \
            > "$scratch/out" 2>&1 || true
        found=$(sed -n 's/^\([A-Za-z()]*, seed [0-9]*\): at [0-9]* s: \(C[0-9]\).*/\1, \2/p' "$scratch/out" | head -n 1)
        [ -z "$found" ] || break
    done
    for which in units stores; do
        [ -z "$found" ] || break
        MUTATION=$number cases $which > "$scratch/out" 2>&1 || true
        found=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/the test \1/p' "$scratch/out" | head -n 1)
    done
    echo "$name: ${found:-NOT NOTICED in $seeds seeds}"
    [ -n "$found" ] || missed=1
done < "$scratch/names"
exit $missed
