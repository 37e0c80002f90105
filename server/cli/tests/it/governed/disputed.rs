//! Accuracy of conflict detection: pairs of realistic statements, labelled by hand before any run.

use std::fs;
use support_wire::tree::workspace;

use recalld_recall::conflict_between;
use serde_json::Value;

/// Pairs of statements that cannot both be true of one thing at one time.
const DISPUTED: [(&str, &str); 52] = [
    (
        "The API rate limit is 100 requests per minute.",
        "The API rate limit is 60 requests per minute.",
    ),
    ("Access tokens expire after 15 minutes.", "Access tokens expire after 60 minutes."),
    ("We keep backups for 30 days.", "We keep backups for 90 days."),
    ("The cluster has three replicas.", "The cluster has five replicas."),
    ("Uploads are limited to 10 MB.", "Uploads are limited to 25 MB."),
    ("The office is on the 4th floor.", "The office is on the 7th floor."),
    ("Retries are attempted up to 3 times.", "Retries are attempted up to 5 times."),
    ("The invoice total was $4,200.", "The invoice total was $4,800."),
    ("Test coverage stands at 82%.", "Test coverage stands at 74%."),
    (
        "The minimum password length is 12 characters.",
        "The minimum password length is 8 characters.",
    ),
    ("The server listens on port 8080 by default.", "The server listens on port 9090 by default."),
    ("The team has 12 engineers.", "The team has 14 engineers."),
    ("Default timeout: 30 s", "Default timeout: 60 s"),
    ("max_connections = 100", "max_connections = 500"),
    (
        "Python 3.9 is the minimum supported version.",
        "Python 3.11 is the minimum supported version.",
    ),
    ("The warranty lasts two years.", "The warranty lasts three years."),
    ("The launch is scheduled for 12 March.", "The launch is scheduled for 19 March."),
    ("The release date is 2024-05-01.", "The release date is 2024-06-15."),
    (
        "Contract with Acme expires on 31 December 2025.",
        "Contract with Acme expires on 30 June 2026.",
    ),
    ("The standup starts at 9:30.", "The standup starts at 10:00."),
    ("The company was founded in 1998.", "The company was founded in 2001."),
    ("The deadline for the report is Friday.", "The deadline for the report is Monday."),
    ("The migration is planned for Q2 2025.", "The migration is planned for Q4 2025."),
    ("The review meeting takes place on Tuesday.", "The review meeting takes place on Thursday."),
    ("The parser supports nested comments.", "The parser does not support nested comments."),
    ("We use Kubernetes in production.", "We don't use Kubernetes in production."),
    ("The service requires a database.", "The service requires no database."),
    ("Guests can edit the shared documents.", "Guests cannot edit the shared documents."),
    ("The old endpoint is still available.", "The old endpoint is no longer available."),
    ("Logs contain personal data.", "Logs never contain personal data."),
    ("The build runs without network access.", "The build runs with network access."),
    (
        "Customers are charged for failed requests.",
        "Customers are not charged for failed requests.",
    ),
    ("The default branch is main.", "The default branch is develop."),
    ("The database of the project is PostgreSQL.", "The database of the project is MySQL."),
    ("The project is licensed under MIT.", "The project is licensed under Apache-2.0."),
    ("Alice owns the billing service.", "Bob owns the billing service."),
    ("The maintainer of the parser is Alice.", "The maintainer of the parser is Bob."),
    ("Production runs in eu-west-1.", "Production runs in us-east-1."),
    ("The primary language of the backend is Go.", "The primary language of the backend is Rust."),
    ("The logo colour is blue.", "The logo colour is green."),
    ("The encoding of config files is UTF-8.", "The encoding of config files is Latin-1."),
    ("We deploy with Jenkins.", "We deploy with GitHub Actions."),
    ("Feature flag dark_mode is enabled.", "Feature flag dark_mode is disabled."),
    ("PEP 572 was accepted.", "PEP 572 was rejected."),
    ("The staging gate is open.", "The staging gate is closed."),
    ("The nightly build is passing.", "The nightly build is failing."),
    ("Two-factor login is mandatory for admins.", "Two-factor login is optional for admins."),
    ("The repository is public.", "The repository is private."),
    (
        "The migration of the users table is finished.",
        "The migration of the users table is pending.",
    ),
    ("Windows 7 is supported by the installer.", "Windows 7 is unsupported by the installer."),
    ("Ticket 4312 is resolved.", "Ticket 4312 is unresolved."),
    ("The API of the plugin is stable.", "The API of the plugin is unstable."),
];

/// Similar pairs without a conflict: about two things, of two times, or the same fact in other words.
const AT_PEACE: [(&str, &str); 52] = [
    ("Chapter 3 covers error handling.", "Chapter 4 covers error handling."),
    ("Ticket 4312 is about the login page.", "Ticket 4313 is about the login page."),
    ("Version 2.1 was released in March.", "Version 2.2 was released in May."),
    ("In 2023 the team shipped four releases.", "In 2024 the team shipped six releases."),
    ("The cat sleeps on the sofa.", "The dog sleeps on the sofa."),
    ("Notes of 2024-05-01: budget approved.", "Notes of 2024-05-08: budget approved."),
    ("Alice joined the billing team.", "Bob joined the billing team."),
    ("Server A has 16 GB of memory.", "Server B has 32 GB of memory."),
    ("Server A has 16 GB of memory.", "Server A has 16 GB of RAM."),
    ("PEP 8 was accepted.", "PEP 20 was accepted."),
    ("Backups run every night at 02:00.", "Backups run every night at two o'clock."),
    ("The lamp is lit at dusk.", "The lamp is lit at dawn too."),
    ("We tested the build on Ubuntu.", "We tested the build on Fedora."),
    ("The function returns the number of rows.", "The function returns the number of columns."),
    ("Sensor 12 reported 21 degrees.", "Sensor 12 reported 23 degrees."),
    ("The deploy on Monday failed.", "The deploy on Tuesday failed."),
    ("The deploy on Monday failed.", "The deploy on Tuesday passed."),
    ("Use a buffer of 4 KB for small files.", "Use a buffer of 64 KB for large files."),
    ("Water is required for photosynthesis.", "Light is required for photosynthesis."),
    ("I paid 20 euros for lunch.", "I paid 25 euros for lunch."),
    ("The train to Oslo leaves at 8:15.", "The train to Bergen leaves at 8:45."),
    ("The train to Oslo leaves at 8:15.", "The train to Oslo leaves at 9:15."),
    ("Step 2: run the tests.", "Step 3: run the tests."),
    ("The first draft was rejected by the editor.", "The second draft was accepted by the editor."),
    ("Open the valve before the test.", "Close the valve after the test."),
    ("The main door is open on weekdays.", "The main door is closed on weekends."),
    ("Room 101 has 30 seats.", "Room 102 has 40 seats."),
    ("He was born in Paris.", "She was born in Paris."),
    ("The cost is 5 dollars per user.", "The cost is five dollars per user."),
    ("The limit is 1,000 requests per hour.", "The limit is 1000 requests per hour."),
    ("The file is 1.5 GB in size.", "The file is 1.50 GB in size."),
    ("Logs are kept for 14 days.", "Logs are kept for 2 weeks."),
    ("The interval is 60 seconds.", "The interval is 1 minute."),
    ("The release is due 5 May 2024.", "The release is due 2024-05-05."),
    ("The meeting is at 14:00.", "The meeting is at 2 pm."),
    ("No tests were skipped.", "Not a single test was skipped."),
    ("Nobody uses the old portal.", "The old portal is not used."),
    ("The release is due on Friday.", "The release is due on Friday 3 May."),
    ("The port of the dev server is 3000.", "The port of the admin server is 4000."),
    ("The owner of the house is Alice.", "The owner of the boat is Alice."),
    ("Test suite alpha has failed.", "Test suite beta has failed."),
    ("Caching is disabled in tests.", "Caching is enabled in production."),
    ("Experiment 7 used 12 mice.", "Experiment 8 used 14 mice."),
    ("The price of tea was 3 dollars in 2019.", "The price of tea was 4 dollars in 2022."),
    ("Aspirin reduces fever in adults.", "Aspirin reduces fever in children."),
    ("Build 1041 is passing.", "Build 1042 is failing."),
    ("The gene is expressed in liver cells.", "The gene is not expressed in kidney cells."),
    ("Issue 31 was closed on 2024-02-01.", "Issue 31 was closed on 2024-02-01T10:00:00Z."),
    ("The weekly meeting was held on 3 May.", "The weekly meeting was held on 10 May."),
    ("The name of the first ship is Aurora.", "The name of the second ship is Borealis."),
    ("The app is no longer supported.", "The app is not supported any longer."),
    ("Tom's laptop has 16 GB of memory.", "Ann's laptop has 32 GB of memory."),
];

fn conflict(one: &str, other: &str) -> bool {
    let is_there = conflict_between(one, other).is_some();
    assert_eq!(is_there, conflict_between(other, one).is_some());
    is_there
}

#[test]
fn hardly_any_conflict_is_made_up_and_most_are_seen() {
    let missed: Vec<_> = DISPUTED.iter().filter(|(one, other)| !conflict(one, other)).collect();
    let made_up: Vec<_> = AT_PEACE.iter().filter(|(one, other)| conflict(one, other)).collect();
    assert!(made_up.is_empty(), "{made_up:#?}");
    // A missed conflict is better than a false one.
    assert!(missed.len() * 10 <= DISPUTED.len(), "{missed:#?}");
}

/// The pairs of the contradiction scan, most of which differ in wording.
#[test]
fn what_the_scan_would_find_is_named_too() {
    let file = workspace().join("tests/labelled/contradictions.jsonl");
    let (mut found, mut wanted, mut made_up) = (0, 0, Vec::new());
    for line in fs::read_to_string(file).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let [one, other] = ["one", "other"].map(|name| case[name].as_str().unwrap());
        let is_named = conflict(one, other);
        if case["differ"] == true {
            wanted += 1;
            found += u32::from(is_named);
        } else if is_named {
            made_up.push((one.to_owned(), other.to_owned()));
        }
    }
    println!("found {found} of {wanted}, made up {made_up:?}");
    assert!(found * 10 >= wanted * 9, "{found} of {wanted}");
    assert!(made_up.len() <= 2, "{made_up:#?}");
}
