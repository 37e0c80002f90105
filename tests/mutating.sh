# What scripts have in common that break sources on purpose, in a scratch copy, to see whether tests notice: they source
# this in the repository's root. All edits are made at once and built once; the variable MUTATION, a number, chooses the
# one that is in force.

# begin NAME: a scratch folder of that name, with a copy of the sources in $scratch/copy.
begin() {
    scratch=${CARGO_TARGET_DIR:-$PWD/target}/$1
    missed=0
    rm -rf "$scratch/copy"
    mkdir -p "$scratch/copy"
    : > "$scratch/names"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$scratch/copy"
}

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
