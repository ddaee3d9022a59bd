//! Starting and stopping rings.

use super::front_end::wrong;
use super::script::{self, Attached};
use super::{FrontEnd, FrontEndError};
use crate::vhost::Features;
use crate::vhost::message::{Reply, Request, VringFile, VringState};
use ring::Layout;
use rustix::fd::BorrowedFd;

/// One ring of the guest: ring 2 * pair receives, ring 2 * pair + 1 transmits.
#[derive(Clone, Copy, Debug)]
pub struct VringSetup<'a> {
    /// Number of entries.
    pub size: u16,
    /// User address of the descriptor area.
    pub descriptors: u64,
    /// User address of the driver area (available ring; driver event suppression).
    pub driver: u64,
    /// User address of the device area (used ring; device event suppression).
    pub device: u64,
    /// Start position for the back end, as returned by [`FrontEnd::stop`]; for a fresh ring see
    /// [`FrontEnd::fresh_base`].
    pub base: u32,
    /// Eventfd of the guest's kicks. `None`: the back end polls.
    pub kick: Option<BorrowedFd<'a>>,
    /// Eventfd of the back end's calls. `None`: the guest polls.
    pub call: Option<BorrowedFd<'a>>,
}

impl VringSetup<'_> {
    fn places(&self) -> Layout {
        Layout {
            size: self.size,
            descriptors: self.descriptors,
            driver: self.driver,
            device: self.device,
            base: self.base,
            event_idx: false,
            indirect: false,
            in_order: false,
        }
    }
}

impl FrontEnd {
    /// Base of a fresh ring: 0 for a split ring; for a packed ring both wrap counters are 1.
    pub fn fresh_base(&self) -> u32 {
        script::fresh_base(self.negotiated.features)
    }

    /// Starts rings 0, 1, 2 and so on. If the back end acknowledges requests, they run when this returns.
    pub fn start(&mut self, rings: &[VringSetup<'_>]) -> Result<(), FrontEndError> {
        for (index, ring) in (0..).zip(rings) {
            for line in script::ring(index, &ring.places(), ring.call.is_some(), ring.kick.is_some()) {
                let file = match line.file {
                    Attached::Call(_) => ring.call,
                    Attached::Kick(_) => ring.kick,
                    Attached::Nothing | Attached::Memory => None,
                };
                self.send_request(&line.request, file.as_slice())?;
            }
        }
        self.rings = rings.len() as u32;
        for line in script::ready(self.negotiated, self.rings) {
            self.send_request(&line.request, &[])?;
        }
        Ok(())
    }

    /// Replaces the call descriptor, at any time.
    pub fn set_call(&mut self, index: u8, call: Option<BorrowedFd<'_>>) -> Result<(), FrontEndError> {
        let file = VringFile { index, has_descriptor: call.is_some() };
        self.send_request(&Request::SetVringCall(file), call.as_slice())
    }

    /// Replaces the kick descriptor, at any time.
    pub fn set_kick(&mut self, index: u8, kick: Option<BorrowedFd<'_>>) -> Result<(), FrontEndError> {
        let file = VringFile { index, has_descriptor: kick.is_some() };
        self.send_request(&Request::SetVringKick(file), kick.as_slice())
    }

    /// Enables or disables a ring, if the back end supports it.
    pub fn enable(&mut self, index: u32, enabled: bool) -> Result<(), FrontEndError> {
        if !self.negotiated.features.has(Features::PROTOCOL) {
            return Ok(());
        }
        self.send_request(&Request::SetVringEnable(VringState { index, num: u32::from(enabled) }), &[])
    }

    /// Stops every started ring and returns the bases. The back end uses no ring afterwards.
    pub fn stop(&mut self) -> Result<Vec<u32>, FrontEndError> {
        let rings = std::mem::take(&mut self.rings);
        for index in 0..rings {
            self.enable(index, false)?;
        }
        let bases = (0..rings).map(|index| self.stop_ring(index)).collect();
        self.set_status(0)?;
        bases
    }

    /// Stops one ring and returns its base.
    pub fn stop_ring(&mut self, index: u32) -> Result<u32, FrontEndError> {
        let request = Request::GetVringBase(index);
        let Reply::State(state) = self.request(&request)? else {
            return Err(wrong(&request, "a number"));
        };
        if !self.negotiated.features.has(Features::RING_PACKED) {
            return Ok(state.num & 0xffff);
        }
        // DPDK's back end fills only the lower half. A stopped ring has nothing in flight, so both halves are equal.
        Ok(state.num & 0xffff | state.num << 16)
    }
}
