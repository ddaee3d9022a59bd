//! Packets from and to controllers (OpenFlow 1.3.5, 7.3.7 and 7.4.1).

use crate::codes::packet_out_code;
use crate::request::{Answer, Request};
use crate::session::Session;
use crate::settings::Event;
use flow::translate::ControllerOperation;
use flow::{Field, Match, PortNo, TableId};
use openflow::{ErrorCode, NO_COOKIE, PacketIn, PacketOut, Version, reason};
use port::{PuntReason, Punted};

/// Length of an Ethernet header.
const HEADER: usize = 14;
/// A controller gets whole packets.
const NO_LIMIT: u16 = 0xffff;

impl Request<'_> {
    pub(crate) fn packet_out(&mut self, packet: &PacketOut) -> Answer {
        check_packet(packet)?;
        let sent = self.datapath.send(packet.in_port(), &packet.actions, &packet.data, self.now);
        match sent.map_err(|error| packet_out_code(&error)) {
            Ok(()) => Ok(()),
            Err(Some(code)) => Err(code),
            Err(None) => {
                self.session.counters.discarded += 1;
                Ok(())
            }
        }
    }
}

/// No packet is ever buffered, so that a packet-out must contain its packet.
pub(crate) fn check_packet(packet: &PacketOut) -> Answer {
    let port = packet.in_port();
    let is_port = port.0 != 0 && port <= PortNo::MAX;
    if packet.buffer.is_some() {
        Err(ErrorCode::RequestBufferUnknown)
    } else if !is_port && ![PortNo::LOCAL, PortNo::CONTROLLER, PortNo::ANY].contains(&port) {
        Err(ErrorCode::RequestBadPort)
    } else if packet.data.len() < HEADER {
        Err(ErrorCode::RequestBadPacket)
    } else {
        Ok(())
    }
}

impl Session {
    /// The message with a packet for the controller, if it has the identifier that the action names.
    pub(crate) fn packet_in(&self, in_port: PortNo, packet: &Punted) -> Option<PacketIn> {
        let version = self.version()?;
        let output = operation(packet);
        if output.controller != self.settings.controller
            || !self.settings.wants(self.kind, self.role, Event::PacketIn, output.reason)
        {
            return None;
        }
        let len = match output.max_len {
            NO_LIMIT => packet.frame.len(),
            limit => packet.frame.len().min(limit.into()),
        };
        let in_port = output.pipeline.exact(Field::InPort).unwrap_or(in_port.0.into());
        Some(PacketIn {
            format: self.settings.packet_in,
            buffer: None,
            total_len: packet.frame.len() as u32,
            reason: reason_in(output.reason, version),
            table: output.table,
            cookie: output.cookie,
            // A packet-out from no port has the context of another one, and its ingress port in the note.
            metadata: output.pipeline.with(Field::InPort, in_port),
            data: packet.frame[..len].to_vec(),
            userdata: output.userdata.into_vec(),
        })
    }
}

/// Output action that sent the packet. Packets without a note are those of a table without flows.
fn operation(packet: &Punted) -> ControllerOperation {
    let noted = packet.note.as_ref().and_then(|note| note.downcast_ref::<ControllerOperation>());
    noted.cloned().unwrap_or_else(|| ControllerOperation {
        max_len: NO_LIMIT,
        controller: 0,
        reason: match packet.reason {
            PuntReason::NoMatch => reason::NO_MATCH,
            PuntReason::Action | PuntReason::Protocol => reason::ACTION,
            PuntReason::InvalidTtl => reason::INVALID_TTL,
        },
        table: TableId(0),
        cookie: NO_COOKIE,
        userdata: Box::default(),
        pipeline: Match::any(),
    })
}

/// Before OpenFlow 1.4, the reasons of all outputs are one.
fn reason_in(reason: u8, version: Version) -> u8 {
    if version < Version::V14 && reason > reason::INVALID_TTL { reason::ACTION } else { reason }
}
