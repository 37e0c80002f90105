//! Entitlements: tools outside a plan or a credential are unreachable by any route, and each denial is in the ledger.

use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::{House, api, call, entries, given, mcp};
use support_wire::mcp_client;
use support_wire::wire::{self, Ask};

fn words(entry: &Value) -> [&str; 3] {
    ["decision", "rule", "outcome"].map(|field| entry[field].as_str().unwrap())
}

#[test]
fn the_free_lane_is_its_three_tools_and_no_other_way_to_the_same() {
    let house = House::quick();
    let (free, team) = (house.tenant("free-lane", "free"), house.tenant("acme", "team"));
    let (service, _scratch) = house.serve(&[]);
    let ask = |bearer: &str, method: &str, params: Value| {
        wire::ask(service.hosted(), &mcp(bearer, method, &params)).json()
    };
    let stored = given(&service, &team, "brain_remember", &json!({"text": "The gate is green."}));
    let uri = format!("memory://item/{}", stored["item"]["id"].as_str().unwrap());
    let completing = json!({
        "ref": {"type": "ref/resource", "uri": "memory://item/{id}"},
        "argument": {"name": "id", "value": ""},
    });
    for (bearer, has) in [(&team, true), (&free, false)] {
        let listed = ask(bearer, "resources/list", json!({}));
        assert_eq!(listed["result"]["resources"].as_array().unwrap().is_empty(), !has);
        let templates = ask(bearer, "resources/templates/list", json!({}));
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
        assert_eq!(templates.is_empty(), !has);
        for uri in [&*uri, "memory://brief/today"] {
            let read = ask(bearer, "resources/read", json!({"uri": uri}));
            assert_eq!(read["error"]["code"] == -32002, !has, "{read}");
        }
        let values = ask(bearer, "completion/complete", completing.clone());
        let values = values["result"]["completion"]["values"].as_array().unwrap();
        assert_eq!(values.is_empty(), !has);
        let stats = api(&service, service.hosted(), bearer, Ask::get("/stats"));
        assert_eq!(stats.status, if has { 200 } else { 403 }, "{}", stats.text());
        let recall = Ask::post("/recall", &json!({"query": "Which colour has the gate?"}));
        assert_eq!(api(&service, service.hosted(), bearer, recall).status, 200);
    }
    let data = service.data().to_owned();
    let refused = entries(&data, "free-lane", "resources/read");
    assert_eq!(refused.len(), 2, "{refused:?}");
    for entry in refused.iter().chain(&entries(&data, "free-lane", "GET /stats")) {
        assert_eq!(words(entry), ["deny", "fixed/not-entitled", "refused"], "{entry}");
    }
}

#[test]
fn each_refusal_has_its_entry_with_what_refused_it() {
    let house = House::quick();
    let (free, small) = (house.tenant("free-lane", "free"), house.tenant("small", "team"));
    house.control.set_quota("small", Some(1)).unwrap();
    let recaller = house.bearer("small", Kind::Bearer, &["brain:proxy"]);
    let (service, _scratch) = house.serve(&[]);
    let question = json!({"query": "anything?"});
    let faulty = Ask::post("/recall", &json!({"limit": 3}));
    assert_eq!(api(&service, service.hosted(), &small, faulty).status, 422);
    given(&service, &small, "brain_recall", &question);
    call(&service, &small, "brain_recall", &question);
    call(&service, &free, "brain_remember", &json!({"text": "x"}));
    let read = json!({"uri": "memory://brief/today"});
    let read = wire::ask(service.hosted(), &mcp(&recaller, "resources/read", &read));
    assert_eq!(read.json()["error"]["code"], -32002, "{}", read.text());
    let data = service.data().to_owned();
    let of = |workspace, tool| entries(&data, workspace, tool);
    let recalls = of("small", "brain_recall");
    let recalls: Vec<[&str; 3]> = recalls.iter().map(words).collect();
    assert_eq!(recalls[0][2], "done");
    assert_eq!(recalls[1..], [["deny", "fixed/quota", "refused"]]);
    for (workspace, tool, wanted) in [
        ("small", "POST /recall", ["allow", "scope", "refused"]),
        ("small", "resources/read", ["deny", "fixed/not-entitled", "refused"]),
        ("free-lane", "brain_remember", ["deny", "fixed/unverified", "refused"]),
    ] {
        let found = of(workspace, tool);
        let found: Vec<[&str; 3]> = found.iter().map(words).collect();
        assert_eq!(found, [wanted], "{tool}");
    }
}

#[test]
fn a_batch_is_no_way_around_the_rate() {
    const ASKED: usize = 32;
    let house = House::new();
    let slow = house.tenant("slow", "slow");
    let settings = "[plans.slow]\nfamilies = [\"recall\"]\nscopes = [\"brain:proxy\"]\n\
                    rate_per_second = 1\nburst = 2\n";
    let (service, _scratch) = house.serve_with(settings);
    let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = Value::Array((0..ASKED).map(ping).collect());
    let ask = mcp_client::ask(&batch).header("Authorization", &format!("Bearer {slow}"));
    let began = std::time::Instant::now();
    let answer = wire::ask(service.hosted(), &ask);
    let more = usize::try_from(began.elapsed().as_secs()).unwrap();
    let answers = answer.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), ASKED);
    let refused = |one: &&Value| one["error"]["data"]["reason"] == "too_many_requests";
    let refused = answers.iter().filter(refused).count();
    // A burst of two, and one call for each elapsed second.
    assert!((ASKED - 2 - more - 1..=ASKED - 2).contains(&refused), "{refused} in {more} s");
}

#[test]
fn a_body_beyond_what_a_tenant_may_send_is_not_taken_whoever_sends_it() {
    let house = House::quick();
    let bearer = house.tenant("acme", "team");
    let (service, _scratch) = house.serve(&[]);
    for bearer in ["wrong", &bearer] {
        let ask = Ask::new("POST", "/mcp")
            .header("Authorization", &format!("Bearer {bearer}"))
            .header("Content-Length", "8388608");
        let answer = wire::ask(service.hosted(), &ask);
        let said = (answer.status, answer.header("Connection"));
        assert_eq!(said, (413, Some("close")), "{}", answer.text());
    }
}
