//! Meters (OpenFlow 1.3.5, 5.7 and 7.3.4.4).

use super::apply::{Changes, RemovedReason};
use super::error::MeterModError;
use super::limits;
use super::rate::Rate;
use super::snapshot::Tables;
use crate::modify::{Band, MeterCommand, MeterFlags, MeterMod};
use port::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All meters; in deletions only.
const ALL: u32 = 0xffff_ffff;
/// Highest number of a meter.
const MAX: u32 = 0xffff_0000;
/// Meter of packets to controllers (`OFPM_CONTROLLER`).
pub(crate) const CONTROLLER: u32 = 0xffff_fffe;
/// Meters that no flow names: that, and the one of the slow path (`OFPM_SLOWPATH`), which there is none of.
const VIRTUAL: [u32; 2] = [0xffff_fffd, CONTROLLER];

/// A meter.
#[derive(Debug)]
pub struct Meter {
    /// Number.
    pub id: u32,
    /// Unit and options.
    pub flags: MeterFlags,
    /// Bands.
    pub bands: Vec<Band>,
    /// Of each band.
    rates: Box<[Rate]>,
    created: Now,
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// Effect of a meter on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    /// Nothing.
    Pass,
    /// Drops it.
    Drop,
    /// Adds this to the drop precedence of its DSCP.
    Remark(u8),
}

impl Meter {
    fn new(change: &MeterMod, now: Now) -> Self {
        let rates = change.bands.iter().map(|band| Rate::new(band, change.flags)).collect();
        let (bands, created) = (change.bands.clone(), now);
        let (packets, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { id: change.id, flags: change.flags, bands, rates, created, packets, bytes }
    }

    /// Applies the meter to a packet: the band with the highest rate that the packet exceeds (OpenFlow 1.3.5, 5.7.1).
    pub fn apply(&self, bytes: u64, now: Now) -> Metering {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let exceeded =
            self.bands.iter().zip(&self.rates).filter(|(_, rate)| rate.exceeds(self.flags, bytes, now));
        match exceeded.map(|(band, _)| band).max_by_key(|band| band.rate) {
            None => Metering::Pass,
            Some(band) => band.remark.map_or(Metering::Drop, Metering::Remark),
        }
    }

    /// Packets and bytes that the meter was applied to.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Adds packets and bytes, and those that exceeded each band.
    pub fn add(&self, (packets, bytes): (u64, u64), bands: &[(u64, u64)]) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.rates.iter().zip(bands).for_each(|(rate, counts)| rate.add(*counts));
    }

    /// Packets and bytes that exceeded each band.
    pub fn band_counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.rates.iter().map(Rate::counts)
    }

    /// Time at which it was added or modified.
    pub fn created(&self) -> Now {
        self.created
    }

    /// Whether it changes the DSCP of packets.
    pub(crate) fn remarks(&self) -> bool {
        self.bands.iter().any(|band| band.remark.is_some())
    }
}

impl Tables {
    /// Changes meters. A deletion also removes the flows that apply them.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply_meter(&mut self, change: &MeterMod, now: Now) -> Result<Changes, MeterModError> {
        let exists = self.meter(change.id).is_some();
        match change.command {
            MeterCommand::Add if exists => Err(MeterModError::Exists(change.id)),
            MeterCommand::Add if self.meters.len() >= limits::METERS => Err(MeterModError::OutOfMeters),
            MeterCommand::Modify if !exists => Err(MeterModError::Unknown(change.id)),
            MeterCommand::Add | MeterCommand::Modify => self.put_meter(change, now),
            MeterCommand::Delete => Ok(self.delete_meters(change.id)),
        }
    }

    fn put_meter(&mut self, change: &MeterMod, now: Now) -> Result<Changes, MeterModError> {
        let id = change.id;
        if (id == 0 || id > MAX) && !VIRTUAL.contains(&id) {
            return Err(MeterModError::Invalid(id));
        }
        if change.bands.len() > limits::BANDS {
            return Err(MeterModError::OutOfBands(id));
        }
        if change.bands.iter().any(|band| band.rate == 0) {
            return Err(MeterModError::Rate(id));
        }
        self.take_meter(id);
        let meter = Meter::new(change, now);
        self.meters.insert(self.number_key(id), Arc::new(meter));
        // Whether a meter changes packets decides what later lookups may read.
        self.log.add(super::Change::All);
        Ok(Changes::default())
    }

    fn delete_meters(&mut self, id: u32) -> Changes {
        let (mut changes, one) = (Changes::default(), Some(id).filter(|id| *id != ALL));
        let selected: Vec<_> = match one {
            Some(id) => self.meter(id).map(|meter| meter.id).into_iter().collect(),
            None => self.meters.iter().map(|meter| meter.id).collect(),
        };
        self.work += selected.len();
        let is_used = selected.iter().any(|id| self.meter_users(*id) > 0);
        for id in selected {
            self.take_meter(id);
        }
        if is_used {
            self.remove_users(|flow| flow.has_meter(one), RemovedReason::MeterDelete, &mut changes);
        }
        changes
    }

    fn take_meter(&mut self, id: u32) -> Option<Arc<Meter>> {
        self.meters.remove(self.number_key(id), |meter| meter.id == id)
    }
}
