//! Workers with caches, over one bridge of four ports.

mod actions;
mod caches;
mod change;
mod ct;
mod fast_path;
mod ftp;
mod learn;
mod packet_out;
mod ports;
mod scripts;
mod tunnel;

use super::probe::{Controllers, Normal, Outcome, ToNine, run, send};
use super::*;
use crate::action::{Action, Instructions};
use crate::modify::{Band, FlowCommand, FlowMod, MeterCommand, MeterFlags, MeterMod, PortNo, TableId};
use crate::tables::Modification;
use crate::trace::{DropCause, TracedPacket, Verdict};
use crate::{Field, Match};
use port::{
    Burst, Context, DropReason, Now, Passes, Pipeline, Pipelines, PortId, PuntReason, Punted, Verdicts,
};
use proptest::prelude::*;
use std::sync::Arc;

struct Lab {
    switch: FlowSwitch,
    worker: Box<dyn Pipeline>,
    now: Now,
}

fn flow(priority: u16, matching: &Match, apply: Vec<Action>) -> Modification {
    in_table(0, priority, matching, Instructions { apply, ..Instructions::default() })
}

fn in_table(table: u8, priority: u16, matching: &Match, instructions: Instructions) -> Modification {
    Modification::Flow(Box::new(FlowMod {
        table: TableId(table),
        cookie: priority.into(),
        instructions,
        ..FlowMod::new(FlowCommand::Add, matching, priority)
    }))
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNo(port), max_len: 0xffff }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

fn to_controller() -> Action {
    Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }
}

/// Of a port that gets no flooded packets.
const SILENT: PortConfig = PortConfig {
    is_down: false,
    drops_received: false,
    drops_sent: false,
    misses_silently: false,
    is_not_flooded: true,
};

/// A UDP packet over IPv4, with valid checksums.
fn udp(source: u8, destination: u8, ports: (u16, u16), ttl: u8) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, destination], [2, 0, 0, 0, 0, source]].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    let header = wire::checksum::Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&header);
    frame.extend(ports.0.to_be_bytes().into_iter().chain(ports.1.to_be_bytes()));
    frame.extend([0, 26, 0, 0]);
    frame.extend([7; 18]);
    frame
}

fn by_port(port: u128) -> Match {
    Match::any().with(Field::InPort, port)
}

fn ip() -> Match {
    Match::any().with(Field::EthType, 0x0800)
}

impl Lab {
    /// Ports of the engine 0 to 3 are the ports 1 to 4 of the bridge.
    fn new(changes: &[Modification]) -> Self {
        let switch = FlowSwitch::new(Arc::new(Normal));
        switch.add_bridge("br0").unwrap();
        for port in 0..4 {
            assert_eq!(switch.add_port(PortId(port), "br0", None).unwrap(), PortNo(u32::from(port) + 1));
        }
        let worker = switch.worker(0);
        let lab = Self { switch, worker, now: Now(1_000_000_000) };
        lab.change(changes);
        lab
    }

    fn change(&self, changes: &[Modification]) {
        self.switch.modify("br0", changes, self.now).unwrap();
    }

    fn send(&mut self, from: u16, frames: &[Vec<u8>]) -> Outcome {
        send(self.worker.as_mut(), from, frames, self.now)
    }

    /// Output ports of one frame.
    fn ports(&mut self, from: u16, frame: &[u8]) -> Vec<u16> {
        self.send(from, &[frame.to_vec()]).sent.into_keys().collect()
    }

    fn counts(&mut self) -> (u64, u64, u64) {
        // Workers report once a millisecond.
        self.now = Now(self.now.0 + 1_000_000);
        self.worker.tick(self.now);
        let CacheCounts { head, megaflow, tables, .. } = self.switch.cache_counts("br0").unwrap();
        (head, megaflow, tables)
    }
}
