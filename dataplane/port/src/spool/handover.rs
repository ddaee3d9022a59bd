//! Hand-over of a spool's file to another process, which appends to it.

use super::Spool;
use super::file::RecordFile;
use crate::PortFault;
use crate::handover::{Handover, Part, duplicate};
use std::fs::File;
use std::sync::atomic::Ordering;

/// Error for a part that is not that of a spool.
const INVALID: PortFault = PortFault::State("it is not that of a file that is written");

/// Length of the numbers of a part.
const NUMBERS: usize = 4 * 8;

impl Spool {
    /// Writes all records and describes the file: packets written and missed, the last time stamp, and the length of
    /// the file as numbers, and why the file has ended, if so. The feeds must have been dropped.
    pub(crate) fn hand_over(
        &mut self,
        tag: u8,
        epoch: u64,
        handover: &mut Handover,
    ) -> Result<(), PortFault> {
        self.file.iter_mut().for_each(RecordFile::keep);
        self.flush(epoch);
        let file = self.file.as_ref().map(RecordFile::parts);
        let numbers = [self.written, self.missed(), self.last, file.map_or(0, |(_, good)| good)];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(self.failure().unwrap_or_default().as_bytes());
        let file = file.map(|(file, _)| duplicate(file)).transpose()?;
        handover.push(tag, bytes, file.into_iter().collect());
        Ok(())
    }

    /// Continues the file of another process.
    pub(crate) fn take_over(&mut self, part: Part) -> Result<(), PortFault> {
        let (numbers, failure) = part.bytes.split_first_chunk::<NUMBERS>().ok_or(INVALID)?;
        let (numbers, _) = numbers.as_chunks();
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().unwrap_or_default();
        self.written = next();
        self.shared.missed[0].store(next(), Ordering::Relaxed);
        self.last = next();
        let good = next();
        let mut descriptors = part.descriptors.into_iter();
        if let Some(file) = descriptors.next() {
            self.file = Some(RecordFile::continued(File::from(file), good).ok_or(INVALID)?);
        } else {
            self.shared.ended.store(true, Ordering::Relaxed);
            self.failure = Some(String::from_utf8_lossy(failure).into_owned());
        }
        Ok(())
    }
}
