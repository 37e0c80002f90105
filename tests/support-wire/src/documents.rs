//! Real documents of several kinds, written to a folder, and the project's own specification.

use std::path::{Path, PathBuf};

use crate::service::write;

/// Readable files of [`write_all`].
pub const READABLE: u64 = 8;
/// Files of [`write_all`] that must be skipped.
pub const UNREADABLE: u64 = 2;

/// Markdown with links to neighbouring documents.
pub const README: &str = "\
# The lighthouse keeper's handbook

How the lamp of Skerry Point is kept. Start with the [decisions](decisions.md), then read the
[signal codes](reference/signals.rst) and the [visitor page](visitors.html).

## Daily round

At dusk the keeper trims the wick, polishes the Fresnel lens and winds the clockwork that turns it.

## Stores

Paraffin is kept in the north shed. The log of deliveries is in [stores.txt](stores.txt).
";

/// Markdown whose sections are decisions.
pub const DECISIONS: &str = "\
# Decisions

Back to the [handbook](README.md).

## Lamp fuel

We chose paraffin over electricity because the undersea cable fails in every winter storm.

## Fog horn

The fog horn sounds twice a minute. A diaphone was ruled out: its compressor needs two men.
";

/// reStructuredText.
pub const SIGNALS: &str = "\
Signal codes
============

Flag signals
------------

A yellow flag above a black ball asks the supply boat to wait beyond the reef.

Light signals
-------------

Three short flashes tell the harbour master that the keeper is ill. See `the decisions
<../decisions.md>`_ for why there is no radio.
";

/// HTML.
pub const VISITORS: &str = "\
<!DOCTYPE html>
<html><head><title>Visiting Skerry Point</title></head>
<body><h1>Visiting</h1>
<p>Visitors cross by ferry on Wednesdays; the causeway floods &amp; must not be walked.</p>
<h2>Children</h2>
<p>Children under seven may not climb the spiral staircase.</p>
</body></html>
";

/// Rust.
pub const TIDES_RS: &str = "\
//! Tide tables of the reef.

/// Height of the tide in centimetres, by the rule of twelfths.
pub fn tide_height(low: i32, high: i32, hours_since_low: u32) -> i32 {
    const TWELFTHS: [i32; 7] = [0, 1, 3, 6, 9, 11, 12];
    low + (high - low) * TWELFTHS[hours_since_low.min(6) as usize] / 12
}

/// Whether the supply boat clears the reef.
pub fn boat_clears_reef(height: i32, draught: i32) -> bool {
    height > draught + 50
}
";

/// Python.
pub const LAMP_PY: &str = "\
\"\"\"The lamp's clockwork.\"\"\"


class Clockwork:
    \"\"\"Turns the lens once in thirty seconds.\"\"\"

    def wind(self, turns):
        \"\"\"Winds the spring; more than forty turns would break it.\"\"\"
        if turns > 40:
            raise ValueError(\"the spring breaks\")
        self.turns = turns
";

/// Plain text.
pub const STORES: &str = "\
Deliveries to the north shed

12 March: nine barrels of paraffin, two of salted herring.

4 April: no delivery, the swell was too high for the supply boat.
";

/// Plain text without two equal paragraphs.
pub fn weather_log() -> String {
    let winds = ["north", "east", "south", "west"];
    let day = |day: usize| {
        format!(
            "Day {day}: wind from the {} at {} knots, glass at {} millibars, {} ships passed.\n\n",
            winds[day % 4],
            day * 7 % 60,
            980 + day * 13 % 50,
            day * 31 % 17,
        )
    };
    (1..=60).map(day).collect()
}

/// Plain text of more than 64 KiB with few words, which is fast to embed.
pub fn code_book() -> String {
    let page = |page: usize| {
        let group = |at: usize| char::from(b'a' + u8::try_from(at % 26).expect("below 26"));
        let code: String = (0..120).map(|at| group(at * page + at / 7)).collect();
        format!("Page {page} of the code book, in caf\u{e9} cipher:\n{code}\n\n")
    };
    (1..=420).map(page).collect()
}

/// Writes all documents, and two files that are no documents.
pub fn write_all(folder: &Path) {
    write(folder, "README.md", README);
    write(folder, "decisions.md", DECISIONS);
    write(folder, "reference/signals.rst", SIGNALS);
    write(folder, "visitors.html", VISITORS);
    write(folder, "src/tides.rs", TIDES_RS);
    write(folder, "src/lamp.py", LAMP_PY);
    write(folder, "stores.txt", STORES);
    write(folder, "weather.log", weather_log());
    write(folder, "lamp.tif", b"II*\0\x08\0\0\0");
    write(folder, "clockwork.bin", [0u8, 159, 146, 150, 0, 1, 2, 3].repeat(64));
}

/// Path of the format specification: real prose about this service.
///
/// # Panics
/// The specification is not at its place in the repository.
pub fn specification() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec");
    folder.canonicalize().expect("the repository has its format-spec folder")
}
