//! A fault of one workspace, in its metastore record or its ledger, affects only that workspace. Callers of that
//! workspace get a retry time, all others are answered, and credentials presented during the fault are not used up.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use recalld_metastore::Kind;
use redb::{Builder, ReadableDatabase as _, TableDefinition};
use serde_json::json;
use support_server::house::{House, SCOPES, Served, entries};
use support_wire::service::{Service, run_json};
use support_wire::wire::{self, Answer, Ask};

/// Timeout for noticing that a fault is over, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const TENANTS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("tenants");

/// Flips a bit of one record, below intact page checksums.
fn spoil_record(file: &Path, slug: &str) {
    let database = Builder::new().open(file).unwrap();
    let record = {
        let view = database.begin_read().unwrap();
        let found = view.open_table(TENANTS).unwrap().get(slug.as_bytes()).unwrap();
        found.expect("the workspace is on record").value().to_vec()
    };
    let mut spoilt = record;
    *spoilt.last_mut().unwrap() ^= 1;
    let change = database.begin_write().unwrap();
    change.open_table(TENANTS).unwrap().insert(slug.as_bytes(), &*spoilt).unwrap();
    change.commit().unwrap();
}

fn recall(served: &Served, bearer: &str) -> Answer {
    served.call(bearer, "brain_recall", &json!({"query": "where is the lamp oil?"}))
}

fn stats(served: &Served, at: &str, bearer: &str) -> Answer {
    served.api(at, bearer, Ask::get("/stats"))
}

fn token(served: &Served, slug: &str, key: &str) -> Answer {
    let body = format!("grant_type=client_credentials&client_id={slug}&client_secret={key}");
    let ask = Ask::new("POST", "/token").body(body.into_bytes());
    let ask = ask.header("Content-Type", "application/x-www-form-urlencoded");
    wire::ask(served.service.hosted(), &ask)
}

/// Checks for 503 with a retry time, and without a file's name.
fn assert_unavailable(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 503, "{what}: {}", answer.text());
    let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u32>().ok());
    assert!(wait.is_some_and(|wait| wait >= 1), "{what}: {}", answer.head());
    for word in ["redb", "/data/", "tenants/", "os error", "checksum"] {
        assert!(!answer.text().contains(word), "{what}: {}", answer.text());
    }
}

fn until(what: &str, mut ask: impl FnMut() -> Answer) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if answer.status == 200 {
            return;
        }
        assert!(Instant::now() < give_up, "{what}: {}", answer.text());
    }
}

/// A server with an intact workspace and one that gets a fault, each with a bearer and a workspace key.
struct Two {
    served: Served,
    acme: [String; 2],
    globex: [String; 2],
}

impl Two {
    fn start(spoil: impl FnOnce(&Path)) -> Self {
        let house = House::quick();
        let keys = |slug: &str| {
            let bearer = house.tenant(slug, "open");
            [bearer, house.issue(slug, Kind::Workspace, None, &SCOPES)]
        };
        let (acme, globex) = (keys("acme"), keys("globex"));
        let served = house.run(&["--public-url", "https://recall.example"]);
        for [bearer, _] in [&acme, &globex] {
            served.given(bearer, "brain_remember", &json!({"text": "In the cellar."}));
        }
        let served = served.again(|service: Service| {
            let data = service.data().to_owned();
            assert!(service.terminate().success());
            spoil(&data);
        });
        Self { served, acme, globex }
    }

    fn listeners(&self) -> [&str; 2] {
        [self.served.service.local(), self.served.service.hosted()]
    }

    /// Checks that calls to the faulty workspace fail, while the other workspace and the operator are answered.
    fn assert_one_is_closed(&self) {
        let (served, [bearer, key]) = (&self.served, &self.globex);
        for _ in 0..3 {
            assert_unavailable(&recall(served, bearer), "/mcp");
            assert_unavailable(&token(served, "globex", key), "/token");
            assert_eq!(token(served, "globex", key).json()["error"], "temporarily_unavailable");
            for at in self.listeners() {
                assert_unavailable(&stats(served, at, bearer), at);
                assert_eq!(stats(served, at, &self.acme[0]).status, 200, "{at}");
                let operator = &served.service.credentials().bearer;
                assert_eq!(stats(served, at, operator).status, 200, "{at}");
            }
            assert_eq!(token(served, "acme", &self.acme[1]).status, 200);
            let found = served.given(&self.acme[0], "brain_recall", &json!({"query": "cellar?"}));
            assert!(found.to_string().contains("cellar"), "{found}");
        }
        assert_eq!(served.service.ask(&Ask::get("/health")).status, 200);
    }

    /// Checks that the workspace recovers with all its data.
    fn assert_whole(self) {
        let (served, [bearer, key]) = (self.served, self.globex);
        until("its calls", || recall(&served, &bearer));
        until("its tokens", || token(&served, "globex", &key));
        let found = served.given(&bearer, "brain_recall", &json!({"query": "where is it?"}));
        assert!(found.to_string().contains("cellar"), "{found}");
        let data = served.service.data().to_owned();
        // Failed requests are in no ledger; answered ones are.
        let issued = |slug: &str| entries(&data, slug, "oauth/token").len();
        assert_eq!((issued("acme"), issued("globex")), (3, 1));
        assert!(served.service.terminate().success());
        assert_eq!(run_json(&data, &["ledger", "verify", "--all"])["ok"], true);
    }
}

#[test]
fn a_damaged_record_closes_its_workspace_and_no_other() {
    let mut whole = Vec::new();
    let two = Two::start(|data| {
        let file = data.join("control.redb");
        whole = fs::read(&file).unwrap();
        spoil_record(&file, "globex");
    });
    two.assert_one_is_closed();
    // The operator's error names the damaged table.
    let listed =
        support_wire::service::run(two.served.service.data(), &["tenant", "show", "globex"]);
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(!listed.status.success() && said.contains("tenants"), "{said}");
    // A file replaced below the running server is noticed within seconds.
    let file = two.served.service.data().join("control.redb");
    let fresh = two.served.beside("control.fresh");
    fs::copy(&file, &fresh).unwrap();
    fs::write(&fresh, &whole).unwrap();
    fs::rename(&fresh, &file).unwrap();
    two.assert_whole();
}

#[test]
fn a_ledger_that_cannot_be_opened_closes_its_workspace_and_no_other() {
    let two = Two::start(|data| {
        let ledger = data.join("tenants/globex/ledger");
        fs::rename(&ledger, ledger.with_extension("away")).unwrap();
        fs::write(&ledger, b"no folder").unwrap();
    });
    two.assert_one_is_closed();
    let ledger = two.served.service.data().join("tenants/globex/ledger");
    fs::remove_file(&ledger).unwrap();
    fs::rename(ledger.with_extension("away"), &ledger).unwrap();
    two.assert_whole();
}
