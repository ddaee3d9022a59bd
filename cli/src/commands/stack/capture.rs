//! `linerate stack capture`: starts a capture, waits for its end, and reports it.

use crate::api::client::{Client, quote};
use crate::api::stack::model::{CaptureReport, CaptureRequest, CaptureSelection, ConnectionsReport};
use crate::args::stack::CaptureArgs;
use console::Diagnostic;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PATH: &str = "/v1/stack/capture";
/// Interval between two looks at the capture. One that is not looked at ends after ten seconds.
const INTERVAL: Duration = Duration::from_millis(100);

/// Captures until a limit or a signal.
pub(super) fn run(client: &Client, args: &CaptureArgs) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    let request = CaptureRequest {
        // The program may have another working directory.
        file: std::path::absolute(&args.file)?,
        filter: selection(client, args)?,
        packets: args.packets,
        duration: args.duration,
        snap: args.snap,
        overwrite: args.overwrite,
    };
    let mut report: CaptureReport = client.post(PATH, &serde_json::to_value(&request)?)?;
    console::note(&format!("capturing into {}; Ctrl-C ends it", args.file.display()));
    while !report.has_ended {
        std::thread::sleep(INTERVAL);
        let is_over = stop.load(Ordering::Relaxed);
        report = if is_over { client.delete(PATH)? } else { client.get(PATH)? };
    }
    if let Some(failure) = &report.failure {
        let place = format!("capture {}", args.file.display());
        let reason = format!("{failure}, after {} packets", report.packets);
        return Err(Diagnostic::failed(place, reason, "free space, or name a file on another disk").into());
    }
    console::print(&report, args.show.output, |CaptureReport { packets, missed, file, .. }| {
        format!("{packets} packets in {}, {missed} missed", file.display())
    })
}

/// The packets of the command line. The connection must exist.
fn selection(client: &Client, args: &CaptureArgs) -> anyhow::Result<CaptureSelection> {
    let Some(remote) = args.remote else {
        return Ok(CaptureSelection { port: args.port, ..CaptureSelection::default() });
    };
    let path = format!("/v1/stack/connections?limit=1000&remote={}", quote(&remote.to_string()));
    let report: ConnectionsReport = client.get(&path)?;
    let ends = report.connections.iter().map(|connection| connection.local);
    let mut ends = ends.filter(|local| args.local.is_none_or(|wanted| wanted == *local));
    match (ends.next(), ends.next()) {
        (None, _) => Err(unknown(remote).into()),
        (Some(local), None) => Ok(CaptureSelection { connection: Some([local, remote]), port: None }),
        (Some(one), Some(other)) => {
            let reason = format!("there are several connections, from {one}, {other}");
            Err(Diagnostic::bad(format!("--remote {remote}"), reason, "add --local").into())
        }
    }
}

/// Error for a connection that does not exist.
pub(super) fn unknown(remote: SocketAddr) -> Diagnostic {
    let remedy = "see the connections with `linerate stack show`";
    Diagnostic::bad(format!("--remote {remote}"), "there is no such connection", remedy)
}
