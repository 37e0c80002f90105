//! Tables of the pages against constants of the server.

use support_engine::pages::{page, root, table, value};

use crate::spec::pages::server_source;

macro_rules! values {
    ($home:ident: $($name:ident),* $(,)?) => { [$((stringify!($name), $home::$name as u64)),*] };
}

/// A constant's number in a source file of the server, by its text: such as `65_536 + 16`.
fn constant(file: &str, name: &str) -> u64 {
    let starts = ["usize", "u64"].map(|kind| format!("const {name}: {kind} = "));
    let text = server_source(file);
    let after = |line| starts.iter().find_map(|start| str::split_once(line, start.as_str()));
    let line = text.lines().find_map(after).expect(name).1;
    let number = |term: &str| term.replace('_', "").parse::<u64>().expect(name);
    let terms = line.trim_end_matches(';').split(" + ");
    terms
        .map(|term| match term.split_once(" << ") {
            Some((digits, bits)) => number(digits) << number(bits),
            None => number(term),
        })
        .sum()
}

#[test]
fn limits_around_the_store_are_those_of_the_page() {
    let coded = [
        ("BACKUPS_MAX", "store-admin/src/known.rs"),
        ("PENDING_MAX", "store-admin/src/known.rs"),
        ("ERASE_ITEMS_MAX", "store-admin/src/limits.rs"),
        ("PUBLIC_KEYS_MAX", "auth/src/former.rs"),
        ("FILES_MAX", "store-admin/src/catalogue.rs"),
        ("WORKSPACES_MAX", "store-admin/src/catalogue.rs"),
    ];
    let coded = coded.map(|(name, file)| (name.to_owned(), constant(file, name)));
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| kept there | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_a_model_are_those_of_the_page() {
    let kept = ["PACKED_FILES_MAX", "PACKED_BYTES_MAX", "FREE_BYTES_MIN", "SOURCES_MAX"];
    let kept = kept.map(|name| (name.to_owned(), constant("embedding/src/model/shelf.rs", name)));
    let config =
        std::fs::read_to_string(root().join("encoder/src/config.rs")).expect("it is there");
    let ranges = config.lines().filter_map(|line| {
        let (name, range) =
            line.strip_prefix("const ")?.split_once(": RangeInclusive<usize> = ")?;
        let (_, most) = range.trim_end_matches(';').split_once("..=")?;
        Some((name.to_owned(), most.replace('_', "").parse::<u64>().expect(name)))
    });
    let coded: Vec<(String, u64)> = ranges.chain(kept).collect();
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of a model | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_an_inflow_are_those_of_the_page() {
    let coded = [
        ("PARCEL_TEXTS_MAX".to_owned(), recalld_embedding::inflow::PARCEL_TEXTS_MAX as u64),
        ("TEXTS_LOST_MAX".to_owned(), recalld_embedding::inflow::TEXTS_LOST_MAX as u64),
    ];
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of an inflow | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_an_import_are_those_of_the_page() {
    let coded = [
        ("LINES_MAX".to_owned(), u64::from(recalld_interchange::lines::LINES_MAX)),
        ("LINE_BYTES_MAX".to_owned(), recalld_interchange::lines::LINE_BYTES_MAX as u64),
    ];
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of an import | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_the_control_store_are_those_of_the_page() {
    use recalld_metastore as control;

    let coded = values![
        control:
        CACHE_BYTES_MAX,
        RECORD_BYTES_MAX,
        TENANTS_MAX,
        ANCHORS_APART_MAX,
        CREDENTIALS_EACH_MAX,
        CLIENTS_MAX,
        CODES_MAX,
        GRANTS_EACH_MAX,
        REVOKED_MAX,
        KEYS_PUBLISHED_MAX,
        BLOCK_CALLS_MAX,
        BLOCKS_OUT_MAX,
        BLOCKS_OVER_MAX,
        SWEPT_TOGETHER_MAX,
        LISTED_MAX,
    ];
    let coded = coded.map(|(name, value)| (name.to_owned(), value));
    let written: Vec<(String, u64)> =
        table(&page("limits.md"), "| of the control store | value | why |")
            .into_iter()
            .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
            .collect();
    assert_eq!(written, coded);
}

#[test]
fn tables_of_the_control_store_are_those_of_the_page() {
    use recalld_metastore::{ControlError, TABLE_NAMES, check_record};
    let written = table(&page("control.md"), "| table | number | key |");
    let numbered: Vec<(String, String)> =
        written.iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect();
    let coded = TABLE_NAMES.map(|(name, number)| (name.to_owned(), number.to_string()));
    let last = ("expiries".to_owned(), String::new());
    assert_eq!(numbered, [&coded[..], &[last]].concat());
    for (name, _) in TABLE_NAMES {
        assert!(matches!(check_record(name, b""), Err(ControlError::Damaged { .. })), "{name}");
    }
}
