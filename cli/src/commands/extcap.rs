//! `linerate extcap`: the switch as a source of Wireshark (extcap). Wireshark runs the programs of a folder and reads
//! what they print: their interfaces, the link types and settings of each, and whether a filter is valid. For a capture
//! it names a pipe that it reads.

use super::capture;
use crate::api::client::Client;
use crate::api::model::PortReport;
use crate::args::capture::{CaptureArgs, SNAPLEN};
use crate::args::extcap::ExtcapArgs;
use console::{Diagnostic, QuietArgs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Interface of all ports. That of one port has a dash and its name behind it.
const ALL: &str = "linerate";
/// What `--direction` may be, and its name in the dialog. The first one is the default.
const DIRECTIONS: [(&str, &str); 5] = [
    ("in,out,drop", "received, sent and dropped"),
    ("in,out", "received and sent"),
    ("in", "received"),
    ("out", "sent"),
    ("drop", "dropped"),
];

/// Does what Wireshark asks for.
pub(crate) fn run(args: &ExtcapArgs, client: &Client) -> anyhow::Result<()> {
    if args.task.interfaces {
        return console::line(&interfaces(client));
    }
    let ports = ports(args.interface.as_deref().unwrap_or_default())?;
    if args.task.dlts {
        return console::line("dlt {number=1}{name=EN10MB}{display=Ethernet}");
    }
    if args.task.config {
        return console::line(&settings());
    }
    match (&args.fifo, &args.filter) {
        (Some(fifo), _) if args.task.capture => capture(args, ports, fifo, client),
        // Without a task, Wireshark validates a filter: what is printed is the reason why it is invalid.
        (_, Some(filter)) => match capture::compile(filter) {
            Ok(_) => Ok(()),
            Err(invalid) => console::line(&invalid.reason),
        },
        _ => Err(Diagnostic::bad("extcap", "there is nothing to do", "let Wireshark run it").into()),
    }
}

/// All ports can be captured also if no switch answers, because its socket is a setting of the capture.
fn interfaces(client: &Client) -> String {
    let ports: Vec<PortReport> = client.get("/v1/ports").unwrap_or_default();
    let mut lines = vec![
        format!("extcap {{version={}}}{{display=linerate}}", env!("CARGO_PKG_VERSION")),
        format!("interface {{value={ALL}}}{{display=linerate: all ports}}"),
    ];
    lines.extend(ports.iter().map(|port| {
        let name = &port.settings.name;
        format!("interface {{value={ALL}-{name}}}{{display=linerate: port {name}}}")
    }));
    lines.join("\n")
}

/// The ports of an interface, as `linerate capture` names them.
fn ports(interface: &str) -> Result<Vec<String>, Diagnostic> {
    let port = interface.strip_prefix(ALL).and_then(|rest| match rest {
        "" => Some("all"),
        rest => rest.strip_prefix('-').filter(|name| !name.is_empty()),
    });
    port.map(|port| vec![port.to_owned()]).ok_or_else(|| {
        let reason = format!("invalid value \"{interface}\": expected {ALL} or {ALL}-PORT");
        Diagnostic::bad("--extcap-interface", reason, "see --extcap-interfaces")
    })
}

/// Settings for Wireshark's dialog.
fn settings() -> String {
    let mut lines = vec!["arg {number=0}{call=--direction}{display=Packets}{type=selector}".to_owned()];
    for (k, (value, text)) in DIRECTIONS.iter().enumerate() {
        lines.push(format!("value {{arg=0}}{{value={value}}}{{display={text}}}{{default={}}}", k == 0));
    }
    let (least, most) = SNAPLEN.into_inner();
    lines.push(format!(
        "arg {{number=1}}{{call=--snaplen}}{{display=Bytes of a packet}}{{type=unsigned}}{{range={least},{most}}}\
         {{default={most}}}{{tooltip=Maximum bytes of a packet}}"
    ));
    let filter = "{tooltip=In the syntax of pcap-filter(7), such as tcp port 80}";
    lines.push(format!("arg {{number=2}}{{call=--filter}}{{display=Filter}}{{type=string}}{filter}"));
    let control = "{tooltip=Of the switch, or https and an address}{placeholder=default of linerate}";
    lines.push(format!(
        "arg {{number=3}}{{call=--control}}{{display=Control socket}}{{type=string}}{control}"
    ));
    lines.join("\n")
}

fn capture(args: &ExtcapArgs, ports: Vec<String>, fifo: &Path, client: &Client) -> anyhow::Result<()> {
    let place = || format!("--fifo {}", fifo.display());
    let found = fifo.metadata();
    let found = found.map_err(|e| Diagnostic::bad(place(), e, "let Wireshark create the pipe"))?;
    if !found.file_type().is_fifo() {
        return Err(Diagnostic::bad(place(), "it is not a pipe", "use `linerate capture` for a file").into());
    }
    // Wireshark shows what is printed as an error.
    QuietArgs { quiet: true }.apply();
    let settings = args.settings.clone();
    let args = CaptureArgs {
        ports,
        filter: both(args.filter.as_deref(), settings.further.as_deref()),
        direction: settings.direction,
        snaplen: settings.snaplen,
        limit: None,
        write: fifo.to_owned(),
    };
    capture::run(&args, client)
}

/// The filter that is true if both are.
fn both(one: Option<&str>, other: Option<&str>) -> Option<String> {
    let given: Vec<&str> =
        [one, other].into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
    match given[..] {
        [] => None,
        [one] => Some(one.to_owned()),
        _ => Some(given.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_all_ports_or_one() {
        assert_eq!(ports("linerate").unwrap(), ["all"]);
        assert_eq!(ports("linerate-vm-1").unwrap(), ["vm-1"]);
        for other in ["eth0", "linerate-", "linerates"] {
            assert_eq!(ports(other).unwrap_err().place, "--extcap-interface", "{other}");
        }
    }

    #[test]
    fn two_filters_must_both_match() {
        assert_eq!(both(None, Some(" ")), None);
        assert_eq!(both(Some("icmp"), Some("")).as_deref(), Some("icmp"));
        assert_eq!(both(Some("icmp or arp"), Some("ip")).as_deref(), Some("(icmp or arp) and (ip)"));
    }
}
