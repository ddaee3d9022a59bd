//! One ring of the driver, with its notifications.

use crate::GuestError;
use crate::hostile::arena::Area;
use core::sync::atomic::Ordering;
use mem::Translator;
use port::vhost::Features;
use port::vhost_user::setup::QueueSetup;
use ring::device::{AvailBatch, DeviceRing};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// A ring of the driver.
pub(super) struct Line<R> {
    pub(super) ring: R,
    pub(super) batch: AvailBatch,
    pub(super) translator: Translator,
    /// The device area, in which the driver reads whether kicks are requested.
    suppression: Area,
    call: Option<Arc<OwnedFd>>,
}

impl<R: DeviceRing> Line<R> {
    pub(super) fn new(setup: &QueueSetup) -> Result<Self, GuestError> {
        let translator = setup.memory.current(&mut 0);
        let (map, size) = (translator.map(), u32::from(setup.size));
        let bytes = if setup.features.has(Features::RING_PACKED) { 4 } else { 6 + 8 * size };
        let suppression = Area::of_user(map, setup.device, bytes);
        let outside = || GuestError::Memory("the device area lies outside the shared memory".into());
        Ok(Self {
            ring: R::new(&setup.layout(), map)?,
            batch: AvailBatch::default(),
            suppression: suppression.ok_or_else(outside)?,
            call: setup.call.clone(),
            translator,
        })
    }

    /// Calls the driver. Returns the number of calls.
    pub(super) fn call(&self) -> u64 {
        // A saturated counter means that a call is already pending.
        let call = |fd: &Arc<OwnedFd>| rustix::io::write(fd, &1u64.to_ne_bytes());
        u64::from(self.call.as_ref().map(call).is_some())
    }

    /// Writes random words to the first and last field of the device area: flags and, if negotiated, the event.
    pub(super) fn corrupt_suppression(&self, rng: &mut fastrand::Rng) {
        self.suppression.store16(0, rng.u16(..), Ordering::Relaxed);
        self.suppression.store16(self.suppression.len() - 2, rng.u16(..), Ordering::Relaxed);
    }
}
