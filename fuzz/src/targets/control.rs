//! Records of the control store: any bytes are refused, or can be written again and stay what they are.

use recalld_metastore::{TABLE_NAMES, check_record};

/// One input: the number of a table, then JSON, which gets a right checksum; and as it came.
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
