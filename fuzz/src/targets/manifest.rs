//! A manifest with a correct hash and arbitrary fields: an error or an answer, never a panic.

use std::sync::OnceLock;

use crate::memory::Files;
use serde_json::{Value, json};

/// Stores of both versions, each with its manifest's name and fields.
fn good() -> &'static Vec<(Files, String, Value)> {
    static GOOD: OnceLock<Vec<(Files, String, Value)>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let stores = ["v1-small", "v2-small", "v2-torn"].map(crate::store::golden);
        let stores = stores.into_iter().map(|files| {
            let name = files.keys().find(|name| name.starts_with("manifest-"));
            let name = name.expect("a manifest").clone();
            let line = files[&name].split(|&byte| byte == b'\n').next().expect("a line");
            let fields = serde_json::from_slice(line).expect("JSON");
            (files, name, fields)
        });
        stores.collect()
    })
}

/// Returns the value at position `count` in a depth-first walk of `value`, itself first.
fn nth<'a>(value: &'a mut Value, count: &mut usize) -> Option<&'a mut Value> {
    if *count == 0 {
        return Some(value);
    }
    *count -= 1;
    match value {
        Value::Array(members) => members.iter_mut().find_map(|member| nth(member, count)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, count)),
        _ => None,
    }
}

/// Changes one value; four bytes select the value and the change.
fn change(fields: &mut Value, [which, how, low, high]: [u8; 4]) {
    let Some(value) = nth(fields, &mut usize::from(which)) else { return };
    let small = u64::from(u16::from_le_bytes([low, high]));
    let is_there = value.as_u64().unwrap_or_default();
    *value = match how % 16 {
        0 => Value::Null,
        1 => json!(small),
        2 => json!(is_there.wrapping_add(small)),
        3 => json!(is_there.wrapping_sub(small)),
        4 => json!(1u64 << (low % 64)),
        5 => json!((1u64 << (low % 64)) - 1),
        6 => json!(-i64::from(low)),
        7 => json!(f64::from(low) / 2.0),
        8 => json!([]),
        9 => json!({}),
        10 => json!(""),
        11 => json!("0".repeat(usize::from(low))),
        12 => json!([value.clone(), value.clone()]),
        13 => json!(vec![small; usize::from(high) + 1]),
        14 => json!([format!("{small:032x}"), format!("{:032x}", small + 1)]),
        _ => match value {
            Value::Array(members) => {
                members.truncate(usize::from(low));
                value.clone()
            }
            Value::Object(map) => {
                let keys: Vec<String> = map.keys().cloned().collect();
                keys.get(usize::from(low) % keys.len().max(1)).map(|key| map.remove(key));
                value.clone()
            }
            _ => Value::Bool(true),
        },
    };
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&which, data)) = data.split_first() else { return };
    let stores = good();
    let (files, name, fields) = &stores[usize::from(which & 0x7f) % stores.len()];
    let mut files = files.clone();
    let line = if which & 0x80 == 0 {
        let mut fields = fields.clone();
        for four in data.as_chunks().0 {
            change(&mut fields, *four);
        }
        fields.to_string().into_bytes()
    } else {
        crate::patched(fields.to_string().as_bytes(), data)
    };
    files.insert(name.clone(), crate::reseal::manifest(&line));
    if let Ok(store) = crate::store::open(files) {
        crate::store::read_all(&store);
        crate::store::rewrite_all(&store);
        crate::store::read_all(&store);
    }
}
