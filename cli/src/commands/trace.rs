//! `linerate trace`: reads the packet, and prints its way through the flow tables of the running switch. `live` follows
//! packets of running ports instead.

mod live;
mod records;

use crate::api::client::Client;
use crate::args::trace::TraceArgs;
use crate::commands::show::trace;
use crate::dataplane::flow_report::{TraceReport, TraceRequest};
use crate::remedy;
use console::Diagnostic;
use port::pcap::Recording;
use std::fmt::Write;
use std::path::Path;

/// Bytes of a frame that are sent to the switch, which reads less.
const HEAD: usize = 16 << 10;

/// Traces a packet.
pub(crate) fn run(args: &TraceArgs, client: &Client) -> anyhow::Result<()> {
    if args.live {
        return live::run(args, client);
    }
    let (bridge, flow, in_port) = (args.bridge.clone(), args.flow.clone(), args.in_port.clone());
    let frame = args.pcap.as_deref().map(|path| frame(path, args.packet.get())).transpose()?;
    let length = frame.as_ref().map(Vec::len);
    let frame = frame.map(|frame| hex(&frame[..frame.len().min(HEAD)]));
    let request = TraceRequest { bridge, flow, in_port, frame, length, ct_next: args.ct_next.clone() };
    let report: TraceReport = client.post("/v1/trace", &serde_json::to_value(request)?)?;
    console::print(&report, args.show.output, trace::text)
}

/// Packet `number` of a capture file, from 1.
fn frame(path: &Path, number: usize) -> Result<Vec<u8>, Diagnostic> {
    let recording = Recording::read(path).map_err(|e| remedy::invalid("--pcap", &e, "name another file"))?;
    recording.frames().nth(number - 1).ok_or_else(|| {
        let packets = recording.packets();
        let reason = format!("{} has {packets} packets, and no packet {number}", path.display());
        Diagnostic::bad("--packet", reason, format!("give 1 to {packets}"))
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_a_capture_is_found_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcap");
        let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
        let packet = |byte: u8| [[0_u32, 0, 14, 14].map(u32::to_le_bytes).concat(), vec![byte; 14]].concat();
        std::fs::write(&path, [header, packet(1), packet(0xab)].concat()).unwrap();
        assert_eq!(hex(&frame(&path, 2).unwrap()), "ab".repeat(14));
        let missing = frame(&path, 3).unwrap_err();
        assert!(missing.reason.contains("has 2 packets") && missing.code == console::BAD_INPUT, "{missing}");
        assert_eq!(frame(&dir.path().join("none"), 1).unwrap_err().place, "--pcap");
    }
}
