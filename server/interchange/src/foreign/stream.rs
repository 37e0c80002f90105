//! Reads JSON values one at a time, by line or from a list, from files that may exceed memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::error::ForeignError;
use recalld_common::regular_file;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    const LINE_BYTES_MAX: u64 = 64 << 20;
    /// Unpacked bytes of one file in an archive, as a bound on decompression bombs.
    const UNPACKED_BYTES_MAX: u64 = 4 << 30;
}

/// First bytes of a ZIP archive.
const ZIP_MARK: &[u8] = b"PK\x03\x04";

/// Callback for each value: the name of its list (empty if the file is one list), its index in the list, and the value.
pub(super) type Take<'t> = &'t mut dyn FnMut(&str, usize, Value) -> Result<(), ForeignError>;

fn reading(path: &Path) -> impl Fn(io::Error) -> ForeignError + '_ {
    |error| ForeignError::Reading(path.to_owned(), error)
}

/// Opens a regular file.
pub(super) fn open(path: &Path) -> Result<File, ForeignError> {
    let file = regular_file::open(path).map_err(reading(path))?;
    file.ok_or_else(|| {
        ForeignError::Wrong(format!("{} is no file of which this shape is read", path.display()))
    })
}

/// Returns true if a file is a ZIP archive.
pub(super) fn is_archive(path: &Path) -> Result<bool, ForeignError> {
    let mut begin = Vec::new();
    open(path)?.take(ZIP_MARK.len() as u64).read_to_end(&mut begin).map_err(reading(path))?;
    Ok(begin == ZIP_MARK)
}

/// Reads the files with these names from a folder or an archive, if present, or the file itself under any name. `take`
/// receives each value of their lists.
pub(super) fn of_files(path: &Path, names: &[&str], take: Take<'_>) -> Result<(), ForeignError> {
    if path.is_dir() {
        for name in names.iter().map(|name| path.join(name)).filter(|file| file.exists()) {
            elements(&name, open(&name)?, &[], take)?;
        }
        return Ok(());
    }
    if !is_archive(path)? {
        return elements(path, open(path)?, &[], take);
    }
    let wrong = |error: &dyn std::fmt::Display| {
        ForeignError::Wrong(format!("{}: the archive cannot be read: {error}", path.display()))
    };
    let mut archive = zip::ZipArchive::new(open(path)?).map_err(|error| wrong(&error))?;
    let inside: Vec<String> =
        archive.file_names().filter_map(Result::ok).map(|name| name.into_owned()).collect();
    for name in names {
        let is_it = |file: &&String| file.rsplit('/').next() == Some(*name);
        let Some(inner) = inside.iter().find(is_it) else { continue };
        let inner = archive.by_name(inner).map_err(|error| wrong(&error))?;
        elements(path, inner.take(UNPACKED_BYTES_MAX), &[], take)?;
    }
    Ok(())
}

/// Passes each value of a file's list to `take`. If the file is an object, passes the values of its lists under these
/// names, or of all its lists if `names` is empty.
pub(super) fn elements(
    path: &Path,
    file: impl Read,
    names: &[&str],
    take: Take<'_>,
) -> Result<(), ForeignError> {
    let mut reader = BufReader::new(file);
    skip_mark(&mut reader).map_err(reading(path))?;
    let mut failed = None;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let lists = Lists { names, take, failed: &mut failed };
    let read = lists.deserialize(&mut json);
    match (failed, read) {
        (Some(failed), _) => Err(failed),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(ForeignError::Wrong(format!(
            "{}: not the JSON that was expected: {error}",
            path.display()
        ))),
    }
}

/// Skips a byte order mark, with which some programs begin a file.
fn skip_mark(reader: &mut impl BufRead) -> io::Result<()> {
    if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    Ok(())
}

/// Deserializes lists, passing each value on as soon as it is read.
struct Lists<'a, 't> {
    names: &'a [&'a str],
    take: Take<'t>,
    failed: &'a mut Option<ForeignError>,
}

impl<'de> DeserializeSeed<'de> for Lists<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lists<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list, or an object with lists")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        List { name: "", take: self.take, failed: self.failed }.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if self.names.is_empty() || self.names.contains(&name.as_str()) {
                map.next_value_seed(List {
                    name: &name,
                    take: &mut *self.take,
                    failed: self.failed,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Deserializes one list.
struct List<'a, 't> {
    name: &'a str,
    take: Take<'t>,
    failed: &'a mut Option<ForeignError>,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

/// Ignores values that are not lists.
macro_rules! pass_over {
    ($($name:ident: $type:ty),*) => {
        $(fn $name<E>(self, _: $type) -> Result<(), E> { Ok(()) })*
    };
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    pass_over!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        while let Some(value) = seq.next_element()? {
            if let Err(error) = (self.take)(self.name, at, value) {
                *self.failed = Some(error);
                return Err(serde::de::Error::custom("ended"));
            }
            at += 1;
        }
        Ok(())
    }
}

/// Passes each JSON value of each line to `take` with the line's number, and an error for text that is not JSON. A line
/// may have several values without separator, and the last line may be incomplete.
pub(super) fn lines(
    path: &Path,
    file: File,
    mut take: impl FnMut(usize, Result<Value, String>) -> Result<(), ForeignError>,
) -> Result<(), ForeignError> {
    let mut reader = BufReader::new(file);
    skip_mark(&mut reader).map_err(reading(path))?;
    let mut line = Vec::new();
    for at in 1.. {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(reading(path))? == 0 {
            break;
        }
        for value in serde_json::Deserializer::from_slice(&line).into_iter::<Value>() {
            let is_bad = value.is_err();
            take(at, value.map_err(|error| error.to_string()))?;
            if is_bad {
                break; // what follows on the line begins nowhere
            }
        }
    }
    Ok(())
}

/// Returns the first value of the first nonblank line; `None` if there is no such line, or the line is not JSON.
pub(super) fn first_line(path: &Path) -> Result<Option<Value>, ForeignError> {
    let mut reader = BufReader::new(open(path)?);
    skip_mark(&mut reader).map_err(reading(path))?;
    let mut line = Vec::new();
    while reader
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .map_err(reading(path))?
        > 0
    {
        if !line.trim_ascii().is_empty() {
            let first = serde_json::Deserializer::from_slice(&line).into_iter::<Value>().next();
            return Ok(first.and_then(Result::ok));
        }
        line.clear();
    }
    Ok(None)
}

/// Returns the first byte that is not white space, within the first 4,096 bytes.
pub(super) fn first_byte(path: &Path) -> Result<Option<u8>, ForeignError> {
    const LOOKED_AT: u64 = 4096;
    let mut file = open(path)?;
    file.seek(SeekFrom::Start(0)).map_err(reading(path))?;
    let mut begin = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut begin).map_err(reading(path))?;
    let begin = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&begin);
    Ok(begin.iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}
