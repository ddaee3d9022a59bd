//! Counters in the style of `nstat`: each received frame is delivered or counted under one reason.

/// Defines a set of counters with their names and meanings: a struct whose fields are `u64`.
///
/// The name of a counter is Linux's (SNMP and `nstat`) if Linux has the counter, otherwise in snake case. A name is at
/// most 31 bytes long, and no other set has it.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])+ $set:ident { $($(#[doc = $doc:literal])+ $field:ident: $name:literal,)+ }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl $set {
            /// Names and values, in order.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($name, self.$field)),+].into_iter()
            }

            /// Names and meanings, in order.
            pub fn meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
                [$(($name, concat!($($doc),+).trim_ascii())),+].into_iter()
            }

            /// Adds the values of another one.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

counters! {
    /// Counters of one stack.
    Counters {
        /// Frames received.
        frames_in: "frames_in",
        /// Frames sent.
        frames_out: "frames_out",
        /// Frames of another EtherType or destination address.
        not_for_us: "frames_not_for_us",
        /// Frames with an invalid network header.
        ip_header_errors: "IpInHdrErrors",
        /// Packets of a protocol without handler.
        ip_unknown_protocol: "IpInUnknownProtos",
        /// ARP packets received.
        arp_in: "arp_in",
        /// Packets longer than the path MTU that may not be fragmented, or not within a limit.
        fragment_failed: "IpFragFails",
        /// Packets without a route.
        ip_no_route: "IpOutNoRoutes",
        /// Packets dropped because their neighbour did not resolve, or its queue was full.
        neighbour_failed: "neighbour_failed",
        /// Fragments received.
        fragments_in: "IpReasmReqds",
        /// Datagrams reassembled.
        reassembled: "IpReasmOKs",
        /// Datagrams not reassembled: incomplete, overlapping, or over a limit.
        reassembly_failed: "IpReasmFails",
        /// Own addresses not used because another host has them.
        duplicate_addresses: "duplicate_addresses",
        /// IGMP messages received.
        igmp_in: "igmp_in",
        /// IGMP messages with errors.
        igmp_errors: "igmp_in_errors",
        /// Datagrams to the DHCP client.
        dhcp_in: "dhcp_in",
        /// ICMP messages received.
        icmp_in: "IcmpInMsgs",
        /// ICMP messages with errors.
        icmp_errors: "IcmpInErrors",
        /// ICMP messages sent.
        icmp_out: "IcmpOutMsgs",
        /// ICMP errors and resets not sent because of their rate limit.
        rate_limited: "IcmpOutRateLimitGlobal",
        /// UDP datagrams delivered.
        udp_in: "UdpInDatagrams",
        /// UDP datagrams without a socket.
        udp_no_port: "UdpNoPorts",
        /// UDP datagrams with an invalid header or checksum.
        udp_errors: "UdpInErrors",
        /// UDP datagrams not delivered because no buffer or event was free.
        udp_overflow: "UdpRcvbufErrors",
        /// ICMP errors not reported to a UDP socket because no event was free.
        udp_errors_dropped: "udp_errors_dropped",
        /// UDP datagrams sent.
        udp_out: "UdpOutDatagrams",
        /// Replies and datagrams dropped because the outbox was full.
        outbox_full: "outbox_full",
        /// TCP segments received.
        tcp_in: "TcpInSegs",
        /// TCP segments sent, without retransmissions.
        tcp_out: "TcpOutSegs",
        /// TCP segments with an invalid header or combination of flags, and those to a group address.
        tcp_header_errors: "TcpInErrs",
        /// TCP segments with an invalid checksum.
        tcp_checksum_errors: "TcpInCsumErrors",
        /// TCP segments without SYN that belong to no connection.
        tcp_no_connection: "tcp_no_connection",
        /// Connections opened here.
        tcp_active_opens: "TcpActiveOpens",
        /// Connections opened by peers.
        tcp_passive_opens: "TcpPassiveOpens",
        /// Connection attempts that failed.
        tcp_attempt_fails: "TcpAttemptFails",
        /// Connections reset.
        tcp_resets: "TcpEstabResets",
        /// Resets sent.
        tcp_resets_out: "TcpOutRsts",
        /// Segments retransmitted.
        tcp_retransmits: "TcpRetransSegs",
        /// Retransmission timeouts.
        tcp_timeouts: "TcpExtTCPTimeouts",
        /// Tail loss probes sent.
        tcp_probes: "TcpExtTCPLossProbes",
        /// Retransmissions found to be spurious and undone.
        tcp_undone: "TcpExtTCPSpuriousRTOs",
        /// Segments received out of order and held.
        tcp_out_of_order: "TcpExtTCPOFOQueue",
        /// Out-of-order segments dropped at a limit.
        tcp_out_of_order_dropped: "TcpExtTCPOFODrop",
        /// Segments outside the receive window.
        tcp_out_of_window: "tcp_out_of_window",
        /// Segments without the timestamps that both sides agreed on (RFC 7323 section 3.2).
        tcp_no_timestamps: "tcp_no_timestamps",
        /// Segments refused by PAWS (RFC 7323 section 5).
        tcp_paws: "TcpExtPAWSEstab",
        /// Duplicate segments, reported by D-SACK (RFC 2883).
        tcp_duplicates: "TcpExtTCPDSACKOldSent",
        /// Segments lost because no buffer was free.
        tcp_no_buffer: "TcpExtTCPRcvQDrop",
        /// Challenge ACKs sent (RFC 5961).
        tcp_challenge_acks: "TcpExtTCPChallengeACK",
        /// SYNs refused: no listener, no route, or limit of connections.
        tcp_syn_refused: "TcpExtListenDrops",
        /// Connections in LAST-ACK that ended early for a new one, at the limit of connections.
        tcp_last_ack_evicted: "tcp_last_ack_evicted",
        /// SYN cookies sent.
        tcp_cookies_sent: "TcpExtSyncookiesSent",
        /// Connections opened by a SYN cookie.
        tcp_cookies_in: "TcpExtSyncookiesRecv",
        /// Acknowledgements that carry no valid cookie.
        tcp_cookies_failed: "TcpExtSyncookiesFailed",
        /// Connections with data in the SYN (RFC 7413), accepted.
        tcp_fast_open: "TcpExtTCPFastOpenPassive",
        /// Connections that entered TIME-WAIT.
        tcp_time_wait: "TcpExtTW",
        /// TIME-WAIT entries ended early by a new SYN (RFC 6191).
        tcp_time_wait_reused: "TcpExtTWRecycled",
        /// Segments with congestion experienced (RFC 3168).
        tcp_ce_in: "IpExtInCEPkts",
        /// Path MTUs lowered because full segments were lost without a report (RFC 4821).
        tcp_black_holes: "TcpExtTCPMTUPFail",
        /// Path MTUs raised by a probe (RFC 4821).
        tcp_mtu_raised: "TcpExtTCPMTUPSuccess",
        /// Zero-window probes sent.
        tcp_zero_window_probes: "TcpExtTCPWinProbe",
        /// Keep-alive probes sent.
        tcp_keep_alives: "TcpExtTCPKeepAlive",
    }
}
