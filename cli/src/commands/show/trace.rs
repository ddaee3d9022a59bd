//! Text of a trace.

use crate::dataplane::flow_report::{TracePass, TraceReport, TraceStep};
use std::fmt::Write;

/// `linerate trace`
pub(crate) fn text(report: &TraceReport) -> String {
    let passes = report.passes.iter().enumerate().map(|(i, pass)| {
        let title = if i == 0 { format!("bridge {}", report.bridge) } else { format!("recirculation {i}") };
        format!("{title}\n{}", pass_text(pass))
    });
    let mut text = passes.collect::<Vec<_>>().join("\n\n");
    if report.omitted > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n... and {} more recirculations that were not followed", report.omitted);
    }
    text
}

fn pass_text(pass: &TracePass) -> String {
    let mut lines = vec![format!("flow        {}", pass.flow)];
    lines.extend(pass.steps.iter().map(step));
    if pass.omitted > 0 {
        lines.push(format!("    ... and {} more steps", pass.omitted));
    }
    let last = pass.final_flow.as_deref().unwrap_or("unchanged");
    lines.push(format!("final flow  {last}"));
    lines.push(format!("megaflow    {}", pass.megaflow));
    lines.push(format!("operations  {}", pass.operations));
    lines.push(format!("verdict     {}", pass.verdict));
    lines.join("\n")
}

/// A step, indented, with its changes in parentheses.
fn step(step: &TraceStep) -> String {
    let changes = step.changes.join(", ");
    let changes = if changes.is_empty() { changes } else { format!(" ({changes})") };
    format!("    {}{}{changes}", "  ".repeat(step.depth), step.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_indented_and_have_their_changes() {
        let step = |depth: usize, text: &str, changes: &[&str]| TraceStep {
            depth,
            text: text.to_owned(),
            changes: changes.iter().map(ToString::to_string).collect(),
        };
        let pass = TracePass {
            flow: "ip,in_port=red".to_owned(),
            steps: vec![step(0, "table 0: ip", &[]), step(1, "dec_ttl", &["nw_ttl 64 -> 63"])],
            omitted: 0,
            final_flow: None,
            megaflow: "ip,in_port=red".to_owned(),
            operations: "drop".to_owned(),
            verdict: "dropped, flow-drop: the flows have no output".to_owned(),
            dropped: true,
        };
        let report = TraceReport { bridge: "br0".to_owned(), passes: vec![pass], omitted: 0 };
        let expected = "bridge br0\n\
            flow        ip,in_port=red\n    table 0: ip\n      dec_ttl (nw_ttl 64 -> 63)\n\
            final flow  unchanged\nmegaflow    ip,in_port=red\noperations  drop\n\
            verdict     dropped, flow-drop: the flows have no output";
        assert_eq!(text(&report), expected);
    }
}
