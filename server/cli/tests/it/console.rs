//! The console as seen by a browser and by an attacker (format-spec/console.md). `tests/campaigns/console.sh` tests its
//! pages in Chromium.

use std::sync::OnceLock;

use recalld_api::pipeline::{Target, routes};
use serde_json::{Value, json};
use support_wire::service::{Service, run, run_json, scratch, with_documents};
use support_wire::wire::{self, Answer, Ask};

const APP: &str = "https://app.example";
const CALL: &str = "/console/call";
const SESSION: &str = "/console/session";
const ADMIN: &str = "/console/admin";
const CHANGE: &str = "/console/change";
const TOKEN: &str = "x-recalld-console";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| with_documents(&["--allow-origin", APP]))
}

/// Adds the headers of a request from the console's page.
fn ours(ask: Ask) -> Ask {
    let origin = format!("http://{}", service().local());
    ask.header("Origin", &origin).header("Sec-Fetch-Site", "same-origin")
}

fn calling(tool: &str, arguments: Value) -> Ask {
    Ask::post(CALL, &json!({"tool": tool, "arguments": arguments}))
}

fn changing(tool: &str, arguments: Value) -> Ask {
    Ask::post(CHANGE, &json!({"tool": tool, "arguments": arguments}))
}

fn asked(ask: Ask) -> Answer {
    service().ask(&ours(ask))
}

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().unwrap_or_default().to_owned()
}

/// Paths of the console's files.
fn files() -> Vec<&'static str> {
    let rows = routes().filter(|route| matches!(route.target, Target::Asset(_)));
    rows.map(|route| route.path).filter(|path| path.starts_with("/console")).collect()
}

#[test]
fn its_files_are_on_the_local_listener_alone_and_their_headers_hold_browsers_to_them() {
    assert!(files().len() > 10);
    for path in files() {
        let answer = service().ask(&Ask::get(path));
        assert_eq!(answer.status, 200, "{path}");
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert!(!answer.body.is_empty() && answer.body.is_ascii(), "{path}");

        assert_eq!(service().ask(&Ask::new("HEAD", path)).status, 200, "{path}");
        let posted = service().ask(&Ask::post(path, &json!({})));
        assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
        assert_eq!(wire::ask(service().hosted(), &Ask::get(path)).status, 404, "{path}");
        for wrong in [("Origin", "https://evil.example"), ("Origin", APP), ("Host", "evil.example")]
        {
            let ask = Ask::get(path).header(wrong.0, wrong.1);
            assert_eq!(service().ask(&ask).status, 403, "{path} {wrong:?}");
        }
    }
    let page = service().ask(&Ask::get("/console"));
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    for path in ["/console/", "/console/nothing.js", "/console/../health", "/console/page/app.js"] {
        assert_eq!(service().ask(&Ask::get(path)).status, 404, "{path}");
    }
}

#[test]
fn its_page_has_nothing_inline_and_its_scripts_make_no_markup() {
    let text = |path: &str| service().ask(&Ask::get(path)).text();
    let page = text("/console");
    for never in [
        "<style",
        " style=",
        "javascript:",
        " onclick",
        " onload",
        "<script>",
        "<iframe",
        "http://",
        "https://",
    ] {
        // The icon's XML namespace is a URL that is never requested.
        let without_icon: String =
            page.lines().filter(|line| !line.contains("rel=\"icon\"")).collect();
        assert!(!without_icon.contains(never), "{never}");
    }
    let mut loaded: Vec<String> = Vec::new();
    let named = |text: &str, before: &str| -> Vec<String> {
        text.split(before)
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(str::to_owned)
            .collect()
    };
    loaded.extend(named(&page, "src=\""));
    loaded.extend(named(&page, "href=\"/").into_iter().map(|path| format!("/{path}")));
    for path in files().into_iter().filter(|path| path.ends_with(".js")) {
        let script = text(path);
        for never in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"style",
            "srcdoc",
            "DOMParser",
            "createContextualFragment",
        ] {
            assert!(!script.contains(never), "{path}: {never}");
        }
        loaded.extend(named(&script, " from \""));
    }
    assert!(loaded.len() > 30, "{loaded:?}");
    for path in &loaded {
        assert!(files().contains(&path.as_str()), "{path} is no file of the console");
    }
    for path in files().into_iter().filter(|path| *path != "/console") {
        assert!(loaded.iter().any(|loaded| loaded == path), "{path} is loaded by nobody");
    }
    let style = text("/console/style.css");
    assert!(!style.contains("url(") && !style.contains("@import"));
}

#[test]
fn a_page_of_ours_reads_by_the_tools_and_leaves_entries() {
    let stats = asked(calling("recall_stats", json!({})));
    assert_eq!(stats.status, 200, "{}", stats.text());
    assert_eq!(stats.header("cache-control"), Some("no-store"));
    assert_eq!(stats.header("x-content-type-options"), Some("nosniff"));
    assert!(stats.json()["memory_items"].as_u64().unwrap() > 0);
    let seq = stats.json()["receipt"]["seq"].as_u64().unwrap();

    let trail = asked(calling("audit_trail_tool", json!({"tool": "recall_stats"}))).json();
    let entry = trail["entries"].as_array().unwrap().iter().find(|entry| entry["seq"] == seq);
    let entry = entry.unwrap();
    assert_eq!((&entry["principal"], &entry["decision"]), (&json!("operator"), &json!("allow")));
    // Arguments are optional.
    assert_eq!(asked(Ask::post(CALL, &json!({"tool": "recall_stats"}))).status, 200);

    for (tool, arguments, status, why) in [
        ("brain_remember", json!({"text": "x"}), 403, "changes something"),
        ("forget_item_tool", json!({"item_id": "itm_1", "reason": "x"}), 403, "changes something"),
        ("recall_statz", json!({}), 404, "recall_stats"),
        ("retrieval_arbitrate_tool", json!({}), 422, "query"),
        ("retrieval_arbitrate_tool", json!({"query": "x", "limit": 1000}), 422, "limit"),
        ("get_item_tool", json!({"item_id": "itm_00000000000000000000000000"}), 404, "item_id"),
    ] {
        let answer = asked(calling(tool, arguments));
        assert_eq!(answer.status, status, "{tool}: {}", answer.text());
        assert!(detail(&answer).contains(why), "{tool}: {}", answer.text());
    }
    assert_eq!(asked(calling("recall_stats", json!([]))).status, 422);
    assert_eq!(asked(Ask::post(CALL, &json!([]))).status, 400);
    assert_eq!(asked(Ask::post(CALL, &json!({})).body(b"{".to_vec())).status, 400);
    let large = calling("retrieval_arbitrate_tool", json!({"query": "x".repeat(300_000)}));
    assert_eq!(asked(large).status, 413);
}

#[test]
fn whoever_is_no_page_of_ours_is_refused() {
    let own = format!("http://{}", service().local());
    let read = || calling("recall_stats", json!({}));
    for fields in [
        vec![],
        vec![("Sec-Fetch-Site", "none")],
        vec![("Sec-Fetch-Site", "same-site"), ("Origin", own.as_str())],
        vec![("Sec-Fetch-Site", "cross-site"), ("Origin", own.as_str())],
        vec![("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")],
        vec![("Origin", "https://evil.example")],
        vec![("Origin", "http://127.0.0.1:1")],
        vec![("Origin", "null")],
        vec![("Origin", APP)],
        vec![("Origin", APP), ("Sec-Fetch-Site", "same-origin")],
        vec![("Origin", own.as_str()), ("Host", "evil.example")],
    ] {
        for ask in [
            read(),
            Ask::post(SESSION, &json!({"bearer": service().credentials().bearer})),
            Ask::new("DELETE", SESSION),
            Ask::post(ADMIN, &json!({"act": "tenant list"})),
            changing("forget_item_tool", json!({"item_id": "itm_1", "reason": "x"})),
        ] {
            let answer = service().ask(&ask.headers(&fields));
            assert_eq!(answer.status, 403, "{fields:?}: {}", answer.text());
            assert!(
                answer.header("set-cookie").is_none()
                    && answer.header("access-control-allow-origin").is_none()
            );
        }
    }
    // Either header identifies a same-origin request. Content types that foreign forms can send are rejected.
    assert_eq!(service().ask(&read().header("Origin", &own)).status, 200);
    assert_eq!(service().ask(&read().header("Sec-Fetch-Site", "same-origin")).status, 200);
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
        "",
    ] {
        let ask = read().without("Content-Type").header("Content-Type", kind);
        assert_eq!(asked(ask).status, 415, "{kind}");
    }
    assert_eq!(asked(read().without("Content-Type")).status, 415);
    for path in [CALL, SESSION, ADMIN, CHANGE] {
        let preflight = Ask::new("OPTIONS", path)
            .header("Origin", APP)
            .header("Access-Control-Request-Method", "POST");
        let answer = service().ask(&preflight);
        assert!(answer.header("access-control-allow-origin").is_none(), "{path}");
        let hosted = wire::ask(service().hosted(), &Ask::post(path, &json!({})));
        assert_eq!(hosted.status, 404, "{path}");
    }
}

/// Signs in and returns the cookie, as a browser sends it, and the token.
fn sign_in() -> (String, String) {
    let answer = asked(Ask::post(SESSION, &json!({"bearer": service().credentials().bearer})));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let port = service().local().rsplit_once(':').unwrap().1;
    let set = answer.header("set-cookie").unwrap();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/console; HttpOnly; SameSite=Strict");
    let (name, key) = pair.split_once('=').unwrap();
    assert_eq!((name, key.len()), (format!("recalld-console-{port}").as_str(), 43));
    let said = answer.json();
    assert!(!answer.text().contains(key));
    (pair.to_owned(), said["token"].as_str().unwrap().to_owned())
}

fn act(cookie: &str, token: &str, act: Value) -> Answer {
    signed((cookie, token), Ask::post(ADMIN, &act))
}

/// Sends a request in a session.
fn signed((cookie, token): (&str, &str), ask: Ask) -> Answer {
    asked(ask.header("Cookie", cookie).header(TOKEN, token))
}

fn look(cookie: &str, token: &str) -> Value {
    asked(Ask::get(SESSION).header("Cookie", cookie).header(TOKEN, token)).json()
}

#[test]
fn administration_asks_for_the_bearer_once_and_for_both_halves_of_a_session() {
    let list = json!({"act": "tenant list"});
    assert_eq!(act("", "", list.clone()).status, 401);
    assert_eq!(look("", ""), json!({"signed_in": false}));
    let (cookie, token) = sign_in();
    let (other_cookie, other_token) = sign_in();
    assert_eq!(look(&cookie, &token)["signed_in"], true);

    let made =
        act(&cookie, &token, json!({"act": "tenant create", "slug": "harbour", "plan": "team"}));
    assert_eq!(
        (made.status, made.header("cache-control")),
        (200, Some("no-store")),
        "{}",
        made.text()
    );
    let issued =
        act(&cookie, &token, json!({"act": "key issue", "slug": "harbour", "kind": "bearer"}));
    let tenants_own = issued.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(act(&cookie, &token, json!({"act": "tenant show", "slug": "none"})).status, 404);
    assert_eq!(act(&cookie, &token, json!({"act": "tenant sink"})).status, 422);

    let twice = format!("{cookie}; {cookie}");
    let of_another_port = cookie.replacen("recalld-console-", "recalld-console-1", 1);
    for (cookie, token) in [
        (cookie.as_str(), ""),
        ("", token.as_str()),
        (&cookie, &other_token),
        (&other_cookie, &token),
        (&twice, &token),
        (&of_another_port, &token),
    ] {
        let answer = act(cookie, token, json!({"act": "tenant suspend", "slug": "harbour"}));
        assert_eq!(answer.status, 401, "{}", answer.text());
        assert_eq!(look(cookie, token), json!({"signed_in": false}));
    }
    let shown = act(&cookie, &token, json!({"act": "tenant show", "slug": "harbour"}));
    assert_eq!(shown.json()["state"], "active", "nothing was done");
    // This route does not accept a bearer.
    let bearer = format!("Bearer {}", service().credentials().bearer);
    assert_eq!(asked(Ask::post(ADMIN, &list).header("Authorization", &bearer)).status, 401);
    // Conversely, operator routes do not accept a session.
    let elsewhere =
        Ask::post("/operator/admin", &list).header("Cookie", &cookie).header(TOKEN, &token);
    assert_eq!(asked(elsewhere).status, 401);

    let ended = asked(Ask::new("DELETE", SESSION).header("Cookie", &cookie).header(TOKEN, &token));
    assert_eq!(ended.json(), json!({"ended": true}));
    assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(act(&cookie, &token, list.clone()).status, 401);
    assert_eq!(act(&other_cookie, &other_token, list).status, 200);
    let trail =
        asked(calling("audit_trail_tool", json!({"tool": "recalld console sign-in"}))).json();
    assert!(trail["entries"].as_array().unwrap().len() >= 2, "{trail}");

    // Repeated guesses are throttled; the right bearer is not.
    assert_eq!(asked(Ask::post(SESSION, &json!({"bearer": tenants_own}))).status, 401);
    let guess = |n: u32| asked(Ask::post(SESSION, &json!({"bearer": format!("guess-{n}")})));
    let statuses: Vec<u16> = (0..15).map(|n| guess(n).status).collect();
    assert!(statuses.contains(&401) && statuses.ends_with(&[429]), "{statuses:?}");
    sign_in();
}

fn in_workspace(route: &str, workspace: &str, tool: &str, arguments: Value) -> Ask {
    Ask::post(route, &json!({"tool": tool, "arguments": arguments, "workspace": workspace}))
}

/// Tools and principals of a workspace's newest ledger entries.
fn entries(workspace: &str) -> Vec<(String, String)> {
    let data = service().data();
    let shown = run(data, &["ledger", "show", "--workspace", workspace, "--json", "--last", "50"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    rows.map(|entry| (word(&entry, "tool"), word(&entry, "principal"))).collect()
}

#[test]
fn a_tenants_workspace_is_shown_in_a_session_and_its_ledger_says_so() {
    let (cookie, token) = sign_in();
    let session = (cookie.as_str(), token.as_str());
    for slug in ["lighthouse", "drydock"] {
        let made =
            act(&cookie, &token, json!({"act": "tenant create", "slug": slug, "plan": "free"}));
        assert_eq!(made.status, 200, "{}", made.text());
    }
    let text = "The lamp of the lighthouse is lit at dusk.";
    run_json(service().data(), &["remember", text, "--workspace", "lighthouse"]);
    let question = json!({"query": "when is the lamp lit?"});
    let ask = |workspace: &str| {
        in_workspace(CALL, workspace, "retrieval_arbitrate_tool", question.clone())
    };
    // Without a session, the response does not reveal whether the workspace exists.
    for workspace in ["lighthouse", "nobody", "LIGHTHOUSE", "../local"] {
        for half in [("", ""), (cookie.as_str(), ""), ("", token.as_str())] {
            let answer = signed(half, ask(workspace));
            assert_eq!(answer.status, 401, "{workspace}: {}", answer.text());
            assert!(!answer.text().contains("workspace"), "{}", answer.text());
        }
    }
    assert!(!entries("lighthouse").iter().any(|(tool, _)| tool == "retrieval_arbitrate_tool"));
    let found = signed(session, ask("lighthouse"));
    assert_eq!(found.status, 200, "{}", found.text());
    assert_eq!(found.json()["items"][0]["text"], text);
    // Neither another tenant's workspace nor the operator's contains the text.
    for other in ["drydock", "local"] {
        let found = signed(session, ask(other));
        assert_eq!(found.status, 200, "{}", found.text());
        assert!(!found.text().contains(text), "{}", found.text());
    }
    assert_eq!(asked(ask("local")).status, 200, "one's own takes no session");
    let last = entries("lighthouse").pop().unwrap();
    assert_eq!(last, ("retrieval_arbitrate_tool".to_owned(), "operator".to_owned()));
    for (workspace, tool, status) in [
        ("nobody", "recall_stats", 422),
        ("../local", "recall_stats", 422),
        ("lighthouse", "brain_remember", 403),
        ("lighthouse", "forget_item_tool", 403),
    ] {
        let answer = signed(session, in_workspace(CALL, workspace, tool, json!({"text": "x"})));
        assert_eq!(answer.status, status, "{workspace} {tool}: {}", answer.text());
    }
    act(&cookie, &token, json!({"act": "tenant suspend", "slug": "lighthouse"}));
    assert_eq!(signed(session, ask("lighthouse")).status, 200, "a suspended one can be looked at");
    let gone = json!({"act": "tenant delete", "slug": "lighthouse", "confirm": "lighthouse"});
    assert_eq!(act(&cookie, &token, gone).status, 200);
    assert_eq!(signed(session, ask("lighthouse")).status, 422);
}

fn remembered(arguments: &[&str]) -> String {
    let item = run_json(service().data(), &[&["remember"], arguments].concat());
    item["item"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_item_is_corrected_and_forgotten_in_a_session_once_what_goes_was_told() {
    let (cookie, token) = sign_in();
    let session = (cookie.as_str(), token.as_str());
    let id = remembered(&["The winch of the slipway is red."]);
    let correct = json!({"item_id": id, "text": "The winch of the slipway is green.", "reason": "It was painted"});
    for half in [("", ""), (cookie.as_str(), ""), ("", token.as_str())] {
        let refused = signed(half, changing("supersede_item_tool", correct.clone()));
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    for tool in ["brain_remember", "tombstone_paths_tool", "recall_stats", "ingest_paths_tool"] {
        let refused = signed(session, changing(tool, json!({})));
        assert_eq!(refused.status, 403, "{tool}: {}", refused.text());
    }
    assert_eq!(signed(session, changing("forget_itm", json!({}))).status, 404);
    let corrected = signed(session, changing("supersede_item_tool", correct.clone()));
    assert_eq!(corrected.status, 200, "{}", corrected.text());
    let newer = corrected.json()["item"]["id"].as_str().unwrap().to_owned();
    let again = signed(session, changing("supersede_item_tool", correct.clone()));
    assert!(again.status == 422 && detail(&again).contains(&newer), "{}", again.text());

    let looked = |tool: &str, given: &Value| {
        let body = json!({"tool": tool, "arguments": given, "dry_run": true});
        signed(session, Ask::post(CHANGE, &body))
    };
    let forget = json!({"item_id": newer, "reason": "It was scrapped", "mode": "erase"});
    let would = looked("forget_item_tool", &forget);
    assert_eq!(would.status, 200, "{}", would.text());
    let would = would.json();
    assert_eq!(
        (&would["forgotten"], &would["mode"], &would["backups"]),
        (&json!(1), &json!("erase"), &json!(0))
    );
    assert_eq!(would["items"][0]["id"], newer, "{would}");
    assert_eq!(looked("supersede_item_tool", &correct).status, 422);
    assert_eq!(looked("forget_item_tool", &json!({"item_id": newer})).status, 422);
    let there = || asked(calling("get_item_tool", json!({"item_id": newer}))).status;
    assert_eq!(there(), 200, "a look changes nothing");
    let gone = signed(session, changing("forget_item_tool", forget.clone()));
    assert_eq!(gone.status, 200, "{}", gone.text());
    let said = gone.json();
    assert!(["erased", "erasing"].contains(&said["status"].as_str().unwrap()), "{said}");
    assert_eq!((there(), looked("forget_item_tool", &forget).status), (404, 404));
    let last: Vec<String> = entries("local").into_iter().map(|(tool, _)| tool).collect();
    for tool in ["supersede_item_tool", "forget_item_tool: looked", "forget_item_tool"] {
        assert!(last.iter().any(|entry| entry == tool), "{tool} is not among {last:?}");
    }
    assert_eq!(said["receipt"]["decision"], "allow");
}

#[test]
fn what_goes_with_an_item_is_told_and_what_policy_holds_is_not_forgotten() {
    let (cookie, token) = sign_in();
    let session = (cookie.as_str(), token.as_str());
    let looked = |given: Value| {
        let body = json!({"tool": "forget_item_tool", "arguments": given, "dry_run": true});
        signed(session, Ask::post(CHANGE, &body))
    };
    let manifest = asked(calling("docstore_manifest_tool", json!({}))).json();
    let document = &manifest["documents"][0];
    let chunks = document["chunks"].as_u64().unwrap();
    let given = json!({"item_id": document["document_id"], "reason": "x"});
    let would = looked(given).json();
    assert_eq!(would["forgotten"], chunks + 1, "{would}");
    assert_eq!(would["items"][0]["id"], document["document_id"], "what was asked for is first");
    assert!(would.get("backups").is_none(), "{would}");

    let held = remembered(&["The charter of the harbour is kept.", "--gate", "legal_hold"]);
    let erase = json!({"item_id": held, "reason": "x", "mode": "erase"});
    for answer in [looked(erase.clone()), signed(session, changing("forget_item_tool", erase))] {
        assert!(
            answer.status == 422 && detail(&answer).contains("legal-hold"),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn the_command_line_says_where_it_is() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let none = run(&data, &["console"]);
    assert_eq!(none.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&none.stderr).contains("recalld serve"), "{none:?}");
    let said = run_json(service().data(), &["console"]);
    assert_eq!(said["url"], format!("http://{}/console", service().local()));
    let shown = run(service().data(), &["console"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.starts_with(said["url"].as_str().unwrap()) && text.contains("credentials show"),
        "{text}"
    );
}
