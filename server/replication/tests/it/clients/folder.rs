use std::path::Path;
use std::sync::Arc;

use recalld_replication::core::Verdict;
use recalld_replication::{Counts, Folder, Key, ObjectChain, Objects, Op, Tenant, Tried, probe};

use super::suite;

fn open(root: &Path) -> (Arc<dyn Objects>, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    (Arc::new(Folder::open(root, Arc::clone(&counts)).unwrap()), counts)
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    let below = |path: &Path| if path.is_dir() { files(path) } else { 1 };
    entries.map(|entry| below(&entry.unwrap().path())).sum()
}

#[test]
fn a_folder_passes_the_suite() {
    let root = tempfile::tempdir().unwrap();
    let (one, _) = open(root.path());
    suite::objects(&one);
    let (other, _) = open(root.path());
    suite::chain(&ObjectChain::new(one), &ObjectChain::new(other));
    // Two heartbeats and five watermarks remain, and no unfinished file.
    assert_eq!(files(root.path()), 2 + 5);
}

#[test]
fn a_folder_is_honest_and_left_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let (objects, counts) = open(root.path());
    assert_eq!(probe(&objects, true), Verdict::Honest);
    assert_eq!(files(root.path()), 0);
    assert!(counts.of(Op::Create) >= 16 * 8, "{}", counts.of(Op::Create));
}

#[test]
fn names_that_are_no_keys_are_nobodys() {
    let root = tempfile::tempdir().unwrap();
    let (objects, _) = open(root.path());
    let tenant = Tenant::new("local").unwrap();
    let key = Key::Chain(tenant.clone(), 3);
    objects.put(&key, b"x").unwrap();
    let folder = root.path().join("t/local/chain");
    std::fs::write(folder.join("note.txt"), "mine").unwrap();
    std::fs::create_dir(folder.join("other")).unwrap();
    let listed = objects.list("t/local/", None, 10).unwrap();
    assert_eq!(listed.len(), 1);
    objects.remove(&[key, Key::Chain(tenant, 4)]).unwrap();
    assert_eq!(files(&folder), 1);
}

#[test]
fn a_half_written_object_is_never_seen() {
    let root = tempfile::tempdir().unwrap();
    let (objects, _) = open(root.path());
    let tenant = Tenant::new("local").unwrap();
    let key = Key::Chain(tenant, 1);
    // The write fails, as the folder of unfinished files is gone.
    std::fs::remove_dir(root.path().join(".new")).unwrap();
    assert!(matches!(objects.put_new(&key, b"first"), Tried::Unsure(_)));
    assert!(objects.put(&key, b"first").unwrap_err().may_pass);
    assert!(objects.get(&key, None, 9).is_err(), "nobody knows what such a folder had");
    std::fs::create_dir(root.path().join(".new")).unwrap();
    assert_eq!(objects.get(&key, None, 9).unwrap(), None);
    assert_eq!(objects.put_new(&key, b"first"), Tried::Made);
}
