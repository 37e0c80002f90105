//! Packed weights in the cache: packed once, used by every later start, repacked if invalid, and never a reason to fail
//! (`format-spec/weights.md`).
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use encoder::{Kernels, Level, Precision, Scratch};
use recalld_embedding::model::{Expected, ModelRequest, OpenFault, OpenedFiles, Progress, open};
use sha2::{Digest, Sha256};
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

/// A model above the size limit below which weights are packed at each start.
const MODEL: Tiny = Tiny { seed: 1, width: 256, layers: 1, tokens: 32 };

/// Collects progress messages.
#[derive(Default)]
struct Said(Vec<String>);

impl Progress for Said {
    fn say(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }

    fn advance(&mut self, _what: &str, _done: u64, _total: Option<u64>) {}
}

/// A model folder and a cache.
struct Place {
    scratch: TempDir,
    model: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = scratch();
        let model = MODEL.write(scratch.path(), "model");
        Self { scratch, model }
    }

    fn cache(&self) -> PathBuf {
        self.scratch.path().join("cache")
    }

    fn request(&self) -> ModelRequest {
        ModelRequest {
            directory: Some(self.model.clone()),
            cache: Some(self.cache()),
            name: "owner/small".into(),
            expected: Expected { weights: [1; 32], tokenizer: [2; 32] },
            hub: None,
            package: None,
        }
    }

    /// Installs the model in the cache, as the expected default model.
    fn installed(&self) -> ModelRequest {
        let hash = |name: &str| Sha256::digest(fs::read(self.model.join(name)).unwrap());
        let (weights, tokenizer) = (hash("model.safetensors"), hash("tokenizer.json"));
        let digits = |hash: &[u8]| -> String { hash.iter().map(|x| format!("{x:02x}")).collect() };
        let home = self.cache().join("models").join(format!("small-{}", &digits(&weights)[..12]));
        fs::create_dir_all(&home).unwrap();
        let mut sums = String::new();
        for name in
            ["config.json", "tokenizer.json", "model.safetensors", "sentence_bert_config.json"]
        {
            fs::copy(self.model.join(name), home.join(name)).unwrap();
            sums += &format!("{}  {name}\n", digits(&hash(name)));
        }
        fs::write(home.join("SHA256SUMS"), sums).unwrap();
        let expected = Expected { weights: weights.into(), tokenizer: tokenizer.into() };
        ModelRequest { directory: None, expected, ..self.request() }
    }

    /// Paths of the packed weights.
    fn packed(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.cache().join("packed")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|it| it == "weights")).collect();
        paths.sort();
        paths
    }

    fn only_packed(&self) -> PathBuf {
        let packed = self.packed();
        assert_eq!(packed.len(), 1, "{packed:?}");
        packed[0].clone()
    }
}

/// Opens a model, which must succeed. Returns the files and the progress messages.
fn opened(request: &ModelRequest, precision: Precision) -> (OpenedFiles, Vec<String>) {
    let mut said = Said::default();
    let kernels = Kernels::for_level(Level::Scalar).unwrap();
    let opened = open(request, kernels, precision, &mut said).unwrap();
    assert_eq!(opened.encoder.precision(), precision);
    (opened, said.0)
}

/// Opens a model without any progress message.
fn opened_quietly(request: &ModelRequest, precision: Precision) -> OpenedFiles {
    let (opened, said) = opened(request, precision);
    assert_eq!(said, Vec::<String>::new());
    opened
}

fn failed(request: &ModelRequest) -> String {
    let kernels = Kernels::for_level(Level::Scalar).unwrap();
    open(request, kernels, Precision::F32, &mut Said::default()).err().unwrap().to_string()
}

fn vector(opened: &OpenedFiles) -> Vec<f32> {
    let mut scratch: Scratch = opened.encoder.scratch();
    let mut out = vec![0.0; opened.encoder.dimensions()];
    opened.encoder.encode(&mut scratch, "a cat sat", &mut out);
    out
}

/// Changes a sealed file, as an attacker or a failing disk would.
fn spoil(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
}

/// The published weights file of the installed model.
fn installed_weights(place: &Place) -> PathBuf {
    let homes = fs::read_dir(place.cache().join("models")).unwrap();
    let mut homes = homes.map(|entry| entry.unwrap().path());
    homes.find(|path| path.is_dir()).unwrap().join("model.safetensors")
}

#[test]
fn the_second_start_of_an_installed_model_needs_no_published_weights() {
    let place = Place::new();
    let request = place.installed();
    for &precision in Precision::ALL {
        let first = opened_quietly(&request, precision);
        let weights = installed_weights(&place);
        let kept = fs::read(&weights).unwrap();
        fs::write(&weights, b"not weights at all").unwrap();
        let second = opened_quietly(&request, precision);
        fs::remove_file(&weights).unwrap();
        let third = opened_quietly(&request, precision);
        for again in [&second, &third] {
            assert_eq!(vector(again), vector(&first), "{precision:?}");
            assert_eq!(again.encoder.fingerprint(), first.encoder.fingerprint());
            assert_eq!((&again.dir, again.weights_sha256), (&first.dir, first.weights_sha256));
        }
        fs::write(&weights, kept).unwrap();
    }
    assert_eq!(place.packed().len(), 3, "one for each precision");

    // A changed configuration is not the installed model, whatever its weights.
    let config = installed_weights(&place).with_file_name("config.json");
    fs::write(&config, fs::read_to_string(&config).unwrap().replace("1e-12", "1e-11")).unwrap();
    assert!(failed(&request).contains("found nowhere"));
}

#[test]
fn a_folder_is_read_again_only_when_its_file_is_another() {
    let place = Place::new();
    let request = place.request();
    let first = opened_quietly(&request, Precision::F16);
    let packed = place.only_packed();
    let second = opened_quietly(&request, Precision::F16);
    assert_eq!(vector(&second), vector(&first));
    assert_eq!(second.weights_sha256, first.weights_sha256);

    // The source list is trusted: the weights are not read to check it. If packed weights name another source, they are
    // rejected and the list is corrected.
    let list = place.cache().join("packed/sources.json");
    let text = fs::read_to_string(&list).unwrap();
    let hash: String = first.weights_sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&list, text.replace(&hash, &"ab".repeat(32))).unwrap();
    let name = packed.file_name().unwrap().to_str().unwrap();
    let claimed = packed.with_file_name(name.replace(&hash[..24], &"ab".repeat(12)));
    fs::copy(&packed, &claimed).unwrap();
    let (mended, said) = opened(&request, Precision::F16);
    assert!(said[0].contains("WGT-15: source_sha256"), "{said:?}");
    assert_eq!(mended.weights_sha256, first.weights_sha256, "packed of what was read");
    assert_eq!(fs::read_to_string(&list).unwrap(), text, "written anew");
    fs::remove_file(&claimed).unwrap();
    fs::write(&list, "[]").unwrap();
    opened_quietly(&request, Precision::F16);
    assert_eq!(fs::read_to_string(&list).unwrap(), text, "written anew");

    // Changed weights at the same path are noticed.
    Tiny { seed: 2, ..MODEL }.write(place.scratch.path(), "model");
    let other = opened_quietly(&request, Precision::F16);
    assert_ne!(other.weights_sha256, first.weights_sha256);
    assert_ne!(vector(&other), vector(&first));
    assert_eq!(place.packed().len(), 2);
    assert!(packed.exists());

    // Known weights at another path are already packed.
    let copy = Tiny { seed: 2, ..MODEL }.write(place.scratch.path(), "copy");
    let moved = ModelRequest { directory: Some(copy.clone()), ..request.clone() };
    assert_eq!(vector(&opened_quietly(&moved, Precision::F16)), vector(&other));
    assert_eq!(place.packed().len(), 2);

    // The configuration is read at every start, and a folder without weights is no model.
    fs::remove_file(copy.join("model.safetensors")).unwrap();
    assert!(failed(&moved).contains("model.safetensors is missing"));
    fs::write(place.model.join("config.json"), "{}").unwrap();
    let fault = open(&request, Kernels::detect(), Precision::F16, &mut Said::default()).err();
    assert!(matches!(fault, Some(OpenFault::Encoder { .. })), "{fault:?}");
}

/// A function that damages a file's bytes.
type Damage = fn(&mut Vec<u8>);

#[test]
fn damaged_weights_are_packed_again_and_said_to_be() {
    let place = Place::new();
    for request in [place.request(), place.installed()] {
        let first = opened(&request, Precision::Int8).0;
        let path = place.only_packed();
        let whole = fs::read(&path).unwrap();
        let damages: [(&str, Damage); 6] = [
            ("WGT-01", |bytes| bytes.clear()),
            ("WGT-01", |bytes| bytes[3] ^= 1),
            ("WGT-02", |bytes| bytes[20] ^= 1),
            ("WGT-06", |bytes| bytes.truncate(5000)),
            ("WGT-08", |bytes| bytes[200] ^= 1),
            ("WGT-10", |bytes| {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
            }),
        ];
        for (rule, damage) in damages {
            spoil(&path, damage);
            let (again, said) = opened(&request, Precision::Int8);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].contains(rule) && said[0].contains("packing the weights again"),
                "{said:?}"
            );
            assert_eq!(vector(&again), vector(&first));
            assert_eq!(fs::read(&path).unwrap(), whole, "made again");
        }
        // A writable file is not mapped, even if its content is valid.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let (_, said) = opened(&request, Precision::Int8);
        assert!(said[0].contains("not sealed"), "{said:?}");
        opened_quietly(&request, Precision::Int8);
    }
}

#[test]
fn a_cache_that_takes_no_files_is_only_slower() {
    let place = Place::new();
    // A file in place of the folder, because root ignores write permissions.
    fs::create_dir_all(place.cache()).unwrap();
    fs::write(place.cache().join("packed"), "").unwrap();
    let (first, said) = opened(&place.request(), Precision::F32);
    assert!(said.iter().any(|it| it.contains("cannot keep packed weights")), "{said:?}");
    let (second, _) = opened(&place.request(), Precision::F32);
    assert_eq!(vector(&first), vector(&second));
    let nowhere = ModelRequest { cache: None, ..place.request() };
    assert_eq!(vector(&opened_quietly(&nowhere, Precision::F32)), vector(&first));
}

#[test]
fn what_is_not_needed_any_more_goes() {
    let place = Place::new();
    opened_quietly(&place.request(), Precision::F32);
    let newest = place.only_packed();
    let name = newest.file_name().unwrap().to_str().unwrap().to_owned();
    let beside = |name: &str| newest.with_file_name(name);
    let older = beside(&name.replace("-f32-1.", "-f32-0."));
    let unfinished = beside("left.new");
    for path in [&older, &unfinished] {
        fs::write(path, "").unwrap();
    }
    let many = |i: usize| beside(&format!("{i:024}-f32-1.weights"));
    (0..20).for_each(|i| fs::write(many(i), "").unwrap());
    fs::remove_file(&newest).unwrap();
    opened_quietly(&place.request(), Precision::F32);
    assert!(newest.exists() && !older.exists() && !unfinished.exists());
    assert_eq!(place.packed().len(), 12, "a bounded number");
}

#[test]
fn large_ones_go_before_there_are_many() {
    let place = Place::new();
    opened_quietly(&place.request(), Precision::F32);
    let newest = place.only_packed();
    let others: Vec<PathBuf> =
        (0..3).map(|i| newest.with_file_name(format!("{i:024}-f32-1.weights"))).collect();
    for other in &others {
        // Sparse files occupy no space.
        fs::File::create(other).unwrap().set_len(2 << 30).unwrap();
    }
    fs::remove_file(&newest).unwrap();
    opened_quietly(&place.request(), Precision::F32);
    let left = others.iter().filter(|other| other.exists()).count();
    assert!(newest.exists() && left == 1, "4 GiB beside the newest: {left} of 2 GiB are left");
}

#[test]
fn a_start_does_not_wait_for_one_that_was_stopped() {
    let place = Place::new();
    fs::create_dir_all(place.cache().join("packed")).unwrap();
    let stuck = fs::File::create(place.cache().join("packed/lock")).unwrap();
    stuck.lock().unwrap();
    let (opened, said) = opened(&place.request(), Precision::F32);
    assert!(said.iter().any(|it| it.contains("another process has been writing")), "{said:?}");
    assert!(place.packed().is_empty());
    drop(stuck);
    assert_eq!(vector(&opened_quietly(&place.request(), Precision::F32)), vector(&opened));
    place.only_packed();
}

#[test]
fn what_cannot_be_had_at_a_precision_says_which_one_does() {
    let place = Place::new();
    let path = place.model.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    // The data begins with the word embeddings.
    let header = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    bytes[8 + header..][..4].copy_from_slice(&70_000_f32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let kernels = Kernels::for_level(Level::Scalar).unwrap();
    let fault = open(&place.request(), kernels, Precision::Int8, &mut Said::default());
    let message = fault.err().unwrap().to_string();
    for part in ["word_embeddings", "70000", ", 256]", "--precision f32"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn small_weights_are_not_kept() {
    let mut place = Place::new();
    place.model = Tiny::new(1, 16).write(place.scratch.path(), "tiny");
    opened_quietly(&place.request(), Precision::F32);
    assert!(!place.cache().exists());
}

#[test]
fn several_starts_at_once_share_one_file() {
    let place = Place::new();
    let wanted = vector(&opened_quietly(&place.request(), Precision::F32));
    fs::remove_dir_all(place.cache()).unwrap();
    let inodes = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let opened = opened_quietly(&place.request(), Precision::F32);
                    assert_eq!(vector(&opened), wanted);
                    fs::metadata(place.only_packed()).unwrap().ino()
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect::<HashSet<u64>>()
    });
    assert_eq!(inodes.len(), 1, "nobody replaced what another one has mapped");
}
