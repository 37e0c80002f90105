//! Records of the metastore: any bytes are rejected, or are stable when written again.

use recalld_metastore::{TABLE_NAMES, check_record};

/// Runs one input: the number of a table, then JSON, once with a correct checksum and once unchanged.
pub fn run(data: &[u8]) {
    let Some((number, json)) = data.split_first() else { return };
    let (table, _) = TABLE_NAMES[usize::from(*number) % TABLE_NAMES.len()];
    let record = [&crc32c::crc32c(json).to_le_bytes()[..], json].concat();
    for bytes in [&record[..], json] {
        if let Err(fault) = check_record(table, bytes) {
            let told = fault.to_string();
            assert!(told.contains(table) && !told.contains("written again"), "{told}");
        }
    }
}
