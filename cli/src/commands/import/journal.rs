//! The file of a standalone database (ovsdb(5)): a schema and then transactions, each with a line that has its length.
//!
//! Since Open vSwitch 2.16, transactions with `_is_diff` have the differences of columns instead of their values.

use super::database::{Atom, Database, Datum, MAX_ROWS, NotDatum};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Beginning of the line before each record.
pub(super) const MAGIC: &[u8] = b"OVSDB JSON ";
/// Beginning of the file of a clustered database.
pub(super) const CLUSTERED: &[u8] = b"OVSDB CLUSTER ";

/// The file is not one of a standalone database.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("record {0} has no valid header")]
    Header(usize),
    #[error("record {0} is cut short")]
    Short(usize),
    #[error("record {0} is not valid JSON: {1}")]
    Json(usize, serde_json::Error),
    #[error("record {0} is not a transaction")]
    Shape(usize),
    #[error("record {0}: {1}")]
    Value(usize, NotDatum),
    #[error("it has more than {MAX_ROWS} rows")]
    Rows,
}

type Columns = BTreeMap<String, Datum>;
type Rows = BTreeMap<(String, String), Columns>;

/// Reads a whole file.
pub(super) fn read(mut bytes: &[u8]) -> Result<Database, JournalError> {
    let (mut rows, mut schema, mut number) = (Rows::new(), Value::Null, 0);
    while !bytes.is_empty() {
        let (record, rest) = record(bytes, number)?;
        bytes = rest;
        match number {
            0 => schema = record,
            _ => apply(&mut rows, &schema, &record, number)?,
        }
        number += 1;
    }
    let mut database = Database::default();
    for ((table, uuid), columns) in rows {
        database.add(&table, &uuid, columns);
    }
    Ok(database)
}

/// Reads the first record: a line with the length and a checksum, and JSON. The checksum guards against a crash while
/// the file was written, which also leaves it short or invalid.
fn record(bytes: &[u8], number: usize) -> Result<(Value, &[u8]), JournalError> {
    let header = || JournalError::Header(number);
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(header)?;
    let end = rest.iter().take(100).position(|byte| *byte == b'\n').ok_or_else(header)?;
    let line = std::str::from_utf8(&rest[..end]).map_err(|_| header())?;
    let length: usize = line.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(header)?;
    let body = &rest[end + 1..];
    let (json, rest) = body.split_at_checked(length).ok_or(JournalError::Short(number))?;
    let record = serde_json::from_slice(json).map_err(|error| JournalError::Json(number, error))?;
    Ok((record, rest))
}

/// Applies a transaction: for each table, rows by their identifiers; null is a row that was deleted.
fn apply(rows: &mut Rows, schema: &Value, record: &Value, number: usize) -> Result<(), JournalError> {
    let shape = || JournalError::Shape(number);
    let record = record.as_object().ok_or_else(shape)?;
    let is_diff = record.get("_is_diff") == Some(&Value::Bool(true));
    for (table, changes) in record.iter().filter(|(table, _)| !table.starts_with('_')) {
        for (uuid, change) in changes.as_object().ok_or_else(shape)? {
            let key = (table.clone(), uuid.clone());
            match change {
                Value::Null => _ = rows.remove(&key),
                Value::Object(columns) => {
                    let is_new = !rows.contains_key(&key);
                    let row = rows.entry(key).or_default();
                    let types = (is_diff && !is_new).then(|| &schema["tables"][table]["columns"]);
                    change_row(row, columns, types).map_err(|error| JournalError::Value(number, error))?;
                }
                _ => return Err(shape()),
            }
        }
        if rows.len() > MAX_ROWS {
            return Err(JournalError::Rows);
        }
    }
    Ok(())
}

/// Changes columns of a row: to new values, or by differences if there are types.
fn change_row(
    row: &mut Columns,
    columns: &Map<String, Value>,
    types: Option<&Value>,
) -> Result<(), NotDatum> {
    for (column, value) in columns {
        let new = Datum::parse(value)?;
        let is_difference = types.is_some_and(|types| is_composite(&types[column]["type"]));
        match row.get_mut(column) {
            Some(old) if is_difference => differ(old, new),
            _ => _ = row.insert(column.clone(), new),
        }
    }
    Ok(())
}

/// Whether a column has any number of values, or pairs.
fn is_composite(kind: &Value) -> bool {
    let is_one = |bound: &Value| bound.is_null() || bound == 1;
    kind.is_object() && !(kind["value"].is_null() && is_one(&kind["min"]) && is_one(&kind["max"]))
}

/// Applies a difference: atoms and pairs that exist are removed, others are added; a key with another value gets it.
fn differ(old: &mut Datum, change: Datum) {
    match (old, change) {
        (Datum::Set(old), Datum::Set(change)) => {
            for atom in change {
                match old.iter().position(|own| *own == atom) {
                    Some(at) => _ = old.remove(at),
                    None => old.push(atom),
                }
            }
        }
        (Datum::Map(old), Datum::Map(change)) => change.into_iter().for_each(|pair| differ_pair(old, pair)),
        (old, change) => *old = change,
    }
}

fn differ_pair(old: &mut Vec<(Atom, Atom)>, (key, value): (Atom, Atom)) {
    match old.iter().position(|(own, _)| *own == key) {
        Some(at) if old[at].1 == value => _ = old.remove(at),
        Some(at) => old[at].1 = value,
        None => old.push((key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"tables":{"Port":{"columns":{"name":{"type":"string"},"tag":{"type":{"key":"integer",
        "min":0,"max":1}},"trunks":{"type":{"key":"integer","min":0,"max":4096}},"other_config":{"type":{"key":"string",
        "value":"string","min":0,"max":"unlimited"}}}}}}"#;

    fn file(records: &[&str]) -> Vec<u8> {
        let record = |text: &&str| format!("OVSDB JSON {} 0123\n{text}", text.len());
        [&[SCHEMA][..], records].concat().iter().map(record).collect::<String>().into_bytes()
    }

    #[test]
    fn values_and_differences_are_applied() {
        let whole = r#"{"Port":{"u1":{"name":"a","tag":1,"trunks":["set",[1,2]],
            "other_config":["map",[["x","1"],["y","2"]]]},"u2":{"name":"b"}},"_date":1,"_is_diff":true}"#;
        let difference = r#"{"Port":{"u1":{"name":"c","tag":["set",[1,3]],"trunks":["set",[2,3]],
            "other_config":["map",[["x","1"],["y","9"],["z","4"]]]},"u2":null},"_is_diff":true}"#;
        let value = r#"{"Port":{"u1":{"trunks":["set",[7]]}},"_comment":"x"}"#;
        let database = read(&file(&[whole, difference])).unwrap();
        assert_eq!(database.len(), 1);
        let row = database.table("Port").next().unwrap();
        assert_eq!(
            (row.text("name"), row.integer("tag"), row.integers("trunks")),
            ("c", Some(3), vec![1, 3])
        );
        let config: Vec<_> = ["x", "y", "z"].map(|key| row.key("other_config", key)).into();
        assert_eq!(config, [None, Some("9"), Some("4")]);
        let database = read(&file(&[whole, difference, value])).unwrap();
        assert_eq!(database.table("Port").next().unwrap().integers("trunks"), [7]);
    }

    #[test]
    fn invalid_files_are_one_error() {
        let bytes = file(&[r#"{"Port":{"u1":{"name":"a"}}}"#]);
        let cut = &bytes[..bytes.len() - 1];
        for (bytes, expected) in [
            (cut, "record 1 is cut short"),
            (b"OVSDB JSON x\n", "record 0 has no valid header"),
            (b"OVSDB JSON 99999999999999999999 x\n", "record 0 has no valid header"),
            (b"OVSDB JSON 1 x\n{", "record 0 is not valid JSON"),
            (&file(&["[]"]), "record 1 is not a transaction"),
            (&file(&[r#"{"Port":1}"#]), "record 1 is not a transaction"),
            (&file(&[r#"{"Port":{"u":{"name":null}}}"#]), "record 1: null is not a value"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
