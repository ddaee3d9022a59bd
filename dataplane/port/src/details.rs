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
    RingFaults, "ring_faults", "`vhost-user`",
        "Times that a ring of the guest was found invalid, also of rings that the front end stopped afterwards.";
    PositionsNotKept, "positions_not_kept", "`vhost-user`",
        "Why the positions of packed rings are not kept for the case that the switch is killed.";
    Read, "read", "`pcap` with `read`", "Path of the file that is played.";
    ReadPackets, "read_packets", "`pcap` with `read`", "Packets in the file.";
    Played, "played", "`pcap` with `read`", "Packets played so far, in all repetitions.";
    Playing, "playing", "`pcap` with `read`", "`on`, or `ended` after the last packet.";
    ReadNote, "read_note", "`pcap` with `read`", "Defects of the file: truncated packets, a truncated end.";
    Write, "write", "`pcap` with `write`", "Path of the file that is written.";
    Written, "written", "`pcap` with `write`", "Packets written to the file.";
    Unwritten, "unwritten", "`pcap` with `write`",
        "Packets that were sent to the port but not written, because the file failed.";
    Capture, "capture", "port with `capture`", "Path of the capture.";
    Captured, "captured", "port with `capture`", "Packets written to the capture.";
    CaptureMissed, "capture_missed", "port with `capture`",
        "Packets not captured, because a buffer was full or the capture had ended.";
    CaptureEnded, "capture_ended", "port with `capture`", "Reason why the capture ended early.";
    Trace, "trace", "port with `trace`", "Path of the trace.";
    Traced, "traced", "port with `trace`", "Packets written to the trace.";
    TraceMissed, "trace_missed", "port with `trace`",
        "Packets not traced, because a buffer was full or the trace had ended.";
    TraceEnded, "trace_ended", "port with `trace`", "Reason why the trace ended early.";
    PolicerGreen, "policer_green", "port with `policer`", "Received packets within the committed rate.";
    PolicerYellow, "policer_yellow", "port with `policer`",
        "Received packets above the committed rate, to which `exceed` applies.";
    PolicerRed, "policer_red", "port with `policer`",
        "Received packets above all rates, to which `violate` applies.";
    PolicerGreenBytes, "policer_green_bytes", "port with `policer`", "Bytes of the green packets.";
    PolicerYellowBytes, "policer_yellow_bytes", "port with `policer`", "Bytes of the yellow packets.";
    PolicerRedBytes, "policer_red_bytes", "port with `policer`", "Bytes of the red packets.";
    PolicerRemarked, "policer_remarked", "port with `policer`", "Packets that got another DSCP.";
    FaultSeed, "fault_seed", "port with `fault`", "Seed of the generator of faults.";
    FaultInDropped, "fault_in_dropped", "port with `fault`",
        "Received packets that were dropped, counted as `injected` too.";
    FaultInDuplicated, "fault_in_duplicated", "port with `fault`", "Received packets that were duplicated.";
    FaultInReordered, "fault_in_reordered", "port with `fault`",
        "Received packets that were moved behind a later one.";
    FaultInCorrupted, "fault_in_corrupted", "port with `fault`", "Received packets in which a bit was flipped.";
    FaultInDelayed, "fault_in_delayed", "port with `fault`", "Received packets that were delayed.";
    FaultInHoldFull, "fault_in_hold_full", "port with `fault`",
        "Faults of received packets that were not injected, because `hold` packets were delayed already.";
    FaultOutDropped, "fault_out_dropped", "port with `fault`",
        "Sent packets that were dropped, counted as `injected` too.";
    FaultOutDuplicated, "fault_out_duplicated", "port with `fault`", "Sent packets that were duplicated.";
    FaultOutReordered, "fault_out_reordered", "port with `fault`",
        "Sent packets that were moved behind a later one.";
    FaultOutCorrupted, "fault_out_corrupted", "port with `fault`", "Sent packets in which a bit was flipped.";
    FaultOutDelayed, "fault_out_delayed", "port with `fault`", "Sent packets that were delayed.";
    FaultOutHoldFull, "fault_out_hold_full", "port with `fault`",
        "Faults of sent packets that were not injected, because `hold` packets were delayed already.";
    FaultOutLostLate, "fault_out_lost_late", "port with `fault`",
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
