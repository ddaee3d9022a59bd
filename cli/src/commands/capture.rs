//! `linerate capture`: packets of running ports into a file or a pipe.

use crate::api::client::{Client, query};
use crate::args::capture::CaptureArgs;
use console::Diagnostic;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A capture file without packets, for Ethernet, which tells `tcpdump` for what it compiles.
const EMPTY: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// Captures until the limit, a signal, or the end of the reader.
pub(crate) fn run(args: &CaptureArgs, client: &Client) -> anyhow::Result<()> {
    let path = format!("/v1/capture?{}", parameters(args)?);
    let mut to = Destination::Unopened(&args.write);
    let written = client.stream(&path, |piece| to.write(piece))?;
    match written {
        // A reader such as `tcpdump -c 5` ends when it has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| {
            let remedy = "free space, or name another file";
            Diagnostic::failed(format!("-w {}", args.write.display()), error, remedy).into()
        }),
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

/// Where packets are written. A file is created with the first bytes, so that a refused capture leaves none behind.
enum Destination<'a> {
    Unopened(&'a Path),
    Open(Box<dyn Write>),
}

impl Destination<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Self::Unopened(path) = self {
            *self = Self::Open(if path.as_os_str() == "-" {
                Box::new(io::stdout())
            } else {
                Box::new(File::create(path)?)
            });
        }
        let Self::Open(to) = self else { return Ok(()) };
        to.write_all(bytes)?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_capture_leaves_no_file_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let mut to = Destination::Unopened(&path);
        assert!(!path.exists());
        to.write(b"first").unwrap();
        to.write(b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"firstsecond");
    }
}
