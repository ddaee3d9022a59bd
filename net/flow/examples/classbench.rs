//! Writes a rule set in the style of `ClassBench` as flows for `ovs-ofctl`, and frames that random rules of it select
//! as a capture: `cargo run --release -p linerate-flow --example classbench acl|fw|ipc FLOWS HEADERS FOLDER`. The files
//! are `rules.txt`, whose flows send to port 2, and `frames.pcap`.

use etherparse::{IpNumber, PacketBuilder, ip_number};
use flow::classbench::{Family, Trace, rules};
use flow::text::{NoNames, show};
use flow::{Field, Key};
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use std::process::ExitCode;

/// Bytes of a frame without checksum.
const LENGTH: usize = 64;

fn write_flows(file: &Path, rules: &[(flow::Match, u16)]) -> Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for (matching, priority) in rules {
        writeln!(out, "priority={priority},{},actions=output:2", show(matching, &NoNames))?;
    }
    out.flush()
}

/// Writes the file format of libpcap, with microseconds and Ethernet frames.
fn write_frames(file: &Path, trace: &Trace) -> Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    out.write_all(&words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1]))?;
    for key in trace.packets() {
        let frame = frame(key)?;
        out.write_all(&words(&[0, 0, frame.len() as u32, frame.len() as u32]))?;
        out.write_all(&frame)?;
    }
    out.flush()
}

/// A frame with the addresses, protocol and ports of `key`.
fn frame(key: &Key) -> Result<Vec<u8>> {
    let number = |field| key.get(field) as u32;
    let [from, to] = [Field::Ipv4Src, Field::Ipv4Dst].map(|field| number(field).to_be_bytes());
    let ports = [Field::TcpSrc, Field::TcpDst].map(|field| number(field) as u16);
    let ip = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ipv4(from, to, 64);
    let (mut frame, protocol) = (Vec::new(), IpNumber(number(Field::IpProto) as u8));
    let written = match protocol {
        ip_number::TCP => ip.tcp(ports[0], ports[1], 1, 1000).write(&mut frame, &[0; LENGTH - 54]),
        ip_number::UDP => ip.udp(ports[0], ports[1]).write(&mut frame, &[0; LENGTH - 42]),
        other => ip.write(&mut frame, other, &[0; LENGTH - 34]),
    };
    written.map_err(std::io::Error::other)?;
    Ok(frame)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let numbers = |text: &String| text.parse::<usize>().ok();
    let [name, flows, headers, folder] = &arguments[..] else {
        eprintln!("expected four arguments: acl|fw|ipc FLOWS HEADERS FOLDER");
        return ExitCode::from(2);
    };
    let (Some(family), Some(flows), Some(headers)) = (Family::named(name), numbers(flows), numbers(headers))
    else {
        eprintln!(
            "no rule set `{name}` or no number in `{flows} {headers}`: expected acl|fw|ipc FLOWS HEADERS FOLDER"
        );
        return ExitCode::from(2);
    };
    let rules = rules(family, flows, 1);
    let trace = Trace::new(&rules, headers, headers, 0.0, 2);
    let folder = Path::new(folder);
    let written = write_flows(&folder.join("rules.txt"), &rules)
        .and_then(|()| write_frames(&folder.join("frames.pcap"), &trace));
    if let Err(error) = written {
        eprintln!("cannot write to {}: {error}; name another folder", folder.display());
        return ExitCode::FAILURE;
    }
    println!("{} flows", rules.len());
    ExitCode::SUCCESS
}
