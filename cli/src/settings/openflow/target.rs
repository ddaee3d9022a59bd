//! Targets of OpenFlow connections, in the syntax of `ovs-vsctl set-controller`.

use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Port of OpenFlow (IANA).
const PORT: u16 = 6653;

/// How a bridge and a controller connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The bridge connects to a host, by name or address.
    Host { host: String, port: u16, tls: bool },
    /// The bridge listens at an address.
    Listen { address: IpAddr, port: u16, tls: bool },
    /// The bridge connects to a socket file.
    Socket(PathBuf),
    /// The bridge listens at a socket file.
    ListenSocket(PathBuf),
}

impl Target {
    /// Whether the connection is encrypted.
    pub(crate) fn uses_tls(&self) -> bool {
        matches!(self, Self::Host { tls: true, .. } | Self::Listen { tls: true, .. })
    }

    /// Whether the bridge connects. Such controllers are primary ones: `fail_mode` is about them.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Host { .. } | Self::Socket(_))
    }

    /// The socket file that the bridge creates.
    pub(crate) fn created(&self) -> Option<&Path> {
        match self {
            Self::ListenSocket(path) => Some(path),
            _ => None,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |reason: &str| format!("`controllers` lists \"{text}\": {reason}");
        let (method, rest) = text.split_once(':').ok_or_else(|| invalid("it has no method such as tcp:"))?;
        let tls = method.ends_with("ssl");
        match method {
            "tcp" | "ssl" => {
                let (host, port) = host_and_port(rest).map_err(invalid)?;
                Ok(Self::Host { host: host.to_owned(), port, tls })
            }
            "ptcp" | "pssl" => {
                let (address, port) = address_and_port(rest).map_err(invalid)?;
                Ok(Self::Listen { address, port, tls })
            }
            "unix" | "punix" if !rest.starts_with('/') => Err(invalid("the path is not absolute")),
            "unix" => Ok(Self::Socket(rest.into())),
            "punix" => Ok(Self::ListenSocket(rest.into())),
            _ => Err(invalid("the method is not tcp, ssl, unix, ptcp, pssl or punix")),
        }
    }
}

/// `HOST[:PORT]`, with an IPv6 address in brackets.
fn host_and_port(text: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("the bracket is not closed")?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(NO_PORT)?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if port.is_some_and(|port| port.contains(':')) {
        return Err("an IPv6 address needs brackets");
    }
    let is_valid = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || !host.chars().all(is_valid) {
        return Err("the host is not a name or an address");
    }
    Ok((host, port.map_or(Ok(PORT), number)?))
}

/// `[PORT][:ADDRESS]`, with an IPv6 address in brackets.
fn address_and_port(text: &str) -> Result<(IpAddr, u16), &'static str> {
    let (port, address) = text.split_once(':').map_or((text, None), |(port, address)| (port, Some(address)));
    let inner =
        |text: &'_ str| text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).map(str::to_owned);
    let address = match address {
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(text) => {
            let text = inner(text).unwrap_or_else(|| text.to_owned());
            text.parse().map_err(|_| "the address to listen at is not an IP address")?
        }
    };
    Ok((address, if port.is_empty() { PORT } else { number(port)? }))
}

const NO_PORT: &str = "the port is not a number from 1 to 65535";

fn number(text: &str) -> Result<u16, &'static str> {
    text.parse().ok().filter(|port| *port > 0).ok_or(NO_PORT)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = |tls: &bool| if *tls { "ssl" } else { "tcp" };
        match self {
            Self::Host { host, port, tls } if host.contains(':') => {
                write!(f, "{}:[{host}]:{port}", method(tls))
            }
            Self::Host { host, port, tls } => write!(f, "{}:{host}:{port}", method(tls)),
            Self::Listen { address: IpAddr::V6(address), port, tls } => {
                write!(f, "p{}:{port}:[{address}]", method(tls))
            }
            Self::Listen { address, port, tls } => write!(f, "p{}:{port}:{address}", method(tls)),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::ListenSocket(path) => write!(f, "punix:{}", path.display()),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_syntax_of_ovs_vsctl() {
        for (text, shown) in [
            ("tcp:10.0.0.1:6653", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("ssl:host.example:1", "ssl:host.example:1"),
            ("tcp:[::1]", "tcp:[::1]:6653"),
            ("tcp:[fe80::1%eth0]:66", "tcp:[fe80::1%eth0]:66"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6654", "ptcp:6654:0.0.0.0"),
            ("ptcp:6653:127.0.0.1", "ptcp:6653:127.0.0.1"),
            ("pssl::[::1]", "pssl:6653:[::1]"),
            ("unix:/run/c.sock", "unix:/run/c.sock"),
            ("punix:/run/c.sock", "punix:/run/c.sock"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(
                (target.to_string().as_str(), target.to_string().parse()),
                (shown, Ok(target)),
                "{text}"
            );
        }
    }

    #[test]
    fn an_invalid_target_is_named_with_its_reason() {
        for (text, reason) in [
            ("10.0.0.1", "no method"),
            ("udp:10.0.0.1", "the method is not"),
            ("tcp:", "not a name or an address"),
            ("tcp:a b", "not a name or an address"),
            ("tcp:::1", "needs brackets"),
            ("tcp:[::1", "not closed"),
            ("tcp:[::1]6653", "not a number"),
            ("tcp:a:0", "not a number"),
            ("tcp:a:65536", "not a number"),
            ("ptcp:x", "not a number"),
            ("ptcp:1:host", "not an IP address"),
            ("punix:c.sock", "not absolute"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(&format!("\"{text}\"")) && error.contains(reason), "{error}");
        }
    }
}
