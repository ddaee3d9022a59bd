//! Rows of an Open vSwitch database, and which of their columns have been read.
//!
//! Reading a column marks it, so that settings that the translation does not know are found at the end ([`Row::rest`])
//! and none is lost silently.

use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of rows of a database: far above those of a switch with 1024 ports.
pub(super) const MAX_ROWS: usize = 200_000;

/// A value of a column, or part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    Text(String),
    Integer(i64),
    Real(f64),
    Flag(bool),
    Uuid(String),
}

/// A column: a set, of which scalars are the case of one element, or a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Datum {
    Set(Vec<Atom>),
    Map(Vec<(Atom, Atom)>),
}

/// A value is not one of RFC 7047, section 5.1.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} is not a value of a database")]
pub(super) struct NotDatum(String);

impl Atom {
    fn parse(value: &Value) -> Result<Self, NotDatum> {
        let tagged = |value: &Value| match value.as_array().map(Vec::as_slice) {
            Some([Value::String(tag), Value::String(text)]) if tag == "uuid" => Some(text.clone()),
            _ => None,
        };
        match value {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::Bool(flag) => Ok(Self::Flag(*flag)),
            Value::Number(number) => {
                let real = || Self::Real(number.as_f64().unwrap_or(f64::NAN));
                Ok(number.as_i64().map_or_else(real, Self::Integer))
            }
            other => tagged(other).map(Self::Uuid).ok_or_else(|| NotDatum::of(other)),
        }
    }

    /// The atom as text, without quotes.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Uuid(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    fn uuid(&self) -> Option<&str> {
        if let Self::Uuid(uuid) = self { Some(uuid) } else { None }
    }

    /// Whether it is the default of a column: false, 0 or the empty text.
    fn is_default(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Integer(number) => *number == 0,
            Self::Flag(flag) => !flag,
            Self::Real(_) | Self::Uuid(_) => false,
        }
    }
}

impl NotDatum {
    fn of(value: &Value) -> Self {
        Self(value.to_string().chars().take(60).collect())
    }
}

impl Datum {
    /// Parses a value of RFC 7047, section 5.1.
    pub(super) fn parse(value: &Value) -> Result<Self, NotDatum> {
        let list = match value.as_array().map(Vec::as_slice) {
            Some([Value::String(tag), Value::Array(list)]) if tag == "set" || tag == "map" => {
                Some((tag == "map", list))
            }
            _ => None,
        };
        match list {
            None => Ok(Self::Set(vec![Atom::parse(value)?])),
            Some((false, list)) => list.iter().map(Atom::parse).collect::<Result<_, _>>().map(Self::Set),
            Some((true, list)) => list.iter().map(pair).collect::<Result<_, _>>().map(Self::Map),
        }
    }

    fn atoms(&self) -> &[Atom] {
        match self {
            Self::Set(atoms) => atoms,
            Self::Map(_) => &[],
        }
    }

    fn pairs(&self) -> &[(Atom, Atom)] {
        match self {
            Self::Map(pairs) => pairs,
            Self::Set(_) => &[],
        }
    }
}

fn pair(value: &Value) -> Result<(Atom, Atom), NotDatum> {
    match value.as_array().map(Vec::as_slice) {
        Some([key, value]) => Ok((Atom::parse(key)?, Atom::parse(value)?)),
        _ => Err(NotDatum::of(value)),
    }
}

/// One row of a table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) table: String,
    pub(super) uuid: String,
    columns: BTreeMap<String, Datum>,
    /// Columns that were read, and keys of maps as `column:key`.
    read: RefCell<BTreeSet<String>>,
    /// Whether another row or the translation refers to it.
    is_used: Cell<bool>,
}

impl Row {
    fn datum(&self, column: &str) -> Option<&Datum> {
        self.read.borrow_mut().insert(column.to_owned());
        self.columns.get(column)
    }

    fn atoms(&self, column: &str) -> &[Atom] {
        self.datum(column).map_or(&[], Datum::atoms)
    }

    /// Name of the row for people: its `name` or `target`, or the start of its identifier.
    pub(super) fn name(&self) -> &str {
        let names = ["name", "target"].map(|column| self.text(column));
        let short = self.uuid.get(..8).unwrap_or(&self.uuid);
        names.into_iter().find(|name| !name.is_empty()).unwrap_or(short)
    }

    /// The text of a column; empty if it has none.
    pub(super) fn text(&self, column: &str) -> &str {
        self.texts(column).first().copied().unwrap_or_default()
    }

    /// All texts of a column.
    pub(super) fn texts(&self, column: &str) -> Vec<&str> {
        self.atoms(column).iter().filter_map(Atom::text).collect()
    }

    /// The integer of a column.
    pub(super) fn integer(&self, column: &str) -> Option<i64> {
        self.integers(column).first().copied()
    }

    /// All integers of a column.
    pub(super) fn integers(&self, column: &str) -> Vec<i64> {
        self.atoms(column).iter().filter_map(Atom::integer).collect()
    }

    /// Whether a column is true.
    pub(super) fn flag(&self, column: &str) -> bool {
        self.atoms(column).first() == Some(&Atom::Flag(true))
    }

    /// Identifiers of the rows that a column refers to, also as values of a map.
    fn references(&self, column: &str) -> Vec<&str> {
        let values = self.datum(column).map_or(&[][..], Datum::pairs).iter().map(|(_, value)| value);
        self.atoms(column).iter().chain(values).filter_map(Atom::uuid).collect()
    }

    /// The value of a key of a map of texts; `None` if it is missing or empty.
    pub(super) fn key(&self, column: &str, key: &str) -> Option<&str> {
        self.read.borrow_mut().insert(format!("{column}:{key}"));
        let pairs = self.columns.get(column).map_or(&[][..], Datum::pairs);
        pairs.iter().find_map(|pair| match pair {
            (Atom::Text(own), Atom::Text(value)) if own == key && !value.is_empty() => Some(value.as_str()),
            _ => None,
        })
    }

    /// Whether a key of a map is `true`.
    pub(super) fn key_flag(&self, column: &str, key: &str) -> bool {
        self.key(column, key) == Some("true")
    }

    /// Pairs of a map from integers to rows.
    fn numbered(&self, column: &str) -> Vec<(i64, &str)> {
        let pairs = self.datum(column).map_or(&[][..], Datum::pairs);
        let numbered = |pair| match pair {
            &(Atom::Integer(number), Atom::Uuid(ref uuid)) => Some((number, uuid.as_str())),
            _ => None,
        };
        pairs.iter().filter_map(numbered).collect()
    }

    /// All pairs of a map as text.
    pub(super) fn pairs(&self, column: &str) -> Vec<(String, String)> {
        let pairs = self.datum(column).map_or(&[][..], Datum::pairs);
        pairs.iter().map(|(key, value)| (key.shown(), value.shown())).collect()
    }

    /// Columns, and keys of maps as `column:key`, with values that are not defaults and were not read.
    pub(super) fn rest(&self) -> Vec<(String, String)> {
        let read = self.read.borrow();
        let mut rest = Vec::new();
        for (column, datum) in self.columns.iter().filter(|(column, _)| !read.contains(column.as_str())) {
            match datum {
                Datum::Set(atoms) if atoms.iter().any(|atom| !atom.is_default()) => {
                    let shown: Vec<_> = atoms.iter().map(Atom::shown).collect();
                    rest.push((column.clone(), shown.join(" ")));
                }
                Datum::Set(_) => {}
                Datum::Map(pairs) => rest.extend(
                    pairs.iter().map(|(key, value)| (format!("{column}:{}", key.shown()), value.shown())),
                ),
            }
        }
        rest.retain(|(column, _)| !read.contains(column.as_str()));
        rest
    }
}

/// All rows of a database.
#[derive(Debug, Default)]
pub(super) struct Database {
    rows: Vec<Row>,
    /// Indices of rows by their identifiers.
    index: HashMap<String, usize>,
}

impl Database {
    /// Adds a row.
    pub(super) fn add(&mut self, table: &str, uuid: &str, columns: BTreeMap<String, Datum>) {
        let (table, uuid) = (table.to_owned(), uuid.to_owned());
        self.index.entry(uuid.clone()).or_insert(self.rows.len());
        self.rows.push(Row { table, uuid, columns, read: RefCell::default(), is_used: Cell::new(false) });
    }

    /// Adds a row of a table from an object of columns, one of which is `_uuid`.
    pub(super) fn add_object(&mut self, table: &str, object: &Value) -> Result<(), NotDatum> {
        let columns = object.as_object().ok_or_else(|| NotDatum::of(object))?;
        let parse = |(name, value): (&String, &Value)| Ok((name.clone(), Datum::parse(value)?));
        let mut columns: BTreeMap<_, _> = columns.iter().map(parse).collect::<Result<_, _>>()?;
        let uuid = match columns.remove("_uuid") {
            Some(Datum::Set(atoms)) => atoms.first().map(Atom::shown),
            _ => None,
        };
        columns.remove("_version");
        self.add(table, &uuid.ok_or_else(|| NotDatum("a row without `_uuid`".to_owned()))?, columns);
        Ok(())
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Rows of a table.
    pub(super) fn table<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.table == table)
    }

    /// Rows of `table` that a column of `row` refers to, in the order of the column. They are used from now on.
    pub(super) fn referred<'a>(&'a self, row: &Row, column: &str, table: &str) -> Vec<&'a Row> {
        let wanted = row.references(column);
        let found = wanted.into_iter().filter_map(|uuid| self.find(table, uuid));
        found.inspect(|row| row.is_used.set(true)).collect()
    }

    /// Rows that a map from integers refers to, by these integers.
    pub(super) fn numbered<'a>(&'a self, row: &Row, column: &str, table: &str) -> Vec<(i64, &'a Row)> {
        let wanted = row.numbered(column);
        let found = wanted.into_iter().filter_map(|(number, uuid)| Some((number, self.find(table, uuid)?)));
        let mut found: Vec<_> = found.inspect(|(_, row)| row.is_used.set(true)).collect();
        found.sort_by_key(|(number, _)| *number);
        found
    }

    fn find(&self, table: &str, uuid: &str) -> Option<&Row> {
        self.index.get(uuid).map(|at| &self.rows[*at]).filter(|row| row.table == table)
    }

    /// Rows that nothing has referred to.
    pub(super) fn unused(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.is_used.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(object: &Value) -> Database {
        let mut database = Database::default();
        database.add_object("Port", object).unwrap();
        database
    }

    #[test]
    fn values_have_the_forms_of_the_protocol() {
        let database = row(&json!({
            "_uuid": ["uuid", "0123456789"], "name": "p1", "tag": 10, "trunks": ["set", [1, 2]], "qos": ["set", []],
            "interfaces": ["uuid", "abc"], "protected": true, "other_config": ["map", [["a", "b"], ["c", ""]]],
        }));
        let row = database.table("Port").next().unwrap();
        assert_eq!((row.name(), row.integer("tag"), row.integers("trunks")), ("p1", Some(10), vec![1, 2]));
        assert_eq!((row.flag("protected"), row.references("qos")), (true, vec![]));
        assert_eq!(row.references("interfaces"), ["abc"]);
        assert_eq!((row.key("other_config", "a"), row.key("other_config", "c")), (Some("b"), None));
        assert_eq!((row.text("tag"), row.integer("name"), row.text("no")), ("", None, ""));
    }

    #[test]
    fn what_was_not_read_is_known() {
        let database = row(&json!({
            "_uuid": ["uuid", "1"], "a": 0, "b": false, "c": "", "d": ["set", []], "tag": 10,
            "other_config": ["map", [["x", "1"], ["y", "2"]]],
        }));
        let row = database.table("Port").next().unwrap();
        assert_eq!(row.key("other_config", "x"), Some("1"));
        let rest = [("other_config:y".to_owned(), "2".to_owned()), ("tag".to_owned(), "10".to_owned())];
        assert_eq!(row.rest(), rest);
        row.integer("tag");
        row.pairs("other_config");
        assert_eq!(row.rest(), []);
    }

    #[test]
    fn other_forms_are_refused() {
        for value in [json!(null), json!({}), json!(["set", 1]), json!(["map", [[1]]]), json!([["uuid"]])] {
            assert!(Datum::parse(&value).is_err(), "{value}");
        }
        assert!(Database::default().add_object("T", &json!({"name": "x"})).is_err());
        assert!(Database::default().add_object("T", &json!([])).is_err());
    }
}
