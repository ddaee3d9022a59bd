//! Groups (OpenFlow 1.3.5, 7.3.4.3, 7.3.5.9 to 7.3.5.11; OpenFlow 1.5.1 for buckets with properties).

use crate::action::{self, Scope};
use crate::bytes::{Put, Reader, record};
use crate::error::{EncodeError, ErrorCode};
use crate::flow_mod::{group_or_any, some_group};
use crate::port_no;
use crate::property;
use crate::version::Version;
use flow::{Bucket, BucketPlace, GroupCommand, GroupKind, GroupMod, PortNo};
use std::time::Duration;

/// Whether buckets have properties: in OpenFlow 1.5, and in Nicira's messages of 1.0.
fn has_properties(version: Version) -> bool {
    !matches!(version, Version::V13 | Version::V14)
}

/// Every group; in requests and removals.
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// Highest identifier of a bucket.
const MAX_BUCKET: u32 = 0xffff_ff00;
/// Places in the list of buckets; in changes of OpenFlow 1.5.
const FIRST_BUCKET: u32 = 0xffff_fffd;
const LAST_BUCKET: u32 = 0xffff_fffe;
const ALL_BUCKETS: u32 = 0xffff_ffff;

const COMMANDS: [GroupCommand; 3] = [GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete];
/// Commands of OpenFlow 1.5.
const INSERT: u16 = 3;
const REMOVE: u16 = 5;
const KINDS: [GroupKind; 4] =
    [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];

fn read_kind(from: &mut Reader<'_>) -> Result<GroupKind, ErrorCode> {
    let kind = KINDS.get(usize::from(from.u8()?)).copied().ok_or(ErrorCode::GroupModBadType)?;
    from.skip(1)?;
    Ok(kind)
}

fn put_kind(out: &mut Vec<u8>, kind: GroupKind) {
    out.put_u8(KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u8);
    out.put_u8(0);
}

pub(crate) fn read_mod(from: &mut Reader<'_>, version: Version) -> Result<GroupMod, ErrorCode> {
    let number = from.u16()?;
    let (kind, id) = (read_kind(from)?, from.u32()?);
    if !has_properties(version) {
        let command = command_at(number, None)?;
        return Ok(GroupMod { command, kind, id, buckets: read_buckets(from.drain(), version)? });
    }
    let len = usize::from(from.u16()?);
    from.skip(2)?;
    let command = command_at(number, Some(from.u32()?))?;
    let buckets = read_buckets(from.take(len)?, version)?;
    from.rest();
    if matches!(command, GroupCommand::RemoveBuckets(_)) && !buckets.is_empty() {
        return Err(ErrorCode::GroupModBadBucket);
    }
    Ok(GroupMod { command, kind, id, buckets })
}

/// A command; `bucket`: the place that messages of OpenFlow 1.5 have.
fn command_at(number: u16, bucket: Option<u32>) -> Result<GroupCommand, ErrorCode> {
    let place = match bucket {
        None | Some(ALL_BUCKETS) => BucketPlace::All,
        Some(FIRST_BUCKET) => BucketPlace::First,
        Some(LAST_BUCKET) => BucketPlace::Last,
        Some(id @ ..=MAX_BUCKET) => BucketPlace::Bucket(id),
        Some(_) => return Err(ErrorCode::GroupModBadBucket),
    };
    match (number, place) {
        (INSERT, BucketPlace::All) if bucket.is_some() => Err(ErrorCode::GroupModBadBucket),
        (INSERT, place) if bucket.is_some() => Ok(GroupCommand::InsertBuckets(place)),
        (REMOVE, place) if bucket.is_some() => Ok(GroupCommand::RemoveBuckets(place)),
        (number, BucketPlace::All) => {
            COMMANDS.get(usize::from(number)).copied().ok_or(ErrorCode::GroupModBadCommand)
        }
        _ => Err(ErrorCode::GroupModBadBucket),
    }
}

/// Number and place of a command.
fn number_of(command: GroupCommand) -> (u16, BucketPlace) {
    match command {
        GroupCommand::Add => (0, BucketPlace::All),
        GroupCommand::Modify => (1, BucketPlace::All),
        GroupCommand::Delete => (2, BucketPlace::All),
        GroupCommand::InsertBuckets(place) => (INSERT, place),
        GroupCommand::RemoveBuckets(place) => (REMOVE, place),
    }
}

fn place_number(place: BucketPlace) -> u32 {
    match place {
        BucketPlace::First => FIRST_BUCKET,
        BucketPlace::Last => LAST_BUCKET,
        BucketPlace::All => ALL_BUCKETS,
        BucketPlace::Bucket(id) => id,
    }
}

pub(crate) fn write_mod(out: &mut Vec<u8>, change: &GroupMod, version: Version) -> Result<(), EncodeError> {
    let (number, place) = number_of(change.command);
    if !has_properties(version) && usize::from(number) >= COMMANDS.len() {
        return Err(EncodeError::Unsupported("a change of single buckets"));
    }
    out.put_u16(number);
    put_kind(out, change.kind);
    out.put_u32(change.id);
    if !has_properties(version) {
        return write_buckets(out, &change.buckets, version);
    }
    let at = out.len();
    out.put_u32(0);
    out.put_u32(place_number(place));
    write_buckets(out, &change.buckets, version)?;
    out.patch_len(at + 8, at);
    Ok(())
}

fn read_buckets(from: Reader<'_>, version: Version) -> Result<Vec<Bucket>, ErrorCode> {
    let mut from = from.or(ErrorCode::GroupModBadBucket);
    let mut number = 0;
    from.repeat(|from| {
        let len = usize::from(from.u16()?);
        if len % 8 != 0 {
            return Err(ErrorCode::GroupModBadBucket);
        }
        let mut body = from.take(len.checked_sub(2).ok_or(ErrorCode::GroupModBadBucket)?)?;
        number += 1;
        if has_properties(version) {
            read_bucket_15(&mut body, version)
        } else {
            read_bucket(&mut body, number - 1, version)
        }
    })
}

/// Buckets get their position as identifier.
fn read_bucket(from: &mut Reader<'_>, id: u32, version: Version) -> Result<Bucket, ErrorCode> {
    let (weight, port, group) = (from.u16()?, from.get()?, from.u32()?);
    from.skip(4)?;
    let actions = action::read_actions(*from, Scope::new(version))?;
    Ok(Bucket { id, weight, watch_port: port_no::some(port), watch_group: some_group(group), actions })
}

fn read_bucket_15(from: &mut Reader<'_>, version: Version) -> Result<Bucket, ErrorCode> {
    let (len, id) = (usize::from(from.u16()?), from.u32()?);
    let actions = action::read_actions(from.take(len)?, Scope::new(version))?;
    let mut found = Bucket { id, weight: 0, watch_port: None, watch_group: None, actions };
    while !from.is_empty() {
        let (kind, mut value) = property::read(from)?;
        match kind {
            0 => found.weight = value.u16()?,
            1 => found.watch_port = port_no::some(value.get()?),
            2 => found.watch_group = some_group(value.u32()?),
            _ => return Err(ErrorCode::PropertyBadType),
        }
    }
    Ok(found)
}

fn write_buckets(out: &mut Vec<u8>, buckets: &[Bucket], version: Version) -> Result<(), EncodeError> {
    for bucket in buckets {
        let start = out.len();
        out.put_u16(0);
        if has_properties(version) {
            write_bucket_15(out, bucket, version)?;
        } else {
            out.put_u16(bucket.weight);
            out.put(&port_no::or_any(bucket.watch_port));
            out.put_u32(group_or_any(bucket.watch_group));
            out.put_u32(0);
            action::write_actions(out, &bucket.actions, version)?;
        }
        out.patch_len(start, start);
    }
    Ok(())
}

fn write_bucket_15(out: &mut Vec<u8>, bucket: &Bucket, version: Version) -> Result<(), EncodeError> {
    let at = out.len();
    out.put_u16(0);
    out.put_u32(bucket.id);
    action::write_actions(out, &bucket.actions, version)?;
    out.patch_len(at + 6, at);
    if bucket.weight != 0 {
        property::write_u16(out, 0, bucket.weight);
    }
    if let Some(port) = bucket.watch_port {
        property::write(out, 1, |out| out.put::<PortNo>(&port));
    }
    if let Some(group) = bucket.watch_group {
        property::write(out, 2, |out| out.put_u32(group));
    }
    Ok(())
}

/// A group as it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// Kind.
    pub kind: GroupKind,
    /// Number.
    pub id: u32,
    /// Buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupDesc {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        let (kind, id) = (read_kind(&mut body)?, body.u32()?);
        if has_properties(version) {
            let len = usize::from(body.u16()?);
            body.skip(6)?;
            body = body.take(len)?;
        }
        Ok(Self { kind, id, buckets: read_buckets(body, version)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_u16(0);
        put_kind(out, self.kind);
        out.put_u32(self.id);
        let at = out.len();
        out.put_zeros(if has_properties(version) { 8 } else { 0 });
        let buckets = out.len();
        write_buckets(out, &self.buckets, version)?;
        if has_properties(version) {
            out.patch_len(buckets, at);
        }
        out.patch_len(start, start);
        Ok(())
    }
}

/// The next entry, which starts with its length; the rest of it.
pub(crate) fn read_entry<'a>(from: &mut Reader<'a>) -> Result<Reader<'a>, ErrorCode> {
    let len = usize::from(from.u16()?);
    from.take(len.checked_sub(2).ok_or(ErrorCode::RequestBadLen)?)
}

record! {
    /// Counters of a bucket.
    pub struct BucketStats {
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
    }
}

/// Counters of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Number.
    pub id: u32,
    /// Flows and groups that send to it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Age.
    pub duration: Duration,
    /// Counters of its buckets.
    pub buckets: Vec<BucketStats>,
}

impl GroupStats {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        body.skip(2)?;
        let (id, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        let (packets, bytes, duration) = (body.u64()?, body.u64()?, body.get()?);
        Ok(Self { id, references, packets, bytes, duration, buckets: body.all()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        out.put_u32(self.id);
        out.put_u32(self.references);
        out.put_u32(0);
        out.put_u64(self.packets);
        out.put_u64(self.bytes);
        out.put(&self.duration);
        self.buckets.iter().for_each(|bucket| out.put(bucket));
        out.patch_len(start, start);
    }
}

/// Capabilities of groups. Arrays are in the order of the kinds: all, select, indirect, fast failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bits of supported kinds.
    pub kinds: u32,
    /// Bits of `ofp_group_capabilities`.
    pub capabilities: u32,
    /// Maximum number of groups.
    pub max_groups: [u32; 4],
    /// Bits of supported actions.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (kinds, capabilities) = (from.u32()?, from.u32()?);
        let mut found = Self { kinds, capabilities, ..Self::default() };
        for value in found.max_groups.iter_mut().chain(&mut found.actions) {
            *value = from.u32()?;
        }
        Ok(found)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let fixed = [self.kinds, self.capabilities];
        fixed.iter().chain(&self.max_groups).chain(&self.actions).for_each(|value| out.put_u32(*value));
    }
}
