//! Reads a database: from a running `ovsdb-server`, from its file, or from the listing of `ovsdb-client dump -f json`.
//!
//! The other party is not trusted: time, bytes and rows are bounded, and anything unexpected is one error.

use super::database::{Database, MAX_ROWS, NotDatum};
use super::journal;
use console::Diagnostic;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum size of a database in bytes.
const LARGEST: u64 = 256 << 20;
/// Maximum time of one read or write of the socket.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the database of a switch.
const NAME: &str = "Open_vSwitch";
/// Unasked messages, such as `echo`, before an answer.
const MAX_MESSAGES: usize = 100;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Socket of a running server.
    Socket(PathBuf),
    /// A file, or standard input as `-`.
    File(PathBuf),
}

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("it is larger than {} MiB", LARGEST >> 20)]
    Large,
    #[error("{0}")]
    Journal(#[from] journal::JournalError),
    #[error("it is the file of a clustered database")]
    Clustered,
    #[error("it is neither the file of a database nor a listing in JSON: {0}")]
    Form(String),
    #[error("the server answered with an error: {0}")]
    Refused(String),
    #[error("the server did not answer as RFC 7047 requires: {0}")]
    Answer(String),
    #[error("it is not the database of a switch: it has no row in the table {NAME}")]
    Other,
}

impl From<NotDatum> for SourceError {
    fn from(error: NotDatum) -> Self {
        Self::Form(error.to_string())
    }
}

impl SourceError {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "name a file that exists and that you may read",
            Self::Unreachable(error) if error.kind() == ErrorKind::PermissionDenied => {
                "run as root, or name a file: `ovsdb-client dump -f json > FILE`"
            }
            Self::Unreachable(_) => {
                "start ovsdb-server, or name its socket: --db unix:/run/openvswitch/db.sock"
            }
            Self::Clustered => "start its server, and name the socket: --db unix:PATH",
            Self::Refused(_) | Self::Answer(_) => "name the socket of the ovsdb-server of a switch",
            Self::Large | Self::Journal(_) | Self::Form(_) | Self::Other => {
                "name conf.db, or a file written by `ovsdb-client dump -f json`"
            }
        }
    }
}

/// Reads the database of a switch.
pub(super) fn read(source: &Source) -> Result<Database, Diagnostic> {
    let (place, read) = match source {
        Source::Socket(path) => (format!("--db unix:{}", path.display()), from_server(path)),
        Source::File(path) => (path.display().to_string(), from_file(path)),
    };
    let is_switch = |database: Database| {
        let is_switch = database.table(NAME).next().is_some();
        if is_switch { Ok(database) } else { Err(SourceError::Other) }
    };
    read.and_then(is_switch).map_err(|error| match error {
        SourceError::Unreachable(_) => Diagnostic::failed(place, &error, error.remedy()),
        _ => Diagnostic::bad(place, &error, error.remedy()),
    })
}

fn from_file(path: &Path) -> Result<Database, SourceError> {
    let bytes = if path == Path::new("-") {
        bounded(&mut io::stdin().lock())?
    } else {
        bounded(&mut File::open(path).map_err(SourceError::Unreadable)?)?
    };
    from_bytes(&bytes)
}

fn bounded(reader: &mut impl Read) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    reader.take(LARGEST + 1).read_to_end(&mut bytes).map_err(SourceError::Unreadable)?;
    if bytes.len() as u64 > LARGEST { Err(SourceError::Large) } else { Ok(bytes) }
}

/// Reads the content of a file of either form.
fn from_bytes(bytes: &[u8]) -> Result<Database, SourceError> {
    if bytes.starts_with(journal::CLUSTERED) {
        return Err(SourceError::Clustered);
    }
    if bytes.starts_with(journal::MAGIC) {
        return Ok(journal::read(bytes)?);
    }
    let mut database = Database::default();
    for listing in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let listing = listing.map_err(|error| SourceError::Form(error.to_string()))?;
        add_listing(&mut database, &listing)?;
    }
    Ok(database)
}

/// Adds a table of `ovsdb-client dump -f json`: its caption, its headings, and its cells.
fn add_listing(database: &mut Database, listing: &Value) -> Result<(), SourceError> {
    let form = |what: &str| SourceError::Form(what.to_owned());
    let caption = listing["caption"].as_str().unwrap_or_default();
    let table = caption.strip_suffix(" table").ok_or_else(|| form("a table has no caption"))?;
    let headings = listing["headings"].as_array().ok_or_else(|| form("a table has no headings"))?;
    let names: Vec<_> = headings.iter().map(|name| name.as_str().unwrap_or_default()).collect();
    for cells in listing["data"].as_array().ok_or_else(|| form("a table has no rows"))? {
        let cells = cells.as_array().filter(|cells| cells.len() == names.len());
        let cells = cells.ok_or_else(|| form("a row has another number of cells than its table"))?;
        let row = names.iter().map(|name| (*name).to_owned()).zip(cells.iter().cloned()).collect();
        add(database, table, &Value::Object(row))?;
    }
    Ok(())
}

fn add(database: &mut Database, table: &str, row: &Value) -> Result<(), SourceError> {
    if database.len() >= MAX_ROWS {
        return Err(SourceError::Form(format!("it has more than {MAX_ROWS} rows")));
    }
    Ok(database.add_object(table, row)?)
}

/// Reads all tables of a running server in one transaction.
fn from_server(path: &Path) -> Result<Database, SourceError> {
    let stream = UnixStream::connect(path).map_err(SourceError::Unreachable)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(SourceError::Unreachable)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(SourceError::Unreachable)?;
    let limited = io::BufReader::new((&stream).take(LARGEST));
    let mut messages = serde_json::Deserializer::from_reader(limited).into_iter::<Value>();
    let mut ask = |method: &str, params: Value| {
        let request = json!({ "method": method, "params": params, "id": method });
        (&stream).write_all(request.to_string().as_bytes()).map_err(SourceError::Unreachable)?;
        answer(&mut messages, method)
    };
    let schema = ask("get_schema", json!([NAME]))?;
    let tables = schema["tables"].as_object().ok_or_else(|| SourceError::Answer("no tables".to_owned()))?;
    let tables: Vec<&String> = tables.keys().collect();
    let select = |table: &&String| json!({ "op": "select", "table": table, "where": [] });
    let operations = [json!(NAME)].into_iter().chain(tables.iter().map(select)).collect();
    selected(&tables, &ask("transact", Value::Array(operations))?)
}

/// The next answer to a request.
fn answer(
    messages: &mut impl Iterator<Item = serde_json::Result<Value>>,
    method: &str,
) -> Result<Value, SourceError> {
    for message in messages.take(MAX_MESSAGES) {
        let mut message = message.map_err(|error| SourceError::Answer(error.to_string()))?;
        if message["id"] != method || !message["method"].is_null() {
            continue;
        }
        return match &message["error"] {
            Value::Null => Ok(message["result"].take()),
            error => Err(SourceError::Refused(error.to_string())),
        };
    }
    Err(SourceError::Answer("it closed the connection".to_owned()))
}

/// Rows of the answers to selections.
fn selected(tables: &[&String], result: &Value) -> Result<Database, SourceError> {
    let results = result.as_array().filter(|results| results.len() >= tables.len());
    let results = results.ok_or_else(|| SourceError::Answer("not all tables".to_owned()))?;
    let mut database = Database::default();
    for (table, result) in tables.iter().zip(results) {
        let rows = result["rows"].as_array().ok_or_else(|| SourceError::Refused(result.to_string()))?;
        rows.iter().try_for_each(|row| add(&mut database, table, row))?;
    }
    Ok(database)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const LISTING: &str =
        r#"{"caption":"Open_vSwitch table","headings":["_uuid","next_cfg"],"data":[[["uuid","1"],7]]}"#;

    /// A server with these answers, each for one request.
    fn served(answers: &'static [&'static str]) -> Result<Database, Diagnostic> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                assert!(stream.read(&mut [0; 8192]).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let database = read(&Source::Socket(path));
        server.join().unwrap();
        database
    }

    #[test]
    fn a_listing_and_a_server_have_the_same_rows() {
        let listed = from_bytes(LISTING.as_bytes()).unwrap();
        let answered = served(&[
            r#"{"method":"echo","params":[],"id":"echo"}{"id":"get_schema","error":null,
                "result":{"tables":{"Open_vSwitch":{}}}}"#,
            r#"{"id":"transact","error":null,"result":[{"rows":[{"_uuid":["uuid","1"],"next_cfg":7}]}]}"#,
        ])
        .unwrap();
        for database in [listed, answered] {
            assert_eq!(database.table("Open_vSwitch").next().unwrap().integer("next_cfg"), Some(7));
        }
    }

    #[test]
    fn an_answer_that_is_none_is_one_error() {
        for (answers, expected) in [
            (&["{"][..], "did not answer as RFC 7047 requires"),
            (&[""], "it closed the connection"),
            (&[r#"{"id":"get_schema","error":"unknown database","result":null}"#], "unknown database"),
            (&[r#"{"id":"get_schema","result":{}}"#], "no tables"),
            (
                &[r#"{"id":"get_schema","result":{"tables":{"A":{}}}}"#, r#"{"id":"transact"}"#],
                "not all tables",
            ),
            (
                &[
                    r#"{"id":"get_schema","result":{"tables":{"A":{}}}}"#,
                    r#"{"id":"transact","result":[{"error":"x"}]}"#,
                ],
                "answered with an error",
            ),
            (
                &[r#"{"id":"get_schema","result":{"tables":{}}}"#, r#"{"id":"transact","result":[]}"#],
                "not the database",
            ),
        ] {
            let error = served(answers).unwrap_err();
            assert!(error.reason.contains(expected), "{answers:?}: {error}");
        }
    }

    #[test]
    fn files_of_another_form_are_one_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for (content, expected) in [
            ("", "it is not the database of a switch"),
            ("hello", "neither the file of a database nor a listing"),
            ("{}", "a table has no caption"),
            (r#"{"caption":"A table"}"#, "no headings"),
            (r#"{"caption":"A table","headings":[]}"#, "no rows"),
            (r#"{"caption":"A table","headings":["_uuid"],"data":[[]]}"#, "another number of cells"),
            (r#"{"caption":"A table","headings":["a"],"data":[[1]]}"#, "a row without `_uuid`"),
            ("OVSDB CLUSTER 1 x\n", "clustered"),
            ("OVSDB JSON 9 x\n", "record 0 is cut short"),
        ] {
            std::fs::write(&file, content).unwrap();
            let error = read(&Source::File(file.clone())).unwrap_err();
            assert!(error.reason.contains(expected), "{content}: {error}");
            assert_eq!(error.code, console::BAD_INPUT);
        }
        let error = read(&Source::File(dir.path().join("none"))).unwrap_err();
        assert!(error.reason.contains("cannot be read"), "{error}");
        let error = read(&Source::Socket(dir.path().join("none"))).unwrap_err();
        assert_eq!(
            (error.code, error.reason.contains("cannot be reached")),
            (console::FAILED, true),
            "{error}"
        );
    }
}
