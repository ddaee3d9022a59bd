//! Groups and meters (OpenFlow 1.3.5, 7.3.4.3, 7.3.4.4 and 7.3.5.9 to 7.3.5.14).

use crate::asynchronous::since;
use crate::request::{Answer, Request};
use crate::settings::Event;
use flow::tables::{Group, Meter, Modification, Tables, limits};
use flow::{GroupCommand, GroupMod, MeterMod};
use openflow::{
    ALL_GROUPS, ALL_METERS, BandStats, BucketStats, ErrorCode, GroupDesc, GroupFeatures, GroupStats, Message,
    MeterConfig, MeterFeatures, MeterStats, MultipartReply, Version,
};
use port::Now;
use std::sync::Arc;

/// Reasons of forwarded requests (OpenFlow 1.4, 7.4.6).
const GROUP: u8 = 0;
const METER: u8 = 1;
/// All kinds; weights and liveness in selections, chains, and checks for loops.
const GROUP_KINDS: u32 = 0xf;
const GROUP_CAPABILITIES: u32 = 0xf;
/// Drop and DSCP remark; kbit/s, packets/s, bursts and counters.
const BANDS: u32 = 1 << 1 | 1 << 2;
const METER_CAPABILITIES: u32 = 0xf;

/// Numbers of all actions of a version, from OpenFlow 1.1 on.
pub(crate) fn actions(version: Version) -> impl Iterator<Item = u16> {
    let output_and_ttl = [0, 11, 12].into_iter();
    let meter = (version >= Version::V15).then_some(29);
    let copy_field = (version >= Version::V15).then_some(28);
    output_and_ttl.chain(15..=27).chain(copy_field).chain(meter)
}

impl Request<'_> {
    pub(crate) fn group_mod(&mut self, change: GroupMod) -> Answer {
        // Its validation can look at all groups, and its removal at all flows.
        self.session.output.end_turn();
        self.modify(&[Modification::Group(change.clone())])?;
        self.forward_group(change);
        Ok(())
    }

    /// Sends an executed change of groups to the other sessions that want it. Before OpenFlow 1.5, a change of single
    /// buckets is one of the group.
    pub(crate) fn forward_group(&mut self, change: GroupMod) {
        let is_single =
            matches!(change.command, GroupCommand::InsertBuckets(_) | GroupCommand::RemoveBuckets(_));
        let whole = is_single.then(|| self.datapath.tables().group(change.id).cloned()).flatten();
        let whole = whole.map(|group| {
            let (command, kind, buckets) = (GroupCommand::Modify, group.kind(), group.buckets().to_vec());
            Message::GroupMod(GroupMod { command, kind, buckets, ..change })
        });
        let change = Message::GroupMod(change);
        self.forward(&change, whole.as_ref().unwrap_or(&change));
    }

    pub(crate) fn meter_mod(&mut self, change: MeterMod) -> Answer {
        self.session.output.end_turn();
        self.modify(&[Modification::Meter(change.clone())])?;
        let change = Message::MeterMod(change);
        self.forward(&change, &change);
        Ok(())
    }

    /// Sends an executed change of groups or meters to the other sessions that want it; `old` to those before OpenFlow
    /// 1.5.
    fn forward(&mut self, request: &Message, old: &Message) {
        let (reason, xid) = (if matches!(request, Message::GroupMod(_)) { GROUP } else { METER }, self.xid);
        for other in self.others.values_mut() {
            if other.settings.wants(other.kind, other.role, Event::Forward, reason) {
                let request = if other.version() >= Some(Version::V15) { request } else { old };
                other.notify(&Message::RequestForward { xid, request: Box::new(request.clone()) });
            }
        }
    }

    /// A group that does not exist has no entry.
    pub(crate) fn group_stats(&mut self, id: u32) -> Answer {
        let (tables, now) = (self.datapath.tables(), self.now);
        let groups = groups(&tables, id);
        self.reply_list(groups, move |group| group_stats(&tables, &group, now), MultipartReply::Group)
    }

    pub(crate) fn group_desc(&mut self, id: u32) -> Answer {
        let groups = groups(&self.datapath.tables(), id);
        self.reply_list(groups, |group| group_desc(&group), MultipartReply::GroupDesc)
    }

    pub(crate) fn group_features(&mut self) -> Answer {
        let actions = actions(self.version()).fold(0, |bits, action| bits | 1 << action);
        self.reply_part(MultipartReply::GroupFeatures(GroupFeatures {
            kinds: GROUP_KINDS,
            capabilities: GROUP_CAPABILITIES,
            max_groups: [limits::GROUPS as u32; 4],
            actions: [actions; 4],
        }))
    }

    pub(crate) fn meter_stats(&mut self, id: u32) -> Answer {
        let (tables, now) = (self.datapath.tables(), self.now);
        let meters = meters(&tables, id)?;
        self.reply_list(meters, move |meter| meter_stats(&tables, &meter, now), MultipartReply::Meter)
    }

    pub(crate) fn meter_config(&mut self, id: u32) -> Answer {
        let meters = meters(&self.datapath.tables(), id)?;
        self.reply_list(meters, |meter| meter_config(&meter), MultipartReply::MeterConfig)
    }

    pub(crate) fn meter_features(&mut self) -> Answer {
        self.reply_part(MultipartReply::MeterFeatures(MeterFeatures {
            max_meters: limits::METERS as u32,
            bands: BANDS,
            capabilities: METER_CAPABILITIES,
            max_bands: limits::BANDS as u8,
            max_color: 0,
        }))
    }
}

/// The groups of a request, by number.
fn groups(tables: &Tables, id: u32) -> Vec<Arc<Group>> {
    if id != ALL_GROUPS {
        return tables.group(id).cloned().into_iter().collect();
    }
    let mut groups: Vec<_> = tables.groups().cloned().collect();
    groups.sort_unstable_by_key(|group| group.id());
    groups
}

/// The meters of a request, by number.
fn meters(tables: &Tables, id: u32) -> Result<Vec<Arc<Meter>>, ErrorCode> {
    if id != ALL_METERS {
        return tables.meter(id).map(|meter| vec![meter.clone()]).ok_or(ErrorCode::MeterUnknownId);
    }
    let mut meters: Vec<_> = tables.meters().cloned().collect();
    meters.sort_unstable_by_key(|meter| meter.id);
    Ok(meters)
}

fn group_stats(tables: &Tables, group: &Group, now: Now) -> GroupStats {
    let (packets, bytes) = group.counter().counts();
    let bucket = |position| {
        let counter = group.bucket_counter(position);
        let (packets, bytes) = counter.map_or((0, 0), |counter| counter.counts());
        BucketStats { packets, bytes }
    };
    GroupStats {
        id: group.id(),
        references: tables.group_references(group.id()),
        packets,
        bytes,
        duration: since(group.created(), now),
        buckets: (0..group.buckets().len()).map(bucket).collect(),
    }
}

fn group_desc(group: &Group) -> GroupDesc {
    GroupDesc { kind: group.kind(), id: group.id(), buckets: group.buckets().to_vec() }
}

fn meter_stats(tables: &Tables, meter: &Meter, now: Now) -> MeterStats {
    let (packets, bytes) = meter.counts();
    let bands = meter.band_counts().map(|(packets, bytes)| BandStats { packets, bytes });
    MeterStats {
        id: meter.id,
        flows: tables.meter_users(meter.id),
        packets,
        bytes,
        duration: since(meter.created(), now),
        bands: bands.collect(),
    }
}

fn meter_config(meter: &Meter) -> MeterConfig {
    MeterConfig { flags: meter.flags, id: meter.id, bands: meter.bands.clone() }
}
