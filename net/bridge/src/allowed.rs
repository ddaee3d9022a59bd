//! Allowed source addresses of a port, as configured: an address, a network or `dhcp`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One entry of a port's source address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AllowedSource {
    /// All addresses with the first `prefix` bits of `address`, whose other bits are zero.
    Network {
        /// Network address.
        address: IpAddr,
        /// Prefix length in bits.
        prefix: u8,
    },
    /// All addresses leased to this port by a DHCP server behind a trusted port.
    Dhcp,
}

/// Invalid source address text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSourceError {
    /// Not an address, a network or `dhcp`.
    #[error("invalid source \"{0}\": expected an address, a network such as 10.1.0.0/24, or \"dhcp\"")]
    Form(String),
    /// The address has host bits set.
    #[error("invalid source \"{0}\": the address has bits behind its prefix; expected \"{1}\"")]
    Bits(String, AllowedSource),
}

impl FromStr for AllowedSource {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        if text == "dhcp" {
            return Ok(Self::Dhcp);
        }
        let form = || ParseSourceError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(widest), str::parse).map_err(|_| form())?;
        // IPv4-mapped addresses are never valid as packet sources.
        let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        if prefix > widest || mapped {
            return Err(form());
        }
        let first = Self::Network { address: first_of(address, prefix), prefix };
        if first == (Self::Network { address, prefix }) {
            Ok(first)
        } else {
            Err(ParseSourceError::Bits(text.to_owned(), first))
        }
    }
}

/// Network address of `address`.
fn first_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & mask(prefix, 32) as u32).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & mask(prefix, 128)).into()),
    }
}

/// Netmask of `prefix` ones in `width` bits.
fn mask(prefix: u8, width: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(width));
    all & !all.checked_shr(prefix.into()).unwrap_or(0)
}

impl AllowedSource {
    /// Whether `ip` is in this network. Always false for [`AllowedSource::Dhcp`].
    pub fn contains(&self, ip: IpAddr) -> bool {
        match *self {
            Self::Network { address, prefix } => first_of(ip, prefix.min(128)) == address,
            Self::Dhcp => false,
        }
    }
}

impl fmt::Display for AllowedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address: address @ IpAddr::V4(_), prefix: 32 }
            | Self::Network { address: address @ IpAddr::V6(_), prefix: 128 } => address.fmt(f),
            Self::Network { address, prefix } => write!(f, "{address}/{prefix}"),
            Self::Dhcp => f.write_str("dhcp"),
        }
    }
}

impl TryFrom<String> for AllowedSource {
    type Error = ParseSourceError;

    fn try_from(text: String) -> Result<Self, ParseSourceError> {
        text.parse()
    }
}

impl From<AllowedSource> for String {
    fn from(source: AllowedSource) -> Self {
        source.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> AllowedSource {
        text.parse().unwrap()
    }

    #[test]
    fn sources_parse_and_print() {
        for text in ["10.0.0.5", "10.1.0.0/24", "0.0.0.0/0", "fd00::5", "fd00::/8", "::/0", "dhcp"] {
            assert_eq!(read(text).to_string(), text);
        }
        for text in ["", "10.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "a/8", "DHCP", "::ffff:10.0.0.5"]
        {
            assert_eq!(text.parse::<AllowedSource>(), Err(ParseSourceError::Form(text.to_owned())));
        }
        let error = "10.1.0.5/24".parse::<AllowedSource>().unwrap_err().to_string();
        assert!(error.ends_with("expected \"10.1.0.0/24\""), "{error}");
    }

    #[test]
    fn network_contains_its_addresses_only() {
        let has = |network: &str, ip: &str| read(network).contains(ip.parse().unwrap());
        assert!(has("10.1.0.0/24", "10.1.0.255") && !has("10.1.0.0/24", "10.1.1.0"));
        assert!(has("0.0.0.0/0", "255.1.2.3") && has("10.0.0.5", "10.0.0.5") && !has("10.0.0.5", "10.0.0.4"));
        assert!(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe00::1") && has("::/0", "ff02::1"));
        assert!(!has("::/0", "10.0.0.1") && !has("0.0.0.0/0", "fd00::1"), "versions are apart");
        assert!(!has("dhcp", "10.0.0.1"));
    }

    proptest! {
        #[test]
        fn text_round_trips(bits: u128, prefix in 0u8..=128) {
            let address = first_of(IpAddr::V6(bits.into()), prefix);
            let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
            prop_assume!(!mapped);
            let source = AllowedSource::Network { address, prefix };
            prop_assert_eq!(read(&source.to_string()), source);
            prop_assert!(source.contains(IpAddr::V6(bits.into())));
        }
    }
}
