//! A minimal etcd behind its JSON gateway: only the requests that the client sends.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::wire::{Acts, Answer, Seen, Server};

/// A key's value and its lease.
#[derive(Debug, Clone)]
struct Pair {
    value: String,
    lease: String,
}

/// Keys and leases.
#[derive(Debug, Default)]
pub(crate) struct TinyEtcd {
    pairs: BTreeMap<Vec<u8>, Pair>,
    leases: Vec<String>,
    /// Required token, if there are users.
    token: Option<String>,
}

pub(crate) type Etcds = Server<TinyEtcd>;

impl Etcds {
    /// Expires all leases and removes the keys attached to them.
    pub(crate) fn end_leases(&self) {
        self.with(|etcd| {
            etcd.leases.clear();
            etcd.pairs.retain(|_, pair| pair.lease == "0");
        });
    }

    /// Values of all keys.
    pub(crate) fn values(&self) -> Vec<Vec<u8>> {
        self.with(|etcd| etcd.pairs.values().map(|pair| bytes(&json!(pair.value))).collect())
    }

    /// Requires this token from now on.
    pub(crate) fn wants(&self, token: &str) {
        self.with(|etcd| etcd.token = Some(token.into()));
    }

    /// Paths of the requests since the last call.
    pub(crate) fn paths(&self) -> Vec<String> {
        let path = |seen: Seen| seen.url.path().trim_start_matches("/v3/").to_owned();
        self.seen().into_iter().map(path).collect()
    }
}

impl Acts for TinyEtcd {
    fn act(&mut self, seen: &Seen) -> Answer {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let answer = match seen.url.path() {
            "/v3/auth/authenticate" => {
                if body["name"] != "box" || body["password"] != "tiny-password" {
                    return Self::error(400, "3");
                }
                json!({"token": self.token})
            }
            _ if self.token.is_some()
                && self.token.as_ref() != seen.headers.get("authorization") =>
            {
                return Self::error(401, "16");
            }
            "/v3/kv/txn" => self.transact(&body),
            "/v3/kv/range" => self.range(&body),
            "/v3/kv/put" => self.put(&body),
            "/v3/kv/deleterange" => self.remove(&body),
            "/v3/lease/grant" => {
                let id = (self.leases.len() + 100 + self.pairs.len()).to_string();
                self.leases.push(id.clone());
                json!({"ID": id, "TTL": body["TTL"]})
            }
            "/v3/lease/keepalive" => {
                let is_there = self.leases.iter().any(|id| body["ID"] == id.as_str());
                if is_there { json!({"result": {"TTL": "5"}}) } else { json!({"result": {}}) }
            }
            _ => return Self::error(404, "5"),
        };
        Answer::new(200, answer.to_string().into())
    }

    fn error(status: u16, code: &str) -> Answer {
        let code: u64 = code.parse().unwrap_or(14);
        let body = json!({"error": "told to", "code": code});
        Answer { status, headers: Vec::new(), body: body.to_string().into() }
    }
}

impl TinyEtcd {
    fn transact(&mut self, body: &Value) -> Value {
        let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        let succeeded = list("compare").iter().all(|compare| self.holds(compare));
        let acts = list(if succeeded { "success" } else { "failure" });
        let mut responses = Vec::new();
        for act in acts {
            let (name, body) = act.as_object().unwrap().iter().next().unwrap();
            responses.push(match name.as_str() {
                "request_put" => json!({"response_put": self.put(body)}),
                "request_range" => json!({"response_range": self.range(body)}),
                "request_delete_range" => json!({"response_delete_range": self.remove(body)}),
                other => panic!("{other}"),
            });
        }
        if succeeded {
            json!({"succeeded": true, "responses": responses})
        } else {
            // Etcd omits fields that are false.
            json!({"responses": responses})
        }
    }

    fn holds(&self, compare: &Value) -> bool {
        let found = self.pairs.get(&bytes(&compare["key"]));
        match compare["target"].as_str().unwrap() {
            "CREATE" => found.is_none() && compare["create_revision"] == "0",
            "LEASE" => found.is_some_and(|pair| compare["lease"] == pair.lease.as_str()),
            "VALUE" => found.is_some_and(|pair| {
                bytes(&Value::from(pair.value.as_str())) < bytes(&compare["value"])
            }),
            other => panic!("{other}"),
        }
    }

    fn put(&mut self, body: &Value) -> Value {
        let lease = body["lease"].as_str().unwrap_or("0").to_owned();
        assert!(lease == "0" || self.leases.contains(&lease));
        let value = body["value"].as_str().unwrap().to_owned();
        self.pairs.insert(bytes(&body["key"]), Pair { value, lease });
        json!({})
    }

    fn keys(&self, body: &Value) -> Vec<Vec<u8>> {
        let from = bytes(&body["key"]);
        if body["range_end"].is_null() {
            return if self.pairs.contains_key(&from) { vec![from] } else { vec![] };
        }
        let to = bytes(&body["range_end"]);
        self.pairs.range(from..to).map(|(key, _)| key.clone()).collect()
    }

    fn range(&self, body: &Value) -> Value {
        let limit = body["limit"].as_str().map_or(usize::MAX, |text| text.parse().unwrap());
        let keys = self.keys(body);
        let pair = |key: &Vec<u8>| {
            let pair = &self.pairs[key];
            let value = if body["keys_only"] == true { "" } else { &pair.value };
            json!({"key": base64(key), "value": value, "lease": pair.lease})
        };
        if keys.is_empty() {
            return json!({});
        }
        json!({"kvs": keys.iter().take(limit).map(pair).collect::<Vec<_>>()})
    }

    fn remove(&mut self, body: &Value) -> Value {
        for key in self.keys(body) {
            self.pairs.remove(&key);
        }
        json!({})
    }
}

fn bytes(text: &Value) -> Vec<u8> {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap()
}

fn base64(bytes: &[u8]) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.encode(bytes)
}
