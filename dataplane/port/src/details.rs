//! Details that ports report besides their status.

use crate::described::described;

/// Details of a port, each with a number or words.
pub type PortDetails = Vec<(PortDetail, String)>;

described! {
    /// A detail of a port, for display. Names are stable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    PortDetail, "The ports that report the detail.";
    Missed, "missed", "`af_packet`, `af_xdp`",
        "Frames that the kernel dropped because the port's sockets had no space, since the interface was last opened.";
    Offloaded, "offloaded", "`af_xdp` with `kernel_fast_path`",
        "Received packets that the kernel forwarded without the switch, counted as received and sent too.";
    RingFaults, "ring-faults", "`vhost-user`",
        "Times that a ring of the guest was found invalid, also of rings that the front end stopped afterwards.";
    Read, "read", "`pcap` with `read`", "Path of the file that is played.";
    ReadPackets, "read-packets", "`pcap` with `read`", "Packets in the file.";
    Played, "played", "`pcap` with `read`", "Packets played so far, in all repetitions.";
    Playing, "playing", "`pcap` with `read`", "`on`, or `ended` after the last packet.";
    ReadNote, "read-note", "`pcap` with `read`", "Defects of the file: truncated packets, a truncated end.";
    Write, "write", "`pcap` with `write`", "Path of the file that is written.";
    Written, "written", "`pcap` with `write`", "Packets written to the file.";
    Unwritten, "unwritten", "`pcap` with `write`",
        "Packets that were sent to the port but not written, because the file failed.";
    Capture, "capture", "port with `capture`", "Path of the capture.";
    Captured, "captured", "port with `capture`", "Packets written to the capture.";
    CaptureMissed, "capture-missed", "port with `capture`",
        "Packets not captured, because a buffer was full or the capture had ended.";
    CaptureEnded, "capture-ended", "port with `capture`", "Reason why the capture ended early.";
    Trace, "trace", "port with `trace`", "Path of the trace.";
    Traced, "traced", "port with `trace`", "Packets written to the trace.";
    TraceMissed, "trace-missed", "port with `trace`",
        "Packets not traced, because a buffer was full or the trace had ended.";
    TraceEnded, "trace-ended", "port with `trace`", "Reason why the trace ended early.";
    PolicerGreen, "policer-green", "port with `policer`", "Received packets within the committed rate.";
    PolicerYellow, "policer-yellow", "port with `policer`",
        "Received packets above the committed rate, to which `exceed` applies.";
    PolicerRed, "policer-red", "port with `policer`",
        "Received packets above all rates, to which `violate` applies.";
    PolicerGreenBytes, "policer-green-bytes", "port with `policer`", "Bytes of the green packets.";
    PolicerYellowBytes, "policer-yellow-bytes", "port with `policer`", "Bytes of the yellow packets.";
    PolicerRedBytes, "policer-red-bytes", "port with `policer`", "Bytes of the red packets.";
    PolicerRemarked, "policer-remarked", "port with `policer`", "Packets that got another DSCP.";
    FaultSeed, "fault-seed", "port with `fault`", "Seed of the generator of faults.";
    FaultInDropped, "fault-in-dropped", "port with `fault`",
        "Received packets that were dropped, counted as `injected` too.";
    FaultInDuplicated, "fault-in-duplicated", "port with `fault`", "Received packets that were duplicated.";
    FaultInReordered, "fault-in-reordered", "port with `fault`",
        "Received packets that were moved behind a later one.";
    FaultInCorrupted, "fault-in-corrupted", "port with `fault`", "Received packets in which a bit was flipped.";
    FaultInDelayed, "fault-in-delayed", "port with `fault`", "Received packets that were delayed.";
    FaultInHoldFull, "fault-in-hold-full", "port with `fault`",
        "Faults of received packets that were not injected, because `hold` packets were delayed already.";
    FaultOutDropped, "fault-out-dropped", "port with `fault`",
        "Sent packets that were dropped, counted as `injected` too.";
    FaultOutDuplicated, "fault-out-duplicated", "port with `fault`", "Sent packets that were duplicated.";
    FaultOutReordered, "fault-out-reordered", "port with `fault`",
        "Sent packets that were moved behind a later one.";
    FaultOutCorrupted, "fault-out-corrupted", "port with `fault`", "Sent packets in which a bit was flipped.";
    FaultOutDelayed, "fault-out-delayed", "port with `fault`", "Sent packets that were delayed.";
    FaultOutHoldFull, "fault-out-hold-full", "port with `fault`",
        "Faults of sent packets that were not injected, because `hold` packets were delayed already.";
    FaultOutLostLate, "fault-out-lost-late", "port with `fault`",
        "Delayed and duplicated packets that were lost, because the queue was full when they were due.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_detail_has_a_name_of_its_own() {
        let names: HashSet<_> = PortDetail::ALL.map(PortDetail::name).into();
        assert_eq!(names.len(), PortDetail::ALL.len());
    }
}
