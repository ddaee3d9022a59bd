//! Changes of a running switch in the text of its configuration file. Comments, order and the form of values that did
//! not change are kept.
//!
//! The result is text only; nothing here writes a file.

mod workers;

use super::changes::{Changes, Edit, key_changes};
use super::conntrack::ConntrackSettings;
use super::section;
use super::topology::{BridgeSettings, StaticEntry, Topology};
use serde::Serialize;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

/// The text could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// The text is not TOML.
    #[error("the text is not TOML: {0}")]
    Syntax(#[from] toml_edit::TomlError),
    /// Settings have no TOML form.
    #[error("{0}")]
    Form(#[from] toml::ser::Error),
    /// The text has a section in a form that cannot be changed.
    #[error("[[{0}]] is not a list of sections")]
    NotSections(&'static str),
    /// A running switch has changes that no text expresses.
    #[error("{0} cannot be written: {1}")]
    NotExpressed(&'static str, &'static str),
}

/// `text`, which describes `before`, changed so that it describes `after`.
pub(crate) fn update(text: &str, before: &Topology, after: &Topology) -> Result<String, DocumentError> {
    let changes = Changes::between(before, after);
    if changes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse()?;
    let root = document.as_table_mut();
    bridges(root, before, &changes)?;
    changes.ports.iter().try_for_each(|edit| change(root, "port", edit))?;
    changes.bonds.iter().try_for_each(|edit| change(root, "bond", edit))?;
    changes.mirrors.iter().try_for_each(|edit| change(root, "mirror", edit))?;
    for edit in &changes.statics {
        let (bridge, _) = edit.any();
        // The section of a bridge that was removed is gone with its entries.
        if !after.bridges.iter().any(|other| other.name == *bridge) {
            continue;
        }
        let bridge = named_or_new(sections(root, "bridge")?, bridge);
        change_static(bridge, edit)?;
    }
    if changes.has("conntrack") {
        conntrack(root, &before.conntrack, &after.conntrack)?;
    }
    if ["worker", "model", "placement"].iter().any(|name| changes.has(name)) {
        workers::update(root, before, after)?;
    }
    Ok(document.to_string())
}

/// The sections `[[name]]`, which may be missing.
fn sections<'a>(table: &'a mut Table, name: &'static str) -> Result<&'a mut ArrayOfTables, DocumentError> {
    let item = table.entry(name).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let inline = item.as_array().is_some_and(|array| array.iter().all(Value::is_inline_table));
    if inline && let Ok(sections) = std::mem::take(item).into_array_of_tables() {
        *item = Item::ArrayOfTables(sections);
    }
    item.as_array_of_tables_mut().ok_or(DocumentError::NotSections(name))
}

fn name_of(table: &Table) -> Option<&str> {
    table.get("name")?.as_str()
}

/// Adds, removes or changes the section of a named object.
fn change<T: Serialize>(root: &mut Table, noun: &'static str, edit: &Edit<T>) -> Result<(), DocumentError> {
    let json = serde_json::to_value(edit.any()).unwrap_or_default();
    let name = json.get("name").and_then(|name| name.as_str()).unwrap_or_default();
    let sections = sections(root, noun)?;
    let place = sections.iter().position(|section| name_of(section) == Some(name));
    match (place, &edit.old, &edit.new) {
        (Some(place), Some(old), Some(new)) => {
            let table = sections.get_mut(place).ok_or(DocumentError::NotSections(noun))?;
            set_keys(table, &first_section(noun, new)?, old, new);
        }
        (Some(place), _, None) => drop(sections.remove(place)),
        (None, _, Some(new)) => sections.push(separated(first_section(noun, new)?)),
        _ => {}
    }
    Ok(())
}

/// Sets the keys of `table` whose values differ between `old` and `new` to those of `source`.
fn set_keys<T: Serialize>(table: &mut dyn TableLike, source: &Table, old: &T, new: &T) {
    let [old, new] = [old, new].map(|object| serde_json::to_value(object).unwrap_or_default());
    for changed in key_changes(&old, &new) {
        match source.get(&changed.key) {
            Some(item) => drop(table.insert(&changed.key, item.clone())),
            None => drop(table.remove(&changed.key)),
        }
    }
}

/// Sections whose `bridge` may be left out if there is only one.
const OF_A_BRIDGE: [&str; 7] = ["port", "bond", "mirror", "grant", "flow", "acl", "underlay"];

/// Bridges that were added, changed or removed. What belongs to the only bridge names it once there are others.
fn bridges(root: &mut Table, before: &Topology, changes: &Changes) -> Result<(), DocumentError> {
    let is_added = changes.bridges.iter().any(|edit| edit.old.is_none());
    if let (true, [only]) = (is_added, before.bridges.as_slice()) {
        named_or_new(sections(root, "bridge")?, &only.name);
        for noun in OF_A_BRIDGE.into_iter().filter(|noun| root.contains_key(noun)).collect::<Vec<_>>() {
            for section in sections(root, noun)?.iter_mut() {
                section.entry("bridge").or_insert_with(|| only.name.as_str().into());
            }
        }
    }
    for edit in &changes.bridges {
        let bridges = sections(root, "bridge")?;
        match (&edit.old, &edit.new) {
            (None, Some(new)) => bridges.push(separated(bridge_section(new)?)),
            (Some(old), None) => bridges.retain(|section| name_of(section) != Some(&old.name)),
            (Some(old), Some(new)) => {
                set_keys(named_or_new(bridges, &new.name), &bridge_section(new)?, old, new);
            }
            (None, None) => {}
        }
    }
    Ok(())
}

fn bridge_section(bridge: &BridgeSettings) -> Result<Table, DocumentError> {
    short_section("bridge", bridge, &BridgeSettings::named(&bridge.name))
}

/// Settings as a section of their own, with the name and the keys that differ from `default`.
fn short_section<T: Serialize>(
    noun: &'static str,
    settings: &T,
    default: &T,
) -> Result<Table, DocumentError> {
    let (mut section, default) = (first_section(noun, settings)?, first_section(noun, default)?);
    let is_default = |key: &str, item: &Item| {
        default.get(key).is_some_and(|other| other.to_string().trim() == item.to_string().trim())
    };
    section.retain(|key, item| key == "name" || !is_default(key, item));
    Ok(section)
}

/// Settings as a section of their own.
fn first_section(noun: &'static str, settings: &impl Serialize) -> Result<Table, DocumentError> {
    let text: DocumentMut = section::of(noun, settings)?.parse()?;
    let sections = text.get(noun).and_then(Item::as_array_of_tables);
    let section = sections.and_then(|sections| sections.get(0)).ok_or(DocumentError::NotSections(noun))?;
    Ok(inlined(section.clone()))
}

/// A section whose tables are values: a table of its own would end the section.
fn inlined(mut section: Table) -> Table {
    for (_, item) in section.iter_mut() {
        if !item.is_value()
            && let Ok(value) = std::mem::take(item).into_value()
        {
            *item = Item::Value(value);
        }
    }
    section
}

/// A section behind an empty line. It has no place of its own, so that it follows the last one.
fn separated(mut section: Table) -> Table {
    section.decor_mut().set_prefix("\n");
    section.set_position(None);
    section
}

/// The bridge of a static entry. The only bridge may have no section.
fn named_or_new<'a>(bridges: &'a mut ArrayOfTables, name: &str) -> &'a mut Table {
    let known = bridges.iter().position(|bridge| name_of(bridge) == Some(name));
    let place = known.unwrap_or_else(|| {
        let mut table = separated(Table::new());
        table.insert("name", name.into());
        bridges.push(table);
        bridges.len() - 1
    });
    bridges.get_mut(place).unwrap_or_else(|| unreachable!("the place of a bridge"))
}

fn change_static(bridge: &mut Table, edit: &Edit<(String, StaticEntry)>) -> Result<(), DocumentError> {
    let entries = sections(bridge, "static")?;
    let (_, entry) = edit.any();
    let is_it = |table: &Table| {
        let mac = table.get("mac").and_then(Item::as_str).and_then(|mac| mac.parse().ok());
        let vlan = table.get("vlan").and_then(Item::as_integer).unwrap_or(0);
        mac == Some(entry.mac) && vlan == i64::from(entry.vlan)
    };
    let place = entries.iter().position(is_it);
    if let Some(place) = place {
        entries.remove(place);
    }
    if let Some((_, new)) = &edit.new {
        entries.push(separated(first_section("static", new)?));
    }
    Ok(())
}

/// The keys of `[conntrack]` that differ.
fn conntrack(
    root: &mut Table,
    before: &ConntrackSettings,
    after: &ConntrackSettings,
) -> Result<(), DocumentError> {
    let [old, new] = [before, after].map(|settings| serde_json::to_value(settings).unwrap_or_default());
    let text: DocumentMut = toml::to_string(after)?.parse()?;
    let table = root.entry("conntrack").or_insert_with(|| Item::Table(separated(Table::new())));
    let table = table.as_table_mut().ok_or(DocumentError::NotSections("conntrack"))?;
    set_keys(table, &inlined(text.as_table().clone()), &old, &new);
    Ok(())
}

#[cfg(test)]
mod tests;
