//! Helpers: connections that the payload of a control connection announces.
//!
//! A message must be complete in the first bytes of a packet that workers have. If a control connection is translated,
//! the receiver of a message must see the translated address of its sender: the message is written anew, and the
//! connection that it announces is translated as the control connection is.

use crate::connection::Connection;
use crate::ftp::Message;
use crate::nat::{Direction, Nat};
use crate::packet::Packet;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use wire::checksum::protocol;

/// Protocol of a control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub(crate) original: Tuple,
    pub(crate) mark: u32,
    pub(crate) label: u128,
}

/// Translation of an expected connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Redirect {
    pub(crate) direction: Direction,
    pub(crate) address: IpAddr,
    /// Port of a destination.
    pub(crate) port: Option<u16>,
}

impl Redirect {
    pub(crate) fn nat(&self) -> Nat {
        Nat {
            direction: Some(self.direction),
            addresses: Some((self.address, self.address)),
            ports: self.port.map(|port| (port, port)),
            ..Nat::default()
        }
    }
}

/// An expected connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) parent: Parent,
    /// Its translation, if its parent is translated.
    pub(crate) redirect: Option<Redirect>,
}

/// What a packet of a control connection announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Name of the connection, as the receiver of the message knows it.
    pub(crate) key: Tuple,
    pub(crate) redirect: Option<Redirect>,
    /// The message, unless there is no text that gives the port.
    pub(crate) message: Option<Message>,
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

    /// The connection that a packet of a control connection announces.
    pub(crate) fn announced(
        self,
        connection: &Connection,
        packet: &Packet,
        is_reply: bool,
    ) -> Option<Announced> {
        let (message, port) = match self {
            Self::Ftp => {
                let read = if is_reply { Message::of_server } else { Message::of_client };
                let message = read(packet.payload)?;
                (Some(message), message.port)
            }
            // The server replies from a port of its own.
            Self::Tftp if !is_reply && matches!(packet.payload, [0, 1 | 2, ..]) => {
                (None, connection.original.ports().0)
            }
            _ => return None,
        };
        // Direction of the packet as its sender knows it, and as its receiver does.
        let (sent, received) = if is_reply {
            (connection.reply(), connection.original.reversed())
        } else {
            (connection.original, connection.reply().reversed())
        };
        // Another address than the sender's would be an attack on a third host.
        let is_own = |address| address == sent.source() || address == received.source();
        if message.and_then(|message| message.address).is_some_and(|address| !is_own(address)) {
            return None;
        }
        let redirect = redirect(connection, is_reply, &sent, port);
        // Without a message, the port is translated as that of the control connection.
        let port = if message.is_some() { port } else { received.ports().0 };
        Some(Announced { key: received.reversed().with_ports(0, port), redirect, message })
    }
}

/// Translation of the connection that the sender of a message waits for at `port`, if its own is translated. `sent` is
/// the direction of the message as it knows it.
fn redirect(connection: &Connection, is_reply: bool, sent: &Tuple, port: u16) -> Option<Redirect> {
    let direction = connection.nat.as_ref()?.direction;
    let is_sender_translated = (direction == Direction::Source) != is_reply;
    Some(if is_sender_translated {
        Redirect { direction: Direction::Destination, address: sent.source(), port: Some(port) }
    } else {
        Redirect { direction: Direction::Source, address: sent.destination(), port: None }
    })
}
