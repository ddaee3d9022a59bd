//! Messages of Nicira on the map from options of Geneve tunnels to fields (nicira-ext.h, `NXT_TLV_TABLE_*`).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use flow::{Field, Mapping, OptionChange};

const ADD: u16 = 0;
const DELETE: u16 = 1;
const CLEAR: u16 = 2;
/// Maximum length of an option in bytes.
const MAX_LEN: u8 = 124;

/// The map of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvTable {
    /// Bytes of all fields.
    pub space: u32,
    /// Number of fields.
    pub fields: u16,
    /// Bound fields and their options.
    pub entries: Vec<(u8, Mapping)>,
}

/// Reads a change.
pub(crate) fn read_mod(from: &mut Reader<'_>) -> Result<OptionChange, ErrorCode> {
    let command = from.u16()?;
    if !(ADD..=CLEAR).contains(&command) {
        return Err(ErrorCode::TlvBadCommand);
    }
    from.skip(6)?;
    let entries = from.repeat(read_entry)?;
    Ok(match command {
        ADD => OptionChange::Add(entries),
        DELETE => OptionChange::Delete(entries.into_iter().map(|(n, _)| n).collect()),
        _ => OptionChange::Clear,
    })
}

/// Writes a change. A deletion names fields only.
pub(crate) fn write_mod(out: &mut Vec<u8>, change: &OptionChange) {
    let (command, entries) = match change {
        OptionChange::Add(entries) => (ADD, entries.clone()),
        OptionChange::Delete(fields) => {
            (DELETE, fields.iter().map(|n| (*n, Mapping { class: 0, kind: 0, len: 0 })).collect())
        }
        OptionChange::Clear => (CLEAR, Vec::new()),
    };
    out.put_u16(command);
    out.put_zeros(6);
    for entry in entries {
        write_entry(out, entry);
    }
}

fn read_entry(from: &mut Reader<'_>) -> Result<(u8, Mapping), ErrorCode> {
    let (class, kind, len, index) = (from.u16()?, from.u8()?, from.u8()?, from.u16()?);
    from.skip(2)?;
    if len % 4 != 0 || len > MAX_LEN {
        return Err(ErrorCode::TlvBadLen);
    }
    let n = u8::try_from(index).ok().filter(|n| *n < Field::OPTIONS).ok_or(ErrorCode::TlvBadIndex)?;
    Ok((n, Mapping { class, kind, len }))
}

fn write_entry(out: &mut Vec<u8>, (n, mapping): (u8, Mapping)) {
    out.put_u16(mapping.class);
    out.put_u8(mapping.kind);
    out.put_u8(mapping.len);
    out.put_u16(n.into());
    out.put_zeros(2);
}

impl TlvTable {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (space, fields) = (from.u32()?, from.u16()?);
        from.skip(10)?;
        Ok(Self { space, fields, entries: from.repeat(read_entry)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.space);
        out.put_u16(self.fields);
        out.put_zeros(10);
        for entry in &self.entries {
            write_entry(out, *entry);
        }
    }
}
