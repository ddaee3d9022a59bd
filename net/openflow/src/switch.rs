//! Features, configuration, roles and choice of asynchronous messages (OpenFlow 1.3.5, 7.3.1, 7.3.2, 7.3.9, 7.3.10).

use crate::bytes::{Put, Reader, numbered, record};
use crate::error::{EncodeError, ErrorCode};
use crate::port::Port;
use crate::property;
use crate::version::Version;

/// Answer to a features request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Identifier of the switch.
    pub datapath_id: u64,
    /// Packets that can be buffered.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u8,
    /// Number of the auxiliary connection; 0 for the main one.
    pub auxiliary: u8,
    /// Bits of `ofp_capabilities`.
    pub capabilities: u32,
    /// Bits of supported actions; in OpenFlow 1.0 only.
    pub actions: u32,
    /// Ports; in OpenFlow 1.0 only.
    pub ports: Vec<Port>,
}

impl Features {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let (datapath_id, buffers, tables, auxiliary) = (from.u64()?, from.u32()?, from.u8()?, from.u8()?);
        from.skip(2)?;
        let (capabilities, actions) = (from.u32()?, from.u32()?);
        let ports = match version {
            Version::V10 => from.repeat(|from| Port::read(from, version))?,
            _ => Vec::new(),
        };
        Ok(Self { datapath_id, buffers, tables, auxiliary, capabilities, actions, ports })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u64(self.datapath_id);
        out.put_u32(self.buffers);
        out.put_u8(self.tables);
        out.put_u8(self.auxiliary);
        out.put_u16(0);
        out.put_u32(self.capabilities);
        out.put_u32(if version == Version::V10 { self.actions } else { 0 });
        match version {
            Version::V10 => self.ports.iter().try_for_each(|port| port.write(out, version)),
            _ => Ok(()),
        }
    }
}

record! {
    /// Configuration of the switch.
    pub struct SwitchConfig {
        /// Handling of fragments (`OFPC_FRAG_*`).
        flags: u16,
        /// Bytes of a packet without a flow for the controller; 0xffff for all.
        miss_send_len: u16,
    }
}

numbered! {
    /// Role of a controller.
    pub enum Role: u32 {
        /// No change; in requests only.
        NoChange = 0,
        /// Full access, as others.
        Equal = 1,
        /// Full access, as the only one.
        Primary = 2,
        /// Reads only.
        Secondary = 3,
    }
}

/// Request for a role, or the role that a controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// Role.
    pub role: Role,
    /// Number of the election; 0 in Nicira's messages, which have none.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let role = read_role(from)?;
        from.skip(4)?;
        Ok(Self { role, generation: from.u64()? })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.put_u32(self.role.number());
        out.put_u32(0);
        out.put_u64(self.generation);
    }

    /// Nicira's form: the numbers are lower by 1.
    pub(crate) fn read_nicira(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let number = from.u32()?.checked_add(1).ok_or(ErrorCode::RoleBadRole)?;
        let role = Role::from_number(number).ok_or(ErrorCode::RoleBadRole)?;
        Ok(Self { role, generation: 0 })
    }

    pub(crate) fn write_nicira(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let number = self.role.number().checked_sub(1);
        out.put_u32(number.ok_or(EncodeError::Unsupported("a request for the role"))?);
        Ok(())
    }
}

fn read_role(from: &mut Reader<'_>) -> Result<Role, ErrorCode> {
    Role::from_number(from.u32()?).ok_or(ErrorCode::RoleBadRole)
}

/// Notice of a changed role (OpenFlow 1.4.1, 7.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// New role.
    pub role: Role,
    /// 0: another controller became primary; 1: configuration; 2: experimenter.
    pub reason: u8,
    /// Number of the election.
    pub generation: u64,
}

impl RoleStatus {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (role, reason) = (read_role(from)?, from.u8()?);
        from.skip(3)?;
        let generation = from.u64()?;
        from.rest();
        Ok(Self { role, reason, generation })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.put_u32(self.role.number());
        out.put_u8(self.reason);
        out.put_zeros(3);
        out.put_u64(self.generation);
    }
}

/// Kinds of asynchronous messages, by their place in [`AsyncConfig::masks`].
pub const ASYNC_KINDS: [&str; 6] =
    ["packet-in", "port-status", "flow-removed", "role-status", "table-status", "requestforward"];

/// Reasons for which a controller gets asynchronous messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Bits of reasons for each of [`ASYNC_KINDS`]: first as primary or equal, then as secondary. `None`: no change, or
    /// not part of the version.
    pub masks: [[Option<u32>; 2]; 6],
}

impl AsyncConfig {
    /// The fixed form of OpenFlow 1.3 and Nicira.
    pub(crate) fn read_fixed(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut found = Self::default();
        for mask in found.masks[..3].iter_mut().flatten() {
            *mask = Some(from.u32()?);
        }
        Ok(found)
    }

    pub(crate) fn write_fixed(&self, out: &mut Vec<u8>) {
        for mask in self.masks[..3].iter().flatten() {
            out.put_u32(mask.unwrap_or(0));
        }
    }

    /// Properties of OpenFlow 1.4: even types for secondaries, odd ones for primaries.
    pub(crate) fn read_properties(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut found = Self::default();
        while !from.is_empty() {
            let (kind, mut value) = property::read(from)?;
            let mask = found.masks.get_mut(usize::from(kind / 2)).ok_or(ErrorCode::PropertyBadType)?;
            let mask = &mut mask[usize::from(1 - kind % 2)];
            if mask.replace(value.u32()?).is_some() {
                return Err(ErrorCode::PropertyDuplicateType);
            }
        }
        Ok(found)
    }

    pub(crate) fn write_properties(&self, out: &mut Vec<u8>) {
        for (kind, [primary, secondary]) in (0..).step_by(2).zip(self.masks) {
            for (kind, mask) in [(kind, secondary), (kind + 1, primary)] {
                if let Some(mask) = mask {
                    property::write(out, kind, |out| out.put_u32(mask));
                }
            }
        }
    }
}
