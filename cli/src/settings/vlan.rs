//! VLANs of a port.

use super::reader::fields::Fields;
use super::reader::node::{Node, Value};
use super::reader::shape::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// IEEE 802.1Q section 9.6: 0 and 4095 are reserved.
pub(crate) const RANGE: RangeInclusive<i128> = 1..=4094;

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Vlan {
    /// Untagged on the wire, this VLAN inside.
    Access(u16),
    /// Tagged on the wire.
    Trunk {
        trunk: Vec<u16>,
        /// The VLAN of untagged frames; `None`: untagged frames are dropped.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<u16>,
    },
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vlan::Access(vlan) => write!(f, "access VLAN {vlan}"),
            Vlan::Trunk { trunk, native } => {
                let list: Vec<String> = trunk.iter().map(ToString::to_string).collect();
                write!(f, "trunk VLANs {}", list.join(","))?;
                native.map_or(Ok(()), |native| write!(f, ", native {native}"))
            }
        }
    }
}

/// Reads `vlan = 10` or `vlan = { trunk = [10, 20], native = 1 }`.
pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Option<Vlan> {
    fields.accepts("vlan", || Shape::Integer(RANGE));
    fields.accepts("vlan", || Shape::Table);
    let place = fields.place("vlan");
    let node = fields.node("vlan")?;
    match &node.value {
        Value::Integer(vlan) => fields.within("vlan", *vlan, &RANGE, "as a VLAN").map(Vlan::Access),
        Value::Table(_) => read_trunk(&mut Fields::open_inner(node, place, fields.notes)),
        _ => fields.not("vlan", node, "a VLAN, or { trunk = [10, 20], native = 1 }"),
    }
}

fn read_trunk(fields: &mut Fields<'_, '_>) -> Option<Vlan> {
    let native = fields.number("native", RANGE, "as a VLAN");
    fields.accepts("trunk", || Shape::list(Shape::Integer(RANGE)));
    let trunk = fields.node("trunk");
    fields.report_unknown();
    let Some(Node { value: Value::List(list), .. }) = trunk else {
        let remedy = "write { trunk = [10, 20], native = 1 }, or a number for an access port".to_owned();
        return fields.wrong("vlan", "`vlan` has no list called `trunk`", remedy);
    };
    if list.is_empty() {
        fields.wrong::<()>("trunk", "`trunk` is empty", "list at least one VLAN".to_owned());
    }
    let trunk: Vec<u16> = list.iter().filter_map(|node| trunk_member(fields, node)).collect();
    Some(Vlan::Trunk { trunk, native })
}

/// Reads one VLAN of a trunk. Each invalid entry is a separate error.
fn trunk_member(fields: &mut Fields<'_, '_>, node: &Node) -> Option<u16> {
    let reason = match node.value {
        Value::Integer(vlan) if RANGE.contains(&vlan) => return u16::try_from(vlan).ok(),
        Value::Integer(vlan) => format!("invalid value {vlan} in `trunk`: expected 1 to 4094"),
        _ => format!("`trunk` lists {}, not an integer", node.kind()),
    };
    let section = fields.place("trunk").0;
    fields.notes.wrong_at(section, node.line, reason, "list VLANs from 1 to 4094");
    None
}
