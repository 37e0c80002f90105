//! Data sets in a folder (`format-spec/eval.md`): documents, and questions with relevance judgments.
//!
//! Owns both layouts and their limits. Documents are streamed; questions are loaded into memory.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::lines::{DatasetError, each, each_object, name_of, text_of};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Documents of one data set: twice the largest that was tried.
    const DOCUMENTS_MAX: u64 = 10_000_000;
    /// Questions of one data set.
    const QUESTIONS_MAX: u64 = 1_000_000;
    /// Lines of relevance judgments.
    const JUDGMENTS_MAX: u64 = 10_000_000;
    /// Bytes of the file of replacements.
    const RELATIONS_BYTES_MAX: u64 = 64 << 20;
}

/// Bytes per read of a file.
const PIECE_BYTES: usize = 64 << 10;

/// Version of the conversion from documents to items. Any change increments it, so that a store made by an older
/// conversion is not reused.
const ITEMS_VERSION: &str = "eval items 2";
/// Recording time of documents. Data sets have none, and no question asks for this day by chance.
const RECORDED_AT: &str = "1970-01-01T00:00:00Z";

/// A question with relevance judgments.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The question.
    pub text: String,
    /// Grade by name of each judged document.
    pub relevant: HashMap<String, u32>,
}

/// A question worded like superseded documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Superseded {
    /// The question.
    pub text: String,
    /// Names of the superseded documents.
    pub stale: Vec<String>,
    /// Names of the current documents that replace them.
    pub current: Vec<String>,
}

/// The questions of a data set, by layout.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A set in BEIR's layout.
    Ranked(Vec<Judged>),
    /// A supersession set.
    Superseded(Vec<Superseded>),
}

/// A data set: documents and questions.
#[derive(Debug)]
pub struct Dataset {
    /// The folder's name.
    pub name: String,
    corpus: PathBuf,
    /// The file with the replacements of each document; `None` for a ranked set.
    relations: Option<PathBuf>,
    replaces: HashMap<String, Vec<String>>,
    /// The questions.
    pub asked: Asked,
}

/// Questions outside the data set.
#[derive(Debug)]
pub struct Foreign {
    /// The questions, in the order of the file.
    pub questions: Vec<String>,
}

impl Dataset {
    /// Loads the questions of a folder, for a ranked set those of a split, and locates the documents.
    ///
    /// # Errors
    /// `DatasetError`: the folder has neither layout, or a line breaks the layout's rules.
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

    /// SHA-256, in hexadecimal, of the inputs of the items: the documents, the replacements, and the version of the
    /// conversion. The questions are excluded.
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

    /// The documents file.
    pub fn corpus(&self) -> &Path {
        &self.corpus
    }

    /// Truncates the questions to the first `limit`.
    pub fn ask_at_most(&mut self, limit: usize) {
        match &mut self.asked {
            Asked::Ranked(questions) => questions.truncate(limit),
            Asked::Superseded(questions) => questions.truncate(limit),
        }
    }

    /// Writes each document as a line for `import` (`format-spec/export.md`), with its name as `ref`. Returns their
    /// number.
    ///
    /// # Errors
    /// `DatasetError`: a document is invalid, or a line cannot be written.
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
    /// Loads the questions of a JSON Lines file, from the field `text` or `query`.
    ///
    /// # Errors
    /// `DatasetError`: the file cannot be read, or a line has no question.
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

/// Loads the judged questions, in the order of their file.
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

/// Splits a line into `query-id`, `corpus-id` and `score`.
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

/// Loads the documents replaced by each document from `relations.json`.
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
