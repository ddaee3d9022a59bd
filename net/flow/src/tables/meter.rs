//! Meters (OpenFlow 1.3.5, 5.7 and 7.3.4.4): their definitions. Workers keep their rates.

use super::apply::{Changes, RemovedReason};
use super::error::MeterModError;
use super::limits;
use super::snapshot::Tables;
use crate::modify::{Band, MeterCommand, MeterFlags, MeterMod};
use std::sync::Arc;

/// All meters; in deletions only.
const ALL: u32 = 0xffff_ffff;
/// Highest number of a meter.
const MAX: u32 = 0xffff_0000;
/// Meters of packets to controllers and of the slow path.
const VIRTUAL: [u32; 2] = [0xffff_fffd, 0xffff_fffe];

/// A meter.
#[derive(Debug)]
pub struct Meter {
    /// Number.
    pub id: u32,
    /// Unit and options.
    pub flags: MeterFlags,
    /// Bands.
    pub bands: Vec<Band>,
}

impl Meter {
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
    pub fn apply_meter(&mut self, change: &MeterMod) -> Result<Changes, MeterModError> {
        let exists = self.meter(change.id).is_some();
        match change.command {
            MeterCommand::Add if exists => Err(MeterModError::Exists(change.id)),
            MeterCommand::Add if self.meters.len() >= limits::METERS => Err(MeterModError::OutOfMeters),
            MeterCommand::Modify if !exists => Err(MeterModError::Unknown(change.id)),
            MeterCommand::Add | MeterCommand::Modify => self.put_meter(change),
            MeterCommand::Delete => Ok(self.delete_meters(change.id)),
        }
    }

    fn put_meter(&mut self, change: &MeterMod) -> Result<Changes, MeterModError> {
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
        let meter = Meter { id, flags: change.flags, bands: change.bands.clone() };
        self.meters.insert(self.number_key(id), Arc::new(meter));
        // Whether a meter changes packets decides what later lookups may read.
        self.log.add(super::Change::All);
        Ok(Changes::default())
    }

    fn delete_meters(&mut self, id: u32) -> Changes {
        let mut changes = Changes::default();
        let selected = self.meters.iter().map(|meter| meter.id).filter(|other| id == ALL || *other == id);
        for id in selected.collect::<Vec<_>>() {
            self.take_meter(id);
            self.remove_users(id, RemovedReason::MeterDelete, &mut changes);
        }
        changes
    }

    fn take_meter(&mut self, id: u32) -> Option<Arc<Meter>> {
        self.meters.remove(self.number_key(id), |meter| meter.id == id)
    }
}
