//! State of a connection, and its conditions.

/// State (RFC 9293 section 3.3.2). LISTEN is a listener, TIME-WAIT has entries of its own, and CLOSED is the absence of
/// a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received and sent.
    SynReceived,
    /// Established.
    Established,
    /// Closed here; the FIN is not acknowledged.
    FinWait1,
    /// Closed here; the FIN is acknowledged.
    FinWait2,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both at the same time.
    Closing,
    /// Closed by the peer, then here.
    LastAck,
}

impl State {
    /// Name in RFC 9293.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
        }
    }

    /// Whether the application may still queue data.
    pub(crate) const fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is complete.
    pub(crate) const fn is_synchronised(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived)
    }
}

/// Set of conditions of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// In the list of connections with output.
    pub(crate) const QUEUED: Self = Self(1);
    /// An acknowledgement must be sent now.
    pub(crate) const ACK_NOW: Self = Self(1 << 1);
    /// The application closed the sending side: a FIN follows the data.
    pub(crate) const FIN_QUEUED: Self = Self(1 << 2);
    /// Timestamps are on (RFC 7323).
    pub(crate) const TIMESTAMPS: Self = Self(1 << 3);
    /// The peer accepts SACK (RFC 2018).
    pub(crate) const SACK: Self = Self(1 << 4);
    /// Explicit congestion notification was negotiated (RFC 3168).
    pub(crate) const ECN: Self = Self(1 << 5);
    /// Segments carry ECE until a CWR arrives.
    pub(crate) const ECE: Self = Self(1 << 6);
    /// The next segment with new data carries CWR.
    pub(crate) const CWR: Self = Self(1 << 7);
    /// Acknowledged data is reported to the application.
    pub(crate) const REPORT_ACKS: Self = Self(1 << 8);
    /// The application found the send buffer full.
    pub(crate) const WANTS_SPACE: Self = Self(1 << 9);
    /// Opened here.
    pub(crate) const ACTIVE: Self = Self(1 << 10);
    /// A zero-window probe of one byte was sent beyond the recorded data.
    pub(crate) const PROBED: Self = Self(1 << 11);
    /// A zero-window probe must be sent now.
    pub(crate) const PROBE_NOW: Self = Self(1 << 12);
    /// A keep-alive probe must be sent now.
    pub(crate) const KEEP_ALIVE_NOW: Self = Self(1 << 13);
    /// A tail loss probe must be sent now.
    pub(crate) const TAIL_PROBE: Self = Self(1 << 14);
    /// The SYN asks for ECN (RFC 3168 section 6.1.1).
    pub(crate) const ECN_SYN: Self = Self(1 << 15);
    /// The application had nothing to send when the last segment left.
    pub(crate) const APP_LIMITED: Self = Self(1 << 16);
    /// Windows are scaled (RFC 7323).
    pub(crate) const SCALED: Self = Self(1 << 17);
    /// The peer's FIN was processed.
    pub(crate) const FIN_RECEIVED: Self = Self(1 << 18);
    /// The SYN-ACK carries a Fast Open cookie.
    pub(crate) const GIVES_COOKIE: Self = Self(1 << 19);
    /// Data of the SYN was accepted (RFC 7413): the application knows the connection before the handshake is complete.
    pub(crate) const FAST_OPEN: Self = Self(1 << 20);

    /// The number of the peer's FIN is known, although data before it may be missing.
    pub(crate) const FIN_NOTED: Self = Self(1 << 21);

    /// Urgent data is queued or unacknowledged; where it ends is in `Shared::urgent`.
    pub(crate) const URGENT: Self = Self(1 << 22);

    /// A probe of the path MTU is in flight; its size and numbers are in `Shared::mtu_probes`.
    pub(crate) const MTU_PROBE: Self = Self(1 << 23);

    /// The SYN waits for the neighbour's address: the connection is in `Shared::unresolved`.
    pub(crate) const UNRESOLVED: Self = Self(1 << 24);

    /// Payload was refused because received buffers occupy too much memory; windows are announced as closed until the
    /// application has returned some.
    pub(crate) const NO_BUFFER: Self = Self(1 << 25);

    /// A SYN has left this host, so that the peer may acknowledge it.
    pub(crate) const SYN_LEFT: Self = Self(1 << 26);

    /// Segments to send besides data.
    pub(crate) const TO_SEND: Self =
        Self(Self::ACK_NOW.0 | Self::PROBE_NOW.0 | Self::KEEP_ALIVE_NOW.0 | Self::TAIL_PROBE.0);

    /// Whether the flag is set, or one of several.
    #[inline(always)]
    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline(always)]
    pub(crate) const fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    #[inline(always)]
    pub(crate) const fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    /// Clears the flag. Returns whether it was set.
    #[inline(always)]
    pub(crate) const fn take(&mut self, flag: Self) -> bool {
        let had = self.has(flag);
        self.clear(flag);
        had
    }

    pub(crate) const fn put(&mut self, flag: Self, on: bool) {
        if on {
            self.set(flag);
        } else {
            self.clear(flag);
        }
    }
}
