//! Framing of received bytes. Sans-I/O: independent of sockets and memory.

use crate::PortFault;

/// Length prefix size, in bytes.
pub(super) const PREFIX: usize = 4;
/// Minimum frame length in bytes: an Ethernet header.
pub(super) const MIN_FRAME: usize = 14;
/// Maximum frame length in bytes: 64 KiB, the largest segmentation-offload frame.
pub(super) const MAX_FRAME: usize = 65_550;

/// Content at the start of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// A complete frame of this length, after its prefix.
    Frame(usize),
    /// A complete frame of this length, shorter than an Ethernet header.
    Short(usize),
    /// An incomplete prefix or frame; this many bytes are missing.
    Partial(usize),
}

/// Classifies the start of `have` received bytes. `prefix` are the first four; ignored if there are fewer.
///
/// # Errors
/// If a length exceeds the maximum: frame boundaries are lost from here on.
#[inline(always)]
pub(super) fn front(have: usize, prefix: [u8; PREFIX]) -> Result<Front, PortFault> {
    if have < PREFIX {
        return Ok(Front::Partial(PREFIX - have));
    }
    let len = u32::from_be_bytes(prefix) as usize;
    if len > MAX_FRAME {
        return Err(beyond(len));
    }
    let whole = PREFIX + len;
    Ok(match have {
        _ if have < whole => Front::Partial(whole - have),
        _ if len < MIN_FRAME => Front::Short(len),
        _ => Front::Frame(len),
    })
}

#[cold]
fn beyond(len: usize) -> PortFault {
    PortFault::Peer(format!("it announced a frame of {len} bytes, and the longest has {MAX_FRAME}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(have: usize, len: u32) -> Result<Front, PortFault> {
        front(have, len.to_be_bytes())
    }

    #[test]
    fn frame_is_complete_with_its_last_byte() {
        assert_eq!(of(3, u32::MAX), Ok(Front::Partial(1)), "not a length yet");
        assert_eq!(of(4, 60), Ok(Front::Partial(60)));
        assert_eq!(of(63, 60), Ok(Front::Partial(1)));
        assert_eq!(of(64, 60), Ok(Front::Frame(60)));
        assert_eq!(of(1000, 60), Ok(Front::Frame(60)));
    }

    #[test]
    fn short_frame_is_reported_and_a_long_one_is_a_fault() {
        assert_eq!(of(4, 0), Ok(Front::Short(0)));
        assert_eq!(of(100, 13), Ok(Front::Short(13)));
        assert_eq!(of(100, 14), Ok(Front::Frame(14)));
        assert_eq!(of(PREFIX + MAX_FRAME, 65_550), Ok(Front::Frame(MAX_FRAME)));
        let fault = of(4, 65_551).unwrap_err().to_string();
        assert!(fault.contains("a frame of 65551 bytes"), "{fault}");
        assert!(of(4, u32::MAX).is_err());
    }
}
