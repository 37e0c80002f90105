//! Tests of the settings file: parsing, rejection, and equivalence of the rendered file.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use recalld_common::scope::Scope;
use recalld_common::wrong_node::WrongNode;
use recalld_policy::plans::Tools;
use recalld_policy::rate::Rate;

/// Tool names that plans may contain in these tests.
pub(super) const TOOLS: &[&str] = &["brain_recall", "brain_remember", "tenant_info"];

fn parse(text: &str) -> Result<Config, FileFault> {
    Config::parse(text, Path::new("/etc/recalld"), TOOLS)
}

/// A file with every section and every key.
const ALL: &str = r#"
[oauth]
access_token_seconds = 900
key_prefix = "acme"

[hosted]
trusted_proxies = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"]

[identity]
enforcement = "require"

[legacy]
hosts = ["Old.example.com", "older.example.com"]
migrated_at = 2026-06-01T00:00:00Z
until = 2027-01-01T01:00:00+01:00

[plans.free]
calls_per_month = 50

[plans.big]
families = ["recall", "docstore", "bench"]
scopes = ["tenant:read", "brain:proxy", "identity:assert"]
calls_per_month = "none"
rate_per_second = 100
burst = 500
writes_need_verified_email = true

[plans.team]
rate_per_second = "none"

[mail]
host = "mail.example.com"
port = 2525
security = "starttls"
user = "memory"
password_file = "mail-password"
from = "Memory <memory@example.com>"

[policy]
file = "policy.toml"

[audit]
sync = "always"
"#;

#[test]
fn an_empty_file_is_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.oauth.access_token_seconds, 3_600);
    assert_eq!(recalld_common::names::time(config.legacy.until), "2026-11-09T00:00:00Z");
}

#[test]
fn every_key_means_what_it_says() {
    let config = parse(ALL).unwrap();
    assert_eq!(config.oauth.access_token_seconds, 900);
    assert_eq!(config.oauth.key_prefix, Prefix::new("acme").unwrap());
    let proxies: Vec<String> = config.trusted_proxies.iter().map(Network::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"]);
    assert_eq!(config.identity, Enforcement::Require);
    assert_eq!(config.legacy.hosts, ["old.example.com", "older.example.com"]);
    assert_eq!(recalld_common::names::time(config.legacy.until), "2027-01-01T00:00:00Z");
    let migrated_at = config.legacy.migrated_at.map(recalld_common::names::time);
    assert_eq!(migrated_at.as_deref(), Some("2026-06-01T00:00:00Z"));
    let plan = |name: &str| config.plans.find(name).unwrap();
    assert_eq!(plan("free").calls_per_month, Some(50));
    assert!(plan("free").writes_need_verified_email && plan("free").has_tool("", "tenant_info"));
    assert_eq!((plan("team").rate, plan("team").may_grant(Scope::MemoryWrite)), (None, true));
    let big = plan("big");
    assert_eq!(big.tools, Tools::Families(vec!["recall", "docstore", "bench"]));
    assert_eq!(big.scopes, [Scope::TenantRead, Scope::BrainProxy, Scope::IdentityAssert]);
    assert_eq!((big.calls_per_month, big.writes_need_verified_email), (None, true));
    assert_eq!(big.rate, Rate::new(100, Duration::from_secs(1), 500));
    let mail = config.mail.as_ref().unwrap();
    let login = mail.login.as_ref().unwrap();
    assert_eq!((mail.port, mail.security), (2525, MailSecurity::StartTls));
    assert_eq!(login.password_file, Path::new("/etc/recalld/mail-password"));
    assert_eq!(config.policy_file.as_deref(), Some(Path::new("/etc/recalld/policy.toml")));
    assert_eq!(config.audit_sync, AuditSync::Always);
}

#[test]
fn what_is_shown_means_the_same() {
    for text in ["", ALL] {
        let config = parse(text).unwrap();
        let shown = config.show();
        assert_eq!(Config::parse(&shown, Path::new(""), TOOLS).unwrap(), config, "{shown}");
    }
}

#[test]
fn each_fault_names_its_key_and_what_is_allowed() {
    for (text, words) in [
        ("oauth.access_token_seconds = 59", &["oauth.access_token_seconds", "59", "60 to 86400"]),
        ("oauth.access_token_seconds = 86401", &["86401", "60 to 86400", ""]),
        (
            "oauth.acess_token_seconds = 60",
            &["oauth.acess_token_seconds", "did you mean", "`oauth.access_token_seconds`"],
        ),
        (
            "hosted.trusted_proxies = [\"10.0.0.1/8\"]",
            &["hosted.trusted_proxies", "\"10.0.0.1/8\"", "such as 10.0.0.0/8"],
        ),
        ("hosted.trusted_proxies = [\"gateway\"]", &["\"gateway\"", "addresses", ""]),
        ("ouath.key_prefix = \"x\"", &["`ouath`", "did you mean", "`oauth`"]),
        ("oauth.key_prefix = \"Acme\"", &["oauth.key_prefix", "\"Acme\"", "a-z 0-9"]),
        (
            "identity.enforcement = \"recrod\"",
            &["identity.enforcement", "\"recrod\"", "did you mean \"record\""],
        ),
        ("identity = \"off\"", &["`identity`", "\"off\"", "[identity]"]),
        (
            "legacy.hosts = [\"a.example:8080\"]",
            &["legacy.hosts", "a.example:8080", "without ports"],
        ),
        ("legacy.hosts = \"a.example\"", &["legacy.hosts", "a.example", "a list"]),
        (
            "legacy.migrated_at = 2026-11-09T00:00:00Z",
            &["legacy.migrated_at", "2026-11-09T00:00:00Z", "before `until`"],
        ),
        ("legacy.until = 2026-11-09T00:00:00", &["legacy.until", "2026-11-09T00:00:00", "offset"]),
        ("plans.Big.families = []", &["plans", "\"Big\"", "a-z 0-9"]),
        ("plans.operator.calls_per_month = 5", &["plans", "\"operator\"", "operator's"]),
        ("plans.big.calls_per_month = 5", &["plans.big.families", "missing", "`tools`"]),
        ("plans.big.families = [\"recall\"]", &["plans.big.scopes", "missing", "scopes"]),
        (
            "plans.team.families = [\"recal\"]",
            &["plans.team.families", "\"recal\"", "did you mean \"recall\""],
        ),
        (
            "plans.team.families = [\"audit\"]",
            &["plans.team.families", "\"audit\"", "agent_state, bench, tenant"],
        ),
        (
            "plans.team.tools = [\"brain_recal\"]",
            &["plans.team.tools", "\"brain_recal\"", "did you mean \"brain_recall\""],
        ),
        (
            "plans.team.tools = [\"brain_recall\", \"brain_recall\"]",
            &["plans.team.tools", "\"brain_recall\"", "once"],
        ),
        (
            "plans.team.scopes = [\"tenant:raed\"]",
            &["plans.team.scopes", "tenant:raed", "did you mean \"tenant:read\""],
        ),
        ("plans.team.calls_per_month = -1", &["plans.team.calls_per_month", "-1", "or \"none\""]),
        ("plans.team.burst = 5", &["plans.team.rate_per_second", "missing", "burst"]),
        ("plans.team.rate_per_second = 0", &["plans.team.rate_per_second", "0", "1 to"]),
        (
            "[plans.team]\nfamilies = []\ntools = []",
            &["plans.team.families", "beside `tools`", "either"],
        ),
        ("mail.host = \"mail.example.com\"", &["mail.from", "missing", "address"]),
        ("mail.from = \"a@example.com\"", &["mail.host", "missing", "server"]),
        (
            "[mail]\nhost = \"m.example\"\nfrom = \"nobody\"",
            &["mail.from", "nobody", "@example.com"],
        ),
        (
            "[mail]\nhost = \"m.example\"\nfrom = \"a@b.c\"\nuser = \"u\"",
            &["mail.password_file", "missing", "password"],
        ),
        (
            "[mail]\nhost = \"m.example\"\nfrom = \"a@b.c\"\nuser = \"u\"\npassword_file = \"p\"\nsecurity = \"none\"",
            &["mail.security", "none", "starttls"],
        ),
        (
            "[mail]\nhost = \"m example\"\nfrom = \"a@b.c\"",
            &["mail.host", "m example", "without a port"],
        ),
        ("backup.keep = 3", &["backup.to", "missing", "the folder"]),
        ("policy.file = \"\"", &["policy.file", "\"\"", "1 to"]),
        ("audit.sync = true", &["audit.sync", "true", "batched, always"]),
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{text}: {said}");
    }
}

#[test]
fn a_password_in_the_file_is_refused_and_not_repeated() {
    let text = "[mail]\nhost = \"m.example\"\nfrom = \"a@b.c\"\nuser = \"u\"\npassword = \"hunter2\"\npassword_file = \"p\"";
    let said = parse(text).unwrap_err().to_string();
    assert!(said.contains("mail.password") && !said.contains("hunter2"), "{said}");
}

#[test]
fn what_becomes_of_a_call_at_the_wrong_node_is_one_of_two_words() {
    let of = |said: &str| parse(&format!("[remote]\nto = \"file:///far\"\n{said}"));
    assert_eq!(of("").unwrap().remote.unwrap().wrong_node, WrongNode::Proxy);
    let config = of("wrong_node = \"redirect\"").unwrap();
    assert_eq!(config.remote.as_ref().unwrap().wrong_node, WrongNode::Redirect);
    assert_eq!(Config::parse(&config.show(), Path::new(""), TOOLS).unwrap(), config);
    let said = of("wrong_node = \"refuse\"").unwrap_err().to_string();
    assert!(said.contains("remote.wrong_node") && said.contains("proxy, redirect"), "{said}");
}

#[test]
fn a_file_that_is_not_there_or_too_large_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recalld.toml");
    let said = Config::read(&path, TOOLS).unwrap_err().to_string();
    assert!(said.contains("recalld.toml") && said.contains("No such file"), "{said}");
    std::fs::write(&path, "# ".repeat(CONFIG_BYTES_MAX)).unwrap();
    let said = Config::read(&path, TOOLS).unwrap_err().to_string();
    assert!(said.contains("more than 1048576 bytes"), "{said}");
    std::fs::write(&path, "policy.file = \"rules.toml\"").unwrap();
    let config = Config::read(&path, TOOLS).unwrap();
    assert_eq!(config.policy_file, Some(folder.path().join("rules.toml")));
    assert!(Config::read(folder.path(), TOOLS).unwrap_err().to_string().contains("not a file"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines of the complete file, omitted and repeated at random, never cause a panic. Accepted settings are rendered
    /// with the same meaning.
    #[test]
    fn parts_of_a_file_are_taken_or_refused(lines in proptest::collection::vec(0usize..60, 0..60)) {
        let all: Vec<&str> = ALL.lines().collect();
        let mut chosen = lines;
        chosen.sort_unstable();
        let text: Vec<&str> = chosen.iter().filter_map(|at| all.get(*at).copied()).collect();
        if let Ok(config) = parse(&text.join("\n")) {
            let again = Config::parse(&config.show(), Path::new(""), TOOLS);
            prop_assert_eq!(again.unwrap(), config);
        }
    }
}
