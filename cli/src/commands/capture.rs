//! `linerate capture`: packets of running ports into a file or a pipe.

use crate::api::capture::{CONTINUES, INTERRUPTION};
use crate::api::client::{Client, query};
use crate::args::capture::CaptureArgs;
use crate::dataplane::capture_report::Continuation;
use console::Diagnostic;
use hyper::header::HeaderMap;
use pcap_parser::Block;
use pcap_parser::pcapng::parse_block_le;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A capture file without packets, for Ethernet, which tells `tcpdump` for what it compiles.
const EMPTY: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// Types of pcapng blocks: section header and interface statistics.
const SECTION: [u8; 4] = 0x0a0d_0d0a_u32.to_le_bytes();
const STATISTICS: [u8; 4] = 5_u32.to_le_bytes();

/// Captures until the limit, a signal, or the end of the reader.
pub(crate) fn run(args: &CaptureArgs, client: &Client) -> anyhow::Result<()> {
    let request = format!("/v1/capture?{}", parameters(args)?);
    let mut to = Destination::new(&args.write, console::stop_on_signals()?);
    let ended = write(args, client, &request, &mut to);
    if let Some(warning) = to.losses.warning() {
        console::warn(&warning);
    }
    ended
}

/// Writes the answer. If another process takes the switch over, the capture goes on there.
fn write(args: &CaptureArgs, client: &Client, request: &str, to: &mut Destination<'_>) -> anyhow::Result<()> {
    let mut path = request.to_owned();
    loop {
        let written = client.stream(&path, note_interruption, |piece| to.write(piece))?;
        let ended = match written {
            // A reader such as `tcpdump -c 5` ends when it has enough.
            Err(error) if [ErrorKind::BrokenPipe, ErrorKind::Interrupted].contains(&error.kind()) => {
                return Ok(());
            }
            ended => ended.map_err(|error| {
                let remedy = "free space, or name another file";
                Diagnostic::failed(format!("-w {}", args.write.display()), error, remedy)
            })?,
        };
        let Some(end) = ended.get(CONTINUES).and_then(|value| value.to_str().ok()) else { return Ok(()) };
        if let Ok(Continuation { packets, missed, .. }) = end.parse() {
            console::note(&format!(
                "another process has taken the switch over; the capture goes on, {packets} packets so far, {missed} missed"
            ));
        }
        path = format!("{request}&{}", query([("continues", Some(end))]));
    }
}

/// Reports packets that are missing between two parts of the file.
fn note_interruption(headers: &HeaderMap) {
    let us = headers.get(INTERRUPTION).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(us) = us {
        let ms = us as f64 / 1000.0;
        console::warn(&format!("linerate: the capture was interrupted: packets of {ms:.3} ms are missing"));
    }
}

fn parameters(args: &CaptureArgs) -> Result<String, Diagnostic> {
    if args.write.as_os_str() == "-" && io::stdout().is_terminal() {
        let remedy = "name a file, or pipe the output, such as to `tcpdump -r -`";
        return Err(Diagnostic::bad("-w -", "standard output is a terminal", remedy));
    }
    let is_all = args.ports.iter().any(|port| port == "all");
    let directions: Vec<_> = args.direction.iter().map(|direction| direction.name()).collect();
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(query([
        ("ports", if is_all { None } else { Some(args.ports.join(",")) }),
        ("direction", given(directions.join(","))),
        ("snaplen", args.snaplen.map(|snaplen| snaplen.to_string())),
        ("limit", args.limit.map(|limit| limit.to_string())),
        ("filter", args.filter.as_deref().map(compile).transpose()?),
    ]))
}

/// Compiles a filter, without a shell.
pub(super) fn compile(expression: &str) -> Result<String, Diagnostic> {
    let place = || format!("--filter \"{expression}\"");
    let failed = |e: io::Error| {
        Diagnostic::failed(
            place(),
            format!("cannot run tcpdump: {e}"),
            "install tcpdump, which compiles filters",
        )
    };
    let mut child = Command::new("tcpdump")
        .args(["-r", "-", "-ddd", "--", expression])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // If it has ended, its output says why.
        let _ = input.write_all(&EMPTY);
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().last().unwrap_or("no reason").trim_start_matches("tcpdump: ").to_owned();
        return Err(Diagnostic::bad(place(), reason, "see the syntax in pcap-filter(7)"));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The first line is the number of instructions.
    Ok(text.lines().skip(1).collect::<Vec<_>>().join(";"))
}

/// Where packets are written, in whole blocks, so that a signal leaves a file that can be read. A file is created with
/// the first bytes, so that a refused capture leaves none behind.
struct Destination<'a> {
    path: &'a Path,
    stop: Arc<AtomicBool>,
    file: Option<File>,
    /// The beginning of a block.
    rest: Vec<u8>,
    losses: Losses,
}

impl<'a> Destination<'a> {
    fn new(path: &'a Path, stop: Arc<AtomicBool>) -> Self {
        Self { path, stop, file: None, rest: Vec::new(), losses: Losses::default() }
    }

    /// Writes bytes of the capture, or returns `Interrupted` after a signal, and `BrokenPipe` if nothing reads.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None if bytes.is_empty() => return Ok(()),
            empty => empty.insert(open(self.path)?),
        };
        if is_unread(file) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.rest.extend_from_slice(bytes);
        let whole = whole(&self.rest, |block| self.losses.read(block));
        file.write_all(&self.rest[..whole])?;
        self.rest.drain(..whole);
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" {
        return Ok(io::stdout().as_fd().try_clone_to_owned()?.into());
    }
    File::create(path)
}

/// Whether this is a pipe whose other end is closed.
fn is_unread(file: &File) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

/// Passes the complete blocks of pcapng at the beginning of `bytes` to `each`. Returns their length.
fn whole(bytes: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at + 4..at + 8).and_then(|field| field.try_into().ok()) {
        // A block has its length at both ends.
        let next = at.saturating_add((u32::from_le_bytes(length) as usize).max(12));
        if next > bytes.len() {
            break;
        }
        each(&bytes[at..next]);
        at = next;
    }
    at
}

/// Packets that the switch has missed, as its statistics in the file state: the last ones of an interface are valid.
#[derive(Default)]
struct Losses {
    /// By interface of the current section.
    missed: BTreeMap<u32, u64>,
    /// In the sections before.
    before: u64,
}

impl Losses {
    fn read(&mut self, block: &[u8]) {
        if block.starts_with(&SECTION) {
            self.before = self.sum();
            self.missed.clear();
        } else if block.starts_with(&STATISTICS)
            && let Ok((_, Block::InterfaceStatistics(statistics))) = parse_block_le(block)
            && let Some(Ok(missed)) = statistics.isb_ifdrop()
        {
            self.missed.insert(statistics.if_id, missed);
        }
    }

    fn sum(&self) -> u64 {
        self.missed.values().fold(self.before, |sum, missed| sum.saturating_add(*missed))
    }

    fn warning(&self) -> Option<String> {
        let missed = Some(self.sum()).filter(|missed| *missed > 0)?;
        Some(format!(
            "linerate: {missed} packets were not captured, because they came faster than they were written; \
             capture less, by --filter, --snaplen, --direction or fewer ports"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::copy::Portable;
    use port::Burst;
    use port::pcap::{CaptureDirection, CaptureFile, Outcome};

    /// A capture of 10 packets of two interfaces that do not fit into its ring, and their number.
    fn overflowing(folder: &Path) -> (Vec<u8>, u64) {
        let path = folder.join("missed");
        let file = CaptureFile::stream(File::create(&path).unwrap(), &["a", "b"], None, None).unwrap();
        let (mut feed, mut burst) = (file.feed(), Burst::new());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]));
        while file.counts().missed < 10 {
            let at = ((file.counts().missed % 2) as u16, 0);
            feed.add::<Portable>((&burst, 0), CaptureDirection::In, Outcome::Moved, at, None);
        }
        drop(feed);
        assert_eq!(file.close().missed, 10);
        (std::fs::read(&path).unwrap(), 10)
    }

    #[test]
    fn missed_packets_of_all_interfaces_and_sections_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (section, missed) = overflowing(dir.path());
        let path = dir.path().join("x.pcapng");
        let mut to = Destination::new(&path, Arc::default());
        assert_eq!(to.losses.warning(), None);
        for bytes in [&section, &section] {
            bytes.chunks(9_999).for_each(|piece| to.write(piece).unwrap());
        }
        assert_eq!(to.losses.sum(), 2 * missed);
        assert!(to.losses.warning().unwrap().contains("20 packets were not captured"));
        assert!(port::pcap::Recording::read(&path).unwrap().frames().count() > 2);
    }

    fn block(body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&6_u32.to_le_bytes(), &length[..], body, &length].concat()
    }

    #[test]
    fn a_refused_capture_leaves_no_file_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let mut to = Destination::new(&path, Arc::default());
        to.write(b"").unwrap();
        assert!(!path.exists());
        to.write(&block(b"head")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), block(b"head"));
    }

    #[test]
    fn a_signal_leaves_whole_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let stop = Arc::<AtomicBool>::default();
        let mut to = Destination::new(&path, stop.clone());
        let bytes = [block(b"head"), block(b"12345678"), block(b"9012")].concat();
        for piece in bytes[..50].chunks(7) {
            to.write(piece).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(to.write(&bytes[50..]).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(std::fs::read(&path).unwrap(), bytes[..36]);
    }

    #[test]
    fn a_pipe_that_is_closed_ends_the_capture() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut to = Destination::new(Path::new("-"), Arc::default());
        to.file = Some(write.into());
        to.write(b"").unwrap();
        drop(read);
        assert_eq!(to.write(b"").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
