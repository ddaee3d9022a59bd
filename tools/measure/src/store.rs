//! Result files: JSON lines in one envelope for all commands.
//!
//! The first line is the header: the schema (name and version) and the provenance of the records. Each further line is
//! a record. Records are appended in whole lines, so an interrupted process leaves at most one incomplete line, which
//! is ignored by readers and truncated by the next writer. Contents are replaced atomically. New records must have the
//! provenance of those in the file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Name and version of a kind of result file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Name.
    pub name: String,
    /// Version.
    pub version: u32,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Header<P> {
    schema: Schema,
    provenance: P,
}

/// Contents of a result file.
pub trait Stored: Sized {
    /// Name of the schema.
    const NAME: &'static str;
    /// Version of the schema.
    const VERSION: u32 = 1;
    /// Origin of the records: build, machine and settings.
    type Provenance: Serialize + DeserializeOwned;
    /// A record.
    type Record: Serialize + DeserializeOwned;

    /// Splits the contents.
    fn parts(&self) -> (Self::Provenance, Vec<Self::Record>);

    /// Combines and validates the contents of a file.
    fn combine(provenance: Self::Provenance, records: Vec<Self::Record>) -> Result<Self, StoreError>;

    /// All differences in provenance that prevent records of both from being in one file.
    fn differences(&self, here: &Self) -> Vec<String>;
}

/// Error of reading, checking or writing a result file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file does not exist or is not readable.
    #[error("the file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is not writable.
    #[error("the file cannot be written: {0}")]
    NotWritten(#[source] io::Error),
    /// A new file was requested.
    #[error("the file already exists and would be overwritten")]
    Exists,
    /// The first line is not a header.
    #[error("line 1 has no valid `schema`: {0}")]
    NoSchema(String),
    /// The file was written by another command or version.
    #[error("its schema is `{}` version {}: expected {expected}", found.name, found.version)]
    OtherSchema {
        /// Schema of the file.
        found: Schema,
        /// Supported schemas.
        expected: String,
    },
    /// A line cannot be parsed or holds an invalid value, so no line is trusted.
    #[error("line {line} is invalid: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Reason.
        reason: String,
    },
    /// The build, the machine or the settings differ.
    #[error("its records have another provenance and cannot be combined with these: {0}")]
    OtherProvenance(String),
}

impl StoreError {
    /// An invalid header.
    pub fn header(reason: impl std::fmt::Display) -> StoreError {
        StoreError::Line { line: 1, reason: reason.to_string() }
    }

    /// An invalid record; `n` counts records from 0.
    pub fn record(n: usize, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Line { line: n + 2, reason: reason.to_string() }
    }

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            StoreError::Unreadable(_) | StoreError::NotWritten(_) => {
                "name a file that you may read and write"
            }
            StoreError::Exists => "name a new file",
            StoreError::NoSchema(_) | StoreError::OtherSchema { .. } | StoreError::Line { .. } => {
                "name a file that the same command of this version wrote, or a new one"
            }
            StoreError::OtherProvenance(_) => "name another file, or use the options of this one",
        }
    }
}

/// Lists schemas for [`StoreError::OtherSchema`].
pub fn expected(schemas: &[(&str, u32)]) -> String {
    let one = |(name, version): &(&str, u32)| format!("`{name}` version {version}");
    schemas.iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// Reads the schema of a file's contents.
pub fn schema(bytes: &[u8]) -> Result<Schema, StoreError> {
    #[derive(Deserialize)]
    struct Envelope {
        schema: Schema,
    }
    let first =
        lines(bytes).next().ok_or_else(|| StoreError::NoSchema("there is no complete line".to_owned()))?;
    let envelope: Envelope =
        serde_json::from_slice(first).map_err(|error| StoreError::NoSchema(error.to_string()))?;
    Ok(envelope.schema)
}

/// Parses and validates a file's contents.
pub fn parse<T: Stored>(bytes: &[u8]) -> Result<T, StoreError> {
    let found = schema(bytes)?;
    if (found.name.as_str(), found.version) != (T::NAME, T::VERSION) {
        return Err(StoreError::OtherSchema { found, expected: expected(&[(T::NAME, T::VERSION)]) });
    }
    let mut lines = lines(bytes);
    let first = lines.next().unwrap_or_default();
    let header: Header<T::Provenance> = serde_json::from_slice(first).map_err(StoreError::header)?;
    let record = |(n, line)| serde_json::from_slice(line).map_err(|error| StoreError::record(n, error));
    T::combine(header.provenance, lines.enumerate().map(record).collect::<Result<_, _>>()?)
}

/// Length of the complete lines.
fn complete(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// The complete lines.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes[..complete(bytes)].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The bytes of a file with these contents.
pub fn encode<T: Stored>(contents: &T) -> io::Result<Vec<u8>> {
    let (provenance, records) = contents.parts();
    let schema = Schema { name: T::NAME.to_owned(), version: T::VERSION };
    let mut bytes = line(&Header { schema, provenance })?;
    for record in &records {
        bytes.extend(line(record)?);
    }
    Ok(bytes)
}

fn line<V: Serialize>(value: &V) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// An open result file. Without a path, nothing is stored.
#[derive(Debug)]
pub struct Store<T> {
    path: Option<PathBuf>,
    file: Option<File>,
    contents: PhantomData<fn() -> T>,
}

impl<T: Stored> Store<T> {
    /// Creates a file with these contents. An existing file is an error.
    pub fn create(path: Option<&Path>, contents: &T) -> Result<Store<T>, StoreError> {
        if path.is_some_and(Path::exists) {
            return Err(StoreError::Exists);
        }
        let mut store = Store { path: path.map(Path::to_owned), file: None, contents: PhantomData };
        store.replace(contents)?;
        Ok(store)
    }

    /// Resumes a file and returns its contents, or creates it with `empty`, which holds the provenance of the records
    /// to come.
    pub fn resume(path: Option<&Path>, empty: T) -> Result<(Store<T>, T), StoreError> {
        let Some(path) = path.filter(|path| path.exists()) else {
            return Ok((Store::create(path, &empty)?, empty));
        };
        let bytes = fs::read(path).map_err(StoreError::Unreadable)?;
        let found: T = parse(&bytes)?;
        let differences = found.differences(&empty);
        if !differences.is_empty() {
            return Err(StoreError::OtherProvenance(differences.join("; ")));
        }
        let file = File::options().append(true).open(path).map_err(StoreError::NotWritten)?;
        file.set_len(complete(&bytes) as u64).map_err(StoreError::NotWritten)?;
        Ok((Store { path: Some(path.to_owned()), file: Some(file), contents: PhantomData }, found))
    }

    /// Path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Appends a record.
    pub fn append(&mut self, record: &T::Record) -> Result<(), StoreError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        line(record).and_then(|line| file.write_all(&line)).map_err(StoreError::NotWritten)
    }

    /// Replaces the contents. The file is renamed from `<path>.partial` once that is complete.
    pub fn replace(&mut self, contents: &T) -> Result<(), StoreError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let written = encode(contents).and_then(|bytes| {
            let mut file = File::create(&partial)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            fs::rename(&partial, path)?;
            Ok(file)
        });
        self.file = Some(written.map_err(StoreError::NotWritten)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Numbers(String, Vec<u32>);

    impl Stored for Numbers {
        const NAME: &'static str = "numbers";
        type Provenance = String;
        type Record = u32;

        fn parts(&self) -> (String, Vec<u32>) {
            (self.0.clone(), self.1.clone())
        }

        fn combine(provenance: String, records: Vec<u32>) -> Result<Self, StoreError> {
            match records.iter().position(|record| *record == 13) {
                Some(n) => Err(StoreError::record(n, "13")),
                None => Ok(Numbers(provenance, records)),
            }
        }

        fn differences(&self, here: &Self) -> Vec<String> {
            if self.0 == here.0 { Vec::new() } else { vec![format!("{} there, {} here", self.0, here.0)] }
        }
    }

    fn empty() -> Numbers {
        Numbers("a build".to_owned(), Vec::new())
    }

    #[test]
    fn file_of_another_schema_is_rejected_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.jsonl");
        let version_2 = "{\"schema\":{\"name\":\"numbers\",\"version\":2},\"provenance\":\"a build\"}\n";
        for (text, reason) in [
            ("", "line 1 has no valid `schema`: there is no complete line"),
            ("{}\n", "line 1 has no valid `schema`: missing field `schema`"),
            (version_2, "its schema is `numbers` version 2: expected `numbers` version 1"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Store::resume(Some(&path), empty()).unwrap_err();
            assert!(error.to_string().starts_with(reason), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn invalid_lines_are_named() {
        let bytes = encode(&Numbers("p".to_owned(), vec![1, 13])).unwrap();
        assert_eq!(parse::<Numbers>(&bytes).unwrap_err().to_string(), "line 3 is invalid: 13");
        let text = String::from_utf8(bytes).unwrap().replace("13", "{}");
        assert!(
            parse::<Numbers>(text.as_bytes()).unwrap_err().to_string().starts_with("line 3 is invalid: ")
        );
    }

    #[test]
    fn other_provenance_and_existing_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.jsonl");
        Store::create(Some(&path), &empty()).unwrap();
        assert!(matches!(Store::create(Some(&path), &empty()), Err(StoreError::Exists)));
        let error = Store::resume(Some(&path), Numbers("another".to_owned(), Vec::new())).unwrap_err();
        assert!(matches!(&error, StoreError::OtherProvenance(text) if text == "a build there, another here"));
        let error = Store::create(Some(Path::new("/nonexistent/f.jsonl")), &empty()).unwrap_err();
        assert!(matches!(error, StoreError::NotWritten(_)));
        // No temporary file remains.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn truncated_file_resumes_with_its_complete_records(
            records in prop::collection::vec(20..u32::MAX, 0..20), more in 20..u32::MAX, cut in any::<prop::sample::Index>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f.jsonl");
            let (mut store, _) = Store::resume(Some(&path), empty()).unwrap();
            let header = fs::read(&path).unwrap().len();
            for record in &records {
                store.append(record).unwrap();
            }
            let bytes = fs::read(&path).unwrap();
            prop_assert_eq!(&encode(&Numbers(empty().0, records.clone())).unwrap(), &bytes);
            fs::write(&path, &bytes[..header + cut.index(bytes.len() - header + 1)]).unwrap();
            let (mut store, found) = Store::resume(Some(&path), empty()).unwrap();
            prop_assert_eq!(&found.1, &records[..found.1.len()]);
            store.append(&more).unwrap();
            let again: Numbers = parse(&fs::read(&path).unwrap()).unwrap();
            prop_assert_eq!(again.1.len(), found.1.len() + 1);
            store.replace(&empty()).unwrap();
            store.append(&more).unwrap();
            prop_assert_eq!(parse::<Numbers>(&fs::read(&path).unwrap()).unwrap().1, [more]);
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<Numbers>(&bytes);
            let mut file = encode(&empty()).unwrap();
            file.extend(bytes);
            file.push(b'\n');
            let _ = parse::<Numbers>(&file);
        }
    }
}
