//! Data sets as they lie in a folder (`format-spec/eval.md`): documents, and questions with what answers
//! them.
//!
//! Owns both layouts and their bounds. Documents are read as a stream; questions are held in memory.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::lines::{DatasetError, each, each_object, name_of, text_of};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Documents of one data set: twice as many as the largest that this was tried with.
    const DOCUMENTS_MAX: u64 = 10_000_000;
    /// Questions of one data set.
    const QUESTIONS_MAX: u64 = 1_000_000;
    /// Lines of judgments.
    const JUDGMENTS_MAX: u64 = 10_000_000;
    /// Bytes of the file that names what replaces what.
    const RELATIONS_BYTES_MAX: u64 = 64 << 20;
}

/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// How documents become items. Another way of it has another number, so that no store made by an older one is
/// taken for one of this.
const ITEMS_VERSION: &str = "eval items 2";
/// When documents were recorded: a data set does not say, and no question asks for that day by chance.
const RECORDED_AT: &str = "1970-01-01T00:00:00Z";

/// A question of a ranked set.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The question.
    pub text: String,
    /// The grade of each document that was judged.
    pub relevant: HashMap<String, u32>,
}

/// A question in the words of documents that do not stand any more.
#[derive(Debug, Clone, PartialEq)]
pub struct Superseded {
    /// The question.
    pub text: String,
    /// Names of the documents that do not stand.
    pub stale: Vec<String>,
    /// Names of those that stand in their place.
    pub current: Vec<String>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// BEIR's layout.
    Ranked(Vec<Judged>),
    /// A supersession set.
    Superseded(Vec<Superseded>),
}

/// A data set.
#[derive(Debug)]
pub struct Dataset {
    /// Its folder's name.
    pub name: String,
    corpus: PathBuf,
    /// The file that says what each document replaces; of a supersession set.
    relations: Option<PathBuf>,
    replaces: HashMap<String, Vec<String>>,
    /// What is asked of it.
    pub asked: Asked,
}

/// Questions about nothing that a data set holds.
#[derive(Debug)]
pub struct Foreign {
    /// In the file's order.
    pub questions: Vec<String>,
}

impl Dataset {
    /// Reads the questions of a folder, of a split where it has judgments, and looks where its documents
    /// are.
    ///
    /// # Errors
    /// `DatasetError`: it has neither layout, or a line breaks its layout's rules.
    pub fn open(folder: &Path, split: &str) -> Result<Self, DatasetError> {
        if !folder.is_dir() {
            return Err(DatasetError::of(folder, "is not a folder with a data set"));
        }
        let name = folder.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let name = name.map_or_else(|| "data".to_owned(), |name| name.into_owned());
        let superseded = folder.join("supersession_queries.jsonl");
        let relations = superseded.is_file().then(|| folder.join("relations.json"));
        let (replaces, asked) = match &relations {
            Some(file) => (replaced(file)?, Asked::Superseded(superseded_questions(&superseded)?)),
            None => (HashMap::new(), Asked::Ranked(judged_questions(folder, split)?)),
        };
        Ok(Self { name, corpus: corpus(folder)?, relations, replaces, asked })
    }

    /// The SHA-256, in hexadecimal, of all that its items are made of: the documents, what replaces what, and
    /// how both become items. What is asked of them is no part of it.
    ///
    /// # Errors
    /// `DatasetError`: a file cannot be read.
    pub fn made_of(&self) -> Result<String, DatasetError> {
        let mut hash = Sha256::new();
        hash.update(ITEMS_VERSION);
        hash.update(sha256(&self.corpus)?);
        if let Some(relations) = &self.relations {
            hash.update(sha256(relations)?);
        }
        Ok(engine::hex(&hash.finalize()))
    }

    /// The file with the documents.
    pub fn corpus(&self) -> &Path {
        &self.corpus
    }

    /// Keeps the first `limit` questions.
    pub fn ask_at_most(&mut self, limit: usize) {
        match &mut self.asked {
            Asked::Ranked(questions) => questions.truncate(limit),
            Asked::Superseded(questions) => questions.truncate(limit),
        }
    }

    /// Writes each document as a line that `import` takes (`format-spec/export.md`), its name as `ref`.
    /// Gives how many there are.
    ///
    /// # Errors
    /// `DatasetError`, also where the line cannot be written.
    pub fn write_items(&self, out: &mut impl Write) -> Result<u64, DatasetError> {
        let mut documents = 0;
        each_object(&self.corpus, DOCUMENTS_MAX, |document| {
            let item = self.item(document)?;
            documents += 1;
            writeln!(out, "{item}").map_err(|error: io::Error| error.to_string())
        })?;
        Ok(documents)
    }

    fn item(&self, document: &Value) -> Result<Value, String> {
        let name = name_of(document, ["_id", "id"])?;
        let title = text_of(document, "title")?;
        let body = match text_of(document, "text")? {
            "" => text_of(document, "abstract")?,
            text => text,
        };
        let text = if body.is_empty() { title } else { body };
        if text.is_empty() {
            return Err(format!("{name} has neither title nor text"));
        }
        let mut item = json!({
            "type": "item", "ref": name, "kind": "note", "title": title, "text": text,
            "recorded_at": RECORDED_AT,
        });
        if let Some(replaced) = self.replaces.get(&name) {
            item["supersedes"] = replaced.clone().into();
        }
        Ok(item)
    }
}

impl Foreign {
    /// Reads the questions of a file of JSON Lines: `text` or `query` of each.
    ///
    /// # Errors
    /// `DatasetError`
    pub fn open(file: &Path) -> Result<Self, DatasetError> {
        let mut questions = Vec::new();
        each_object(file, QUESTIONS_MAX, |line| {
            questions.push(question(line)?);
            Ok(())
        })?;
        Ok(Self { questions })
    }
}

fn corpus(folder: &Path) -> Result<PathBuf, DatasetError> {
    let names = ["corpus.jsonl", "peps.jsonl"];
    let found = names.map(|name| folder.join(name)).into_iter().find(|file| file.is_file());
    found.ok_or_else(|| DatasetError::of(folder, "has no corpus.jsonl with its documents"))
}

fn question(line: &Value) -> Result<String, String> {
    let found = ["text", "query"].iter().find_map(|field| line.get(field)?.as_str());
    let found = found.filter(|text| !text.trim().is_empty());
    found.map(str::to_owned).ok_or_else(|| "has no `text` or `query` with a question".to_owned())
}

/// The questions that were judged, in the order of their file.
fn judged_questions(folder: &Path, split: &str) -> Result<Vec<Judged>, DatasetError> {
    let file = folder.join("qrels").join(format!("{split}.tsv"));
    let mut judgments: BTreeMap<String, HashMap<String, u32>> = BTreeMap::new();
    each(&file, JUDGMENTS_MAX, |number, line| {
        let [query, document, grade] = fields(line)?;
        let Ok(grade) = grade.trim().parse::<i64>() else {
            let is_head = number == 1;
            return if is_head { Ok(()) } else { Err(format!("`{grade}` is no grade")) };
        };
        let grade =
            u32::try_from(grade.max(0)).map_err(|_| format!("grade {grade} is too high"))?;
        judgments.entry(query.to_owned()).or_default().insert(document.to_owned(), grade);
        Ok(())
    })?;
    let queries = folder.join("queries.jsonl");
    let mut questions = Vec::new();
    each_object(&queries, QUESTIONS_MAX, |line| {
        if let Some(relevant) = judgments.remove(&name_of(line, ["_id", "id"])?) {
            questions.push(Judged { text: question(line)?, relevant });
        }
        Ok(())
    })?;
    if let Some(missing) = judgments.keys().next() {
        let why = format!("question {missing}, which {} judges, is not there", file.display());
        return Err(DatasetError::of(&queries, why));
    }
    if questions.is_empty() {
        return Err(DatasetError::of(&file, "has no judgments"));
    }
    Ok(questions)
}

/// `query-id`, `corpus-id`, `score`.
fn fields(line: &str) -> Result<[&str; 3], String> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().map_err(|found: Vec<_>| {
        format!("has {} fields between tabs, not question, document and grade", found.len())
    })
}

fn superseded_questions(file: &Path) -> Result<Vec<Superseded>, DatasetError> {
    let mut questions = Vec::new();
    each_object(file, QUESTIONS_MAX, |line| {
        let (stale, current) = (names(line, "stale")?, names(line, "current")?);
        questions.push(Superseded { text: question(line)?, stale, current });
        Ok(())
    })?;
    match questions.is_empty() {
        true => Err(DatasetError::of(file, "has no questions")),
        false => Ok(questions),
    }
}

fn names(object: &Value, field: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{field}` is not a list of names");
    let list = object.get(field).and_then(Value::as_array).filter(|list| !list.is_empty());
    let names = list.ok_or_else(wrong)?.iter().map(super::lines::name);
    names.collect::<Option<_>>().ok_or_else(wrong)
}

fn sha256(file: &Path) -> Result<[u8; 32], DatasetError> {
    let unread = |error: io::Error| DatasetError::of(file, error);
    let mut reader = File::open(file).map_err(unread)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match reader.read(&mut piece).map_err(unread)? {
            0 => return Ok(hash.finalize().into()),
            bytes => hash.update(&piece[..bytes]),
        }
    }
}

/// What each document replaces, by `relations.json`.
fn replaced(file: &Path) -> Result<HashMap<String, Vec<String>>, DatasetError> {
    let wrong = |why: &dyn std::fmt::Display| DatasetError::of(file, why);
    let about = std::fs::metadata(file).map_err(|error| wrong(&error))?;
    if about.len() > RELATIONS_BYTES_MAX {
        return Err(wrong(&format!("is longer than {RELATIONS_BYTES_MAX} bytes")));
    }
    let bytes = std::fs::read(file).map_err(|error| wrong(&error))?;
    let relations: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
    let pairs = relations["supersession"].as_array();
    let mut replaced: HashMap<String, Vec<String>> = HashMap::new();
    for pair in pairs.ok_or_else(|| wrong(&"has no list `supersession`"))? {
        let old = name_of(pair, ["old", "old"]).map_err(|why| wrong(&why))?;
        let new = name_of(pair, ["new", "new"]).map_err(|why| wrong(&why))?;
        replaced.entry(new).or_default().push(old);
    }
    Ok(replaced)
}
