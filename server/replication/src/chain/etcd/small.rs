//! View of etcd as a store of small objects: the start-up probe tests the storage of record logs through the interface
//! of any object store.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::client::{Client, base64, bytes_of, key_of, prefix_end, range_of};
use crate::counts::Op;
use crate::names::Key;
use crate::objects::{About, Away, Objects, Tried};

/// Small objects in etcd.
#[derive(Debug)]
pub struct EtcdObjects {
    client: Arc<Client>,
}

impl EtcdObjects {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    fn key(&self, key: &Key) -> String {
        self.client.key(&key.to_string())
    }

    fn about(&self, pair: &Value) -> Option<About> {
        let key = Key::parse(self.client.name_of(&key_of(pair)?)?)?;
        Some(About { key, bytes: bytes_of(pair)?.len() as u64, age_s: 0 })
    }
}

impl Objects for EtcdObjects {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let body = json!({"key": self.key(key), "value": base64(bytes)});
        self.client.again(Op::Put, "kv/put", &body).map(drop)
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let key = self.key(key);
        let txn = json!({
            "compare": [{"key": key, "target": "CREATE", "create_revision": "0", "result": "EQUAL"}],
            "success": [{"request_put": {"key": key, "value": base64(bytes)}}],
            "failure": [{"request_range": {"key": key, "keys_only": true}}],
        });
        match self.client.once(Op::Create, "kv/txn", &txn) {
            Ok(answer) if answer["succeeded"] == true => Tried::Made,
            Ok(answer) if range_of(&answer, 0).is_null() => Tried::Unsure("it is not there".into()),
            Ok(_) => Tried::Unsure("there is one already".into()),
            Err(fault) => fault.into(),
        }
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let answer = self.client.again(Op::Get, "kv/range", &json!({"key": self.key(key)}))?;
        let Some(mut bytes) = bytes_of(&answer["kvs"][0]) else { return Ok(None) };
        if let Some(range) = range {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let (from, to) = (place(range.start), place(range.end));
            bytes = bytes[from..to.max(from)].to_vec();
        }
        if bytes.len() as u64 > most {
            let why = format!("{key} has more than {most} bytes");
            return Err(Away { why, may_pass: false });
        }
        Ok(Some(bytes))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let answer = self.client.again(Op::Head, "kv/range", &json!({"key": self.key(key)}))?;
        Ok(self.about(&answer["kvs"][0]))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        // A key with a zero byte appended is the next key in order.
        let from = after.map_or_else(|| prefix.to_owned(), |key| format!("{key}\0"));
        let body = json!({
            "key": self.client.key(&from), "range_end": self.client.key(&prefix_end(prefix)),
            "limit": most.to_string(), "sort_order": "ASCEND", "sort_target": "KEY",
        });
        let answer = self.client.again(Op::List, "kv/range", &body)?;
        let pairs = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(pairs.iter().filter_map(|pair| self.about(pair)).collect())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        for key in keys {
            self.client.again(Op::Remove, "kv/deleterange", &json!({"key": self.key(key)}))?;
        }
        Ok(())
    }
}
