//! Tables of the pages compared with constants of the server.

use support_engine::pages::{page, table};

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
