//! Helpers: connections that the payload of a control connection announces.
//!
//! A command must be complete in the first bytes of a packet that workers have. Payload is never changed, so an address
//! in it that is translated elsewhere announces nothing: FTP works through a translated source in passive mode only.

use crate::connection::Connection;
use crate::packet::Packet;
use crate::tuple::Tuple;
use std::net::{IpAddr, Ipv4Addr};
use wire::checksum::protocol;

/// Protocol of a control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Helper {
    /// No control connection.
    #[default]
    None,
    /// FTP (RFC 959, RFC 2428).
    Ftp,
    /// TFTP (RFC 1350).
    Tftp,
}

/// Properties of an expected connection that come from the connection that announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) original: Tuple,
    pub(crate) mark: u32,
    pub(crate) label: u128,
}

/// Name of an expected connection: the port of its source is not known.
pub(crate) fn key_of(tuple: &Tuple) -> Tuple {
    tuple.with_ports(0, tuple.ports().1)
}

impl Helper {
    /// Whether the helper is one for the protocol of a connection.
    pub(crate) fn fits(self, tuple: &Tuple) -> bool {
        match self {
            Self::None => false,
            Self::Ftp => tuple.protocol() == protocol::TCP,
            Self::Tftp => tuple.protocol() == protocol::UDP,
        }
    }

    /// Name of the connection that a packet of a control connection announces.
    pub(crate) fn expected(self, connection: &Connection, packet: &Packet, is_reply: bool) -> Option<Tuple> {
        let original = &connection.original;
        let (client, server) = (original.source(), original.destination());
        let to = |from: IpAddr, to: IpAddr, port: u16| {
            Tuple::new((from, to), original.protocol(), original.zone()).with_ports(0, port)
        };
        match self {
            Self::Tftp if !is_reply && matches!(packet.payload, [0, 1 | 2, ..]) => {
                // The server replies from a port of its own.
                let reply = connection.reply();
                Some(to(reply.source(), reply.destination(), reply.ports().1))
            }
            Self::Ftp if is_reply => {
                let (address, port) = passive(packet.payload)?;
                (address.is_none_or(|address| address == server)).then(|| to(client, server, port))
            }
            Self::Ftp if connection.nat.is_none() => {
                let (address, port) = active(packet.payload)?;
                // Another address than the client's would be an attack on a third host.
                (address == client).then(|| to(server, client, port))
            }
            _ => None,
        }
    }
}

/// The first line of a payload.
fn line(payload: &[u8]) -> Option<&str> {
    let end = payload.iter().position(|byte| *byte == b'\r' || *byte == b'\n')?;
    std::str::from_utf8(&payload[..end]).ok()
}

/// Address and port of a client's PORT or EPRT command.
fn active(payload: &[u8]) -> Option<(IpAddr, u16)> {
    let (command, argument) = line(payload)?.split_once(' ')?;
    if command.eq_ignore_ascii_case("PORT") {
        return numbers(argument);
    }
    let mut parts = extended(argument).filter(|_| command.eq_ignore_ascii_case("EPRT"))?;
    let (_, address, port) = (parts.next()?, parts.next()?, parts.next()?);
    Some((address.parse().ok()?, number(port)?))
}

/// Port, and address if given, of a server's reply to PASV or EPSV.
fn passive(payload: &[u8]) -> Option<(Option<IpAddr>, u16)> {
    let line = line(payload)?;
    let (_, argument) = line.split_once('(')?;
    let (argument, _) = argument.split_once(')')?;
    if line.starts_with("227") {
        return numbers(argument).map(|(address, port)| (Some(address), port));
    }
    let port = extended(argument).filter(|_| line.starts_with("229"))?.nth(2)?;
    Some((None, number(port)?))
}

/// A port.
fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port: &u16| *port != 0)
}

/// Four numbers of an address and two of a port.
fn numbers(text: &str) -> Option<(IpAddr, u16)> {
    let mut parts = text.trim().split(',').map(|part| part.parse::<u8>().ok());
    let mut next = || parts.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    (port != 0).then(|| (address.into(), port))
}

/// The parts between delimiters, the first of which is the first character (RFC 2428 section 2).
fn extended(text: &str) -> Option<impl Iterator<Item = &str>> {
    let delimiter = text.chars().next()?;
    Some(text.split(delimiter).skip(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies_of_ftp_are_read() {
        let v4 = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(active(b"PORT 10,0,0,1,4,1\r\n"), Some((v4, 1025)));
        assert_eq!(active(b"eprt |1|10.0.0.1|1025|\r\n"), Some((v4, 1025)));
        assert_eq!(active(b"EPRT |2|fe80::1|6446|\r\n"), Some(("fe80::1".parse().unwrap(), 6446)));
        assert_eq!(passive(b"227 Entering Passive Mode (10,0,0,1,4,1).\r\n"), Some((Some(v4), 1025)));
        assert_eq!(passive(b"229 Entering Extended Passive Mode (|||6446|)\r\n"), Some((None, 6446)));
    }

    #[test]
    fn malformed_commands_announce_nothing() {
        for text in
            ["PORT 10,0,0,1,4,1", "PORT 10,0,0,1,4\r\n", "PORT 10,0,0,256,4,1\r\n", "PORT 1,1,1,1,0,0\r\n"]
        {
            assert_eq!(active(text.as_bytes()), None, "{text}");
        }
        for text in ["227 (1,2,3)\r\n", "229 (|||0|)\r\n", "229 ()\r\n", "200 (10,0,0,1,4,1)\r\n"] {
            assert_eq!(passive(text.as_bytes()), None, "{text}");
        }
    }
}
