//! Adds flows to a bridge as fast as it takes them, in the way of a controller that does not wait for replies.
//!
//! ```sh
//! add_flows /run/linerate/br0.mgmt 100000
//! ```
//!
//! Flows have priority 2, and match UDP packets of port 1 with a destination port from 20000 on. They drop them. The
//! program prints the flows per second until the reply to the last barrier.

use flow::{Field, FlowCommand, FlowMod, Match, TableId};
use openflow::{FlowModRequest, Framing, Hello, Message, Version, decode, encode};
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

const VERSION: Version = Version::V13;
/// Flows between two barriers.
const AT_ONCE: u32 = 5000;
/// Source ports of flows with one destination port.
const SOURCES: u32 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (socket, flows) = words.next().zip(words.next()).ok_or("usage: add_flows SOCKET FLOWS")?;
    let flows: u32 = flows.parse()?;
    let mut bridge = UnixStream::connect(socket)?;
    bridge.write_all(&encoded(&Message::Hello(Hello::new(&[VERSION])), 0)?)?;
    let parts: Vec<_> =
        (0..flows).step_by(AT_ONCE as usize).map(|first| part(first, flows)).collect::<Result<_, _>>()?;
    let start = Instant::now();
    for part in &parts {
        bridge.write_all(part)?;
    }
    await_barriers(&mut bridge, parts.len())?;
    println!("{:.0}", f64::from(flows) / start.elapsed().as_secs_f64());
    Ok(())
}

/// Messages that add flows from `first` on, and a barrier.
fn part(first: u32, flows: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    for number in first..flows.min(first + AT_ONCE) {
        let matching = Match::any()
            .with(Field::InPort, 1)
            .with(Field::EthType, 0x0800)
            .with(Field::IpProto, 17)
            .with(Field::UdpSrc, (number % SOURCES).into())
            .with(Field::UdpDst, (20_000 + number / SOURCES).into());
        let flow = FlowMod { table: TableId(0), ..FlowMod::new(FlowCommand::Add, &matching, 2) };
        bytes.extend(encoded(&Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None })), number)?);
    }
    bytes.extend(encoded(&Message::BarrierRequest, first)?);
    Ok(bytes)
}

fn encoded(message: &Message, xid: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    encode(message, VERSION, xid, &mut bytes)?;
    Ok(bytes)
}

/// Reads until so many barriers are answered.
fn await_barriers(bridge: &mut UnixStream, mut barriers: usize) -> Result<(), Box<dyn Error>> {
    let (mut framing, mut bytes) = (Framing::new(), [0; 4096]);
    while barriers > 0 {
        let room = framing.room().min(bytes.len());
        let n = bridge.read(&mut bytes[..room])?;
        if n == 0 {
            return Err("the bridge has closed the connection".into());
        }
        framing.push(&bytes[..n]);
        while let Some(message) = framing.next_message()? {
            match decode(message, VERSION)? {
                Message::BarrierReply => barriers -= 1,
                Message::Error(error) => return Err(format!("{error:?}").into()),
                _ => {}
            }
        }
    }
    Ok(())
}
