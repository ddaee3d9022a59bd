//! Reads the records of packets that a capture follows from its pcapng stream, as they arrive.

use pcap_parser::nom;
use pcap_parser::pcapng::parse_block_le;
use pcap_parser::{Block, EnhancedPacketBlock, OptionCode, PcapError};
use std::io;

/// `epb_flags`, and its value in the lowest two bits for a packet that was sent.
const FLAGS: OptionCode = OptionCode(2);
const OUTBOUND: u8 = 2;

/// More bytes than a block has.
const LONGEST: usize = 1 << 20;

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Received,
    Sent,
    /// Taken by queues of the port, which send or drop it later.
    Queued,
    Dropped(String),
}

/// One step of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceRecord {
    pub(super) number: u32,
    pub(super) port: String,
    pub(super) outcome: Outcome,
    /// Nanoseconds since the Unix epoch.
    pub(super) time: u64,
    /// Nanoseconds from the reception to this step, and to the verdict.
    pub(super) since_ns: u64,
    pub(super) verdict_ns: u64,
    /// Packets that matched before it and were not followed.
    pub(super) skipped: u64,
    pub(super) length: u32,
    /// First bytes of the packet.
    pub(super) head: Vec<u8>,
}

/// A stream that was read so far.
#[derive(Default)]
pub(super) struct Reader {
    rest: Vec<u8>,
    ports: Vec<String>,
}

impl Reader {
    /// Adds bytes of the stream. Returns the records that are complete.
    pub(super) fn read(&mut self, bytes: &[u8]) -> io::Result<Vec<TraceRecord>> {
        self.rest.extend_from_slice(bytes);
        let (mut records, mut done) = (Vec::new(), 0);
        loop {
            match parse_block_le(&self.rest[done..]) {
                Ok((left, block)) => {
                    take(&mut self.ports, &mut records, &block);
                    done = self.rest.len() - left.len();
                }
                Err(nom::Err::Incomplete(_) | nom::Err::Error(PcapError::Incomplete(_)))
                    if self.rest.len() - done < LONGEST =>
                {
                    break;
                }
                Err(_) => {
                    let reason = "the answer is not pcapng";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
            }
        }
        self.rest.drain(..done);
        Ok(records)
    }
}

fn take(ports: &mut Vec<String>, records: &mut Vec<TraceRecord>, block: &Block<'_>) {
    match block {
        Block::InterfaceDescription(interface) => {
            ports.push(interface.if_name().and_then(Result::ok).unwrap_or_default().to_owned());
        }
        Block::EnhancedPacket(packet) => {
            let port = ports.get(packet.if_id as usize).cloned().unwrap_or_default();
            records.extend(record(port, packet));
        }
        _ => {}
    }
}

/// The step that a packet of the stream is. Its numbers are in a comment: `trace 7: 900 ns after its reception, verdict
/// after 300 ns; 0 packets skipped before`.
fn record(port: String, packet: &EnhancedPacketBlock<'_>) -> Option<TraceRecord> {
    let comments = || packet.options.iter().filter(|option| option.code == OptionCode::Comment);
    let comment = |start| comments().find_map(|option| option.as_str().ok()?.strip_prefix(start));
    let digits = comment("trace ")?.split(|c: char| !c.is_ascii_digit());
    let mut numbers = digits.filter_map(|word| word.parse::<u64>().ok());
    let mut next = || numbers.next();
    let (number, since_ns, verdict_ns, skipped) = (next()?, next()?, next()?, next()?);
    let flags = packet.options.iter().find(|option| option.code == FLAGS);
    let is_out = flags.and_then(|flags| flags.value().first()).is_some_and(|byte| byte & 3 == OUTBOUND);
    let outcome = match comment("dropped: ") {
        Some(reason) => Outcome::Dropped(reason.to_owned()),
        None if comment("queued: ").is_some() => Outcome::Queued,
        None if is_out => Outcome::Sent,
        None => Outcome::Received,
    };
    let kept = packet.data.len().min(packet.caplen as usize);
    Some(TraceRecord {
        number: number as u32,
        port,
        outcome,
        time: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
        since_ns,
        verdict_ns,
        skipped,
        length: packet.origlen,
        head: packet.data[..kept].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::copy::Portable;
    use port::pcap::{CaptureDirection, CaptureFile, Outcome as Fate, TraceStep};
    use port::{Burst, DropReason};
    use std::time::Duration;

    #[test]
    fn records_are_read_from_pieces_of_a_capture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = std::fs::File::create(&path).unwrap();
        let mut file = CaptureFile::stream(file, &["red", "blue"], None, None).unwrap();
        let (mut feed, mut burst) = (file.feed(), Burst::new());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]));
        let step = |number, since_ns| Some(TraceStep { number, verdict_ns: 300, since_ns, skipped: 4 });
        let (moved, full) = (Fate::Moved, Fate::Lost(DropReason::QueueFull));
        let mut add = |direction, fate, interface, step| {
            feed.add::<Portable>((&burst, 0), direction, fate, (interface, 1 << 40), step);
        };
        add(CaptureDirection::In, moved, 0, step(7, 0));
        add(CaptureDirection::Out, moved, 1, step(7, 900));
        add(CaptureDirection::Out, full, 1, step(8, 901));
        add(CaptureDirection::Out, Fate::Queued, 1, step(9, 902));
        add(CaptureDirection::Out, moved, 1, None);
        feed.notify();
        file.write(Duration::from_millis(1));
        drop(feed);
        file.close();
        let (mut reader, mut records) = (Reader::default(), Vec::new());
        for piece in std::fs::read(&path).unwrap().chunks(7) {
            records.extend(reader.read(piece).unwrap());
        }
        let of = |record: &TraceRecord| {
            (record.number, record.port.clone(), record.outcome.clone(), record.since_ns)
        };
        let expected = [
            (7, "red".to_owned(), Outcome::Received, 0),
            (7, "blue".to_owned(), Outcome::Sent, 900),
            (8, "blue".to_owned(), Outcome::Dropped("queue-full".to_owned()), 901),
            (9, "blue".to_owned(), Outcome::Queued, 902),
        ];
        assert_eq!(records.iter().map(of).collect::<Vec<_>>(), expected);
        let first = &records[0];
        assert_eq!((first.verdict_ns, first.skipped, first.length), (300, 4, 60));
        assert!(first.time >= 1 << 40 && first.head == [7; 60]);
    }

    #[test]
    fn bytes_of_something_else_are_an_error() {
        assert!(Reader::default().read(&vec![0x55; LONGEST]).is_err());
    }
}
