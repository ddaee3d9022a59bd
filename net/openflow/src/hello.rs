//! Hello messages and the choice of a version (OpenFlow 1.3.5, 6.3.1 and 7.5.1).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use crate::version::Version;

/// `OFPHET_VERSIONBITMAP`.
const BITMAP: u16 = 1;

/// Versions that a side supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Highest version: the first byte of the message.
    pub version: u8,
    /// Bit n is set if version n is supported; `None` if only the highest one is stated.
    pub versions: Option<u32>,
}

impl Hello {
    /// Announces these versions.
    pub fn new(versions: &[Version]) -> Self {
        let highest = versions.iter().max().map_or(0, |version| *version as u8);
        let bits = versions.iter().fold(0, |bits, version| bits | 1 << *version as u8);
        Self { version: highest, versions: Some(bits) }
    }

    /// The version to use: the highest one that both sides support; without a bitmap, the lower one of the two highest.
    /// `None` if there is none; the answer is then [`ErrorCode::HelloIncompatible`].
    pub fn agree(&self, other: &Self) -> Option<Version> {
        if let Some((own, others)) = self.versions.zip(other.versions) {
            let common = own & others;
            return common.checked_ilog2().and_then(|highest| Version::from_number(highest as u8));
        }
        let lower = Version::from_number(self.version.min(other.version))?;
        let is_own = self.versions.is_none_or(|bits| bits & 1 << lower as u8 != 0);
        Some(lower).filter(|_| is_own)
    }

    /// Reads the elements. Unknown ones, and bytes after them, are ignored.
    pub(crate) fn read(version: u8, mut from: Reader<'_>) -> Result<Self, ErrorCode> {
        let mut versions = None;
        while from.len() >= 4 {
            let (kind, len) = (from.u16()?, usize::from(from.u16()?));
            let Some(Ok(mut value)) = len.checked_sub(4).map(|len| from.take(len)) else { break };
            if kind == BITMAP && versions.is_none() && value.len() >= 4 {
                versions = Some(value.u32()?);
            }
            from.skip_padding(len);
        }
        Ok(Self { version, versions })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(bits) = self.versions {
            out.put_u16(BITMAP);
            out.put_u16(8);
            out.put_u32(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        let own = Hello::new(&[Version::V10, Version::V13, Version::V14]);
        assert_eq!(own, Hello { version: 5, versions: Some(0x32) });
        let agree = |version, versions| own.agree(&Hello { version, versions });
        assert_eq!(agree(6, Some(0x52)), Some(Version::V13));
        assert_eq!(agree(6, Some(0x40)), None);
        assert_eq!(agree(4, None), Some(Version::V13));
        assert_eq!(agree(9, None), Some(Version::V14));
        assert_eq!(agree(3, None), None);
        assert_eq!(Hello::new(&[Version::V13]).agree(&Hello { version: 1, versions: None }), None);
    }
}
