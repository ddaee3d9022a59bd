//! Payload encoding. Input is private and size-checked, so decoding cannot fail.

use mem::RegionSpec;

/// "A vring state description": ring index and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// Ring index: 2 * pair for the receive ring, plus 1 for the transmit ring of the guest.
    pub index: u32,
    /// Request-specific value.
    pub num: u32,
}

/// "A vring address description": front-end virtual addresses of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VringAddress {
    /// Ring index.
    pub index: u32,
    /// Bit 0 (`VHOST_VRING_F_LOG`): writes to the used ring are logged.
    pub flags: u32,
    /// User address of the descriptor area.
    pub descriptor: u64,
    /// User address of the device area (used ring).
    pub used: u64,
    /// User address of the driver area (available ring).
    pub available: u64,
    /// Guest address for logging used ring writes.
    pub log: u64,
}

/// "A log description": a range of the file of the log of written pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogArea {
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// A transfer of the device's state through the descriptor of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTransfer {
    /// 0: the back end writes its state. [`StateTransfer::LOAD`]: it reads it.
    pub direction: u32,
    /// When the state is transferred; only [`StateTransfer::STOPPED`] is specified.
    pub phase: u32,
}

impl StateTransfer {
    /// The back end reads its state.
    pub const LOAD: u32 = 1;
    /// All rings are stopped.
    pub const STOPPED: u32 = 0;
}

impl VringAddress {
    /// `VHOST_VRING_F_LOG`
    pub const LOG: u32 = 1;
}

/// The payload of `SET_VRING_KICK`, `SET_VRING_CALL` and `SET_VRING_ERR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringFile {
    /// Ring index, in bits 0-7.
    pub index: u8,
    /// True if bit 8 is clear: the message carries a descriptor. Otherwise the ring is polled.
    pub has_descriptor: bool,
}

impl VringFile {
    const INDEX: u64 = 0xff;
    const NO_DESCRIPTOR: u64 = 1 << 8;

    pub(super) fn from_u64(value: u64) -> Self {
        Self { index: (value & Self::INDEX) as u8, has_descriptor: value & Self::NO_DESCRIPTOR == 0 }
    }

    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.index) | if self.has_descriptor { 0 } else { Self::NO_DESCRIPTOR }
    }
}

/// Reads numbers from the front of a size-checked payload.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// The next bytes; zeros beyond the end, which size-checked payloads do not reach.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let n = N.min(self.0.len());
        bytes[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        bytes
    }

    pub(super) fn state(&mut self) -> VringState {
        VringState { index: self.u32(), num: self.u32() }
    }

    pub(super) fn log(&mut self) -> LogArea {
        LogArea { len: self.u64(), offset: self.u64() }
    }

    pub(super) fn transfer(&mut self) -> StateTransfer {
        StateTransfer { direction: self.u32(), phase: self.u32() }
    }

    pub(super) fn address(&mut self) -> VringAddress {
        VringAddress {
            index: self.u32(),
            flags: self.u32(),
            descriptor: self.u64(),
            used: self.u64(),
            available: self.u64(),
            log: self.u64(),
        }
    }

    pub(super) fn region(&mut self) -> RegionSpec {
        let (guest, len, user, offset) = (self.u64(), self.u64(), self.u64(), self.u64());
        RegionSpec { guest, user, len, offset }
    }
}

/// Appends numbers to a payload.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn state(self, state: VringState) -> Self {
        self.u32(state.index).u32(state.num)
    }

    pub(super) fn address(self, a: &VringAddress) -> Self {
        self.u32(a.index).u32(a.flags).u64(a.descriptor).u64(a.used).u64(a.available).u64(a.log)
    }

    pub(super) fn region(self, r: &RegionSpec) -> Self {
        self.u64(r.guest).u64(r.len).u64(r.user).u64(r.offset)
    }
}
