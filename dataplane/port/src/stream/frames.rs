//! What a row of bytes from the peer begins with. Sans-IO: knows neither sockets nor memory.

use crate::PortFault;

/// Bytes of a length.
pub(super) const PREFIX: usize = 4;
/// Shortest frame: an Ethernet header.
pub(super) const SHORTEST: usize = 14;
/// Longest frame: 64 KiB, the largest that any offload makes.
pub(super) const LONGEST: usize = 65_550;

/// What stands at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// A frame of so many bytes, whole, behind its length.
    Frame(usize),
    /// As above, too short to be one of Ethernet.
    Short(usize),
    /// The beginning of a length or of a frame; so many bytes are missing until more can be said.
    Partial(usize),
}

/// Says what `have` bytes begin with. `prefix` are the first four of them; it is not looked at where there are fewer.
///
/// # Errors
/// A length beyond the longest frame: frame boundaries are lost from here on.
#[inline(always)]
pub(super) fn front(have: usize, prefix: [u8; PREFIX]) -> Result<Front, PortFault> {
    if have < PREFIX {
        return Ok(Front::Partial(PREFIX - have));
    }
    let len = u32::from_be_bytes(prefix) as usize;
    if len > LONGEST {
        return Err(beyond(len));
    }
    let whole = PREFIX + len;
    Ok(match have {
        _ if have < whole => Front::Partial(whole - have),
        _ if len < SHORTEST => Front::Short(len),
        _ => Front::Frame(len),
    })
}

#[cold]
fn beyond(len: usize) -> PortFault {
    PortFault::Peer(format!("it announced a frame of {len} bytes, and the longest has {LONGEST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(have: usize, len: u32) -> Result<Front, PortFault> {
        front(have, len.to_be_bytes())
    }

    #[test]
    fn a_frame_is_whole_with_its_last_byte() {
        assert_eq!(of(3, u32::MAX), Ok(Front::Partial(1)), "not a length yet");
        assert_eq!(of(4, 60), Ok(Front::Partial(60)));
        assert_eq!(of(63, 60), Ok(Front::Partial(1)));
        assert_eq!(of(64, 60), Ok(Front::Frame(60)));
        assert_eq!(of(1000, 60), Ok(Front::Frame(60)));
    }

    #[test]
    fn what_is_too_short_is_told_and_what_is_too_long_ends_everything() {
        assert_eq!(of(4, 0), Ok(Front::Short(0)));
        assert_eq!(of(100, 13), Ok(Front::Short(13)));
        assert_eq!(of(100, 14), Ok(Front::Frame(14)));
        assert_eq!(of(PREFIX + LONGEST, 65_550), Ok(Front::Frame(LONGEST)));
        let fault = of(4, 65_551).unwrap_err().to_string();
        assert!(fault.contains("a frame of 65551 bytes"), "{fault}");
        assert!(of(4, u32::MAX).is_err());
    }
}
