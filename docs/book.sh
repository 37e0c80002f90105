#!/usr/bin/env bash
# Makes a site of the documents with mdBook, in target/book/html. Ends with 77 where there is no mdBook (`cargo install mdbook`).
#   docs/book.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v mdbook >/dev/null; then
    echo "!!! SKIPPED: there is no mdbook; cargo install mdbook" >&2
    exit 77
fi
book="${CARGO_TARGET_DIR:-target}/book"
rm -rf "$book"
mkdir -p "$book/src"
cp docs/book.toml "$book/book.toml"
# mdBook looks for its contents at the top of its pages, whose links are then from there.
sed -E 's#\]\(\.\./#](#; t; s#\]\(([a-z])#](docs/\1#' docs/SUMMARY.md >"$book/src/SUMMARY.md"
# Pages and pictures, and what they link to that is no page.
git ls-files -z -- '*.md' '*.png' '*.toml' '*.py' '*.sh' LICENSE packaging/README.Debian format-spec .ci | grep -zv '^docs/SUMMARY.md$' |
    xargs -0 cp --parents -t "$book/src"
mdbook build "$book"
echo "target/book/html/index.html"
