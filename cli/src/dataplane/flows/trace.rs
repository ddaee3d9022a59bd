//! Traces of packets through the flow tables.

use super::super::flow_report::{TracePass, TraceReport, TraceRequest, TraceStep};
use super::super::interface::DataPlaneError;
use super::{Flows, Names, bad, refused};
use console::Diagnostic;
use flow::text::{NoNames, PortNames, parse_match, show};
use flow::trace::{MissingPort, Pass, TracedPacket, Verdict};
use flow::translate::Step;
use flow::{Field, PortNo};

/// Maximum length of a frame in bytes.
const MAX_LENGTH: usize = 65_535;

impl Flows {
    /// Traces a packet through the tables of a bridge.
    pub(in crate::dataplane) fn trace(
        &self,
        request: &TraceRequest,
        names: &Names,
    ) -> Result<TraceReport, DataPlaneError> {
        let bridge = self.one(request.bridge.as_deref())?;
        let packet = packet(request, names)?;
        let states = request.ct_next.iter().map(|flags| state(flags)).collect::<Result<Vec<_>, _>>()?;
        let trace =
            self.switch.trace(bridge, &packet, &states, self.now()).map_err(|e| refused(bridge, &e))?;
        let passes = trace.passes.iter().map(|pass| report(pass, names)).collect();
        Ok(TraceReport { bridge: bridge.to_owned(), passes, omitted: trace.omitted })
    }
}

fn packet(request: &TraceRequest, names: &Names) -> Result<TracedPacket, DataPlaneError> {
    match (&request.flow, &request.frame) {
        (Some(flow), None) => {
            let found = parse_match(flow, names).map_err(|e| bad(flow, &e))?;
            let missing =
                |e: MissingPort| wrong("flow", &e, "add the port that receives it, such as in_port=red");
            TracedPacket::from_match(&found).map_err(missing)
        }
        (None, Some(frame)) => {
            let reason = "not an even number of hexadecimal digits";
            let frame = bytes(frame).ok_or_else(|| wrong("frame", &reason, "write two for each byte"))?;
            let length = request.length.unwrap_or(frame.len()).max(frame.len());
            if length > MAX_LENGTH {
                let reason = format!("invalid value {length} for `length`: expected at most {MAX_LENGTH}");
                return Err(wrong("length", &reason, "shorten the frame"));
            }
            Ok(TracedPacket::from_frame(&frame, length, in_port(request, names)?))
        }
        _ => Err(wrong("trace", &"the packet is missing or ambiguous", "give either a flow or a frame")),
    }
}

/// Bits of a connection state that is written as `trk,est`, as by `ofproto/trace`, or as in a flow.
fn state(flags: &str) -> Result<u32, DataPlaneError> {
    let found = parse_match(&format!("ct_state={}", flags.replace([',', ' '], "|")), &NoNames);
    let found = found.map_err(|e| bad(&format!("ct_next {flags}"), &e))?;
    Ok(found.key().get(Field::CtState) as u32)
}

/// Port on which a frame is received.
fn in_port(request: &TraceRequest, names: &Names) -> Result<PortNo, DataPlaneError> {
    let remedy = "name a port of the bridge as `in_port`; see `linerate ports show`";
    let text = request.in_port.as_deref();
    let text = text.ok_or_else(|| wrong("in_port", &"the ingress port of the frame is missing", remedy))?;
    let local = text.eq_ignore_ascii_case("LOCAL").then_some(PortNo::LOCAL);
    let found = local.or_else(|| names.number(text)).or_else(|| text.parse().ok().map(PortNo));
    found.ok_or_else(|| wrong(&format!("in_port \"{text}\""), &"the bridge has no such port", remedy))
}

/// The bytes of hexadecimal digits.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn wrong(place: &str, reason: &dyn std::fmt::Display, remedy: &str) -> DataPlaneError {
    DataPlaneError::Refused(Diagnostic::bad(place, reason, remedy))
}

fn report(pass: &Pass, names: &Names) -> TracePass {
    TracePass {
        flow: show(&pass.flow(), names).to_string(),
        steps: pass.steps.iter().map(|step| step_report(step, names)).collect(),
        omitted: pass.omitted,
        final_flow: pass.final_flow().map(|flow| show(&flow, names).to_string()),
        megaflow: show(&pass.megaflow(), names).to_string(),
        operations: show(pass.translation.operations.as_slice(), names).to_string(),
        verdict: pass.verdict.to_string(),
        dropped: matches!(pass.verdict, Verdict::Dropped(_)),
    }
}

fn step_report(step: &Step, names: &Names) -> TraceStep {
    TraceStep {
        depth: step.depth,
        text: show(&step.event, names).to_string(),
        changes: step.changes().iter().map(|change| show(change, names).to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_either_a_flow_or_a_frame_with_its_port() {
        let request = |flow: &str, frame: &str, port: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let (flow, frame, in_port) = (given(flow), given(frame), given(port));
            packet(&TraceRequest { flow, in_port, frame, ..TraceRequest::default() }, &Names::default())
        };
        for (flow, frame, port, reason) in [
            ("", "", "1", "missing or ambiguous"),
            ("ip,in_port=1", "00", "1", "missing or ambiguous"),
            ("ip", "", "", "`in_port` is missing"),
            ("", "0", "1", "hexadecimal"),
            ("", "00", "", "ingress port of the frame is missing"),
            ("", "00", "red", "no such port"),
        ] {
            let refused = request(flow, frame, port).unwrap_err().into_diagnostic();
            assert!(refused.reason.contains(reason), "{refused}");
        }
        assert!(request("ip,in_port=1", "", "").is_ok() && request("", "00ff", "1").is_ok());
        for (length, is_valid) in [(MAX_LENGTH, true), (MAX_LENGTH + 1, false), (usize::MAX, false)] {
            let (frame, in_port, length) = (Some("00ff".to_owned()), Some("1".to_owned()), Some(length));
            let request = TraceRequest { in_port, frame, length, ..TraceRequest::default() };
            assert_eq!(packet(&request, &Names::default()).is_ok(), is_valid, "{length:?}");
        }
        assert_eq!(bytes("00fF"), Some(vec![0, 255]));
        assert_eq!([state("trk,est").unwrap(), state("+trk+inv").unwrap()], [0x22, 0x30]);
        assert!(state("no").unwrap_err().into_diagnostic().place.contains("ct_next no"));
    }
}
