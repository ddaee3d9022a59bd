//! TCP header (RFC 9293 section 3.1) and its options.

/// Length of a TCP header without options, in bytes.
pub const TCP_HEADER: usize = 20;
/// Maximum length of a TCP header with options, in bytes.
pub const MAX_TCP_HEADER: usize = 60;

/// Control bits (RFC 9293 section 3.1, RFC 3168 section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `flags` are set.
    #[inline(always)]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both sets of bits.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

/// A TCP header whose length is valid.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    header: &'a [u8; TCP_HEADER],
    options: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Returns `None` if `segment`, which starts at the header, has no complete header with its options.
    #[inline]
    pub fn new(segment: &'a [u8]) -> Option<Self> {
        let header: &[u8; TCP_HEADER] = segment.first_chunk()?;
        let options = segment.get(TCP_HEADER..usize::from(header[12] >> 4) * 4)?;
        Some(Self { header, options })
    }

    fn word(&self, at: usize) -> u32 {
        self.header[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// Source and destination port.
    #[inline]
    pub fn ports(&self) -> (u16, u16) {
        let ports = self.word(0);
        ((ports >> 16) as u16, ports as u16)
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        self.word(4)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn acknowledgement(&self) -> u32 {
        self.word(8)
    }

    /// Length of the header with options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        TCP_HEADER + self.options.len()
    }

    /// Control bits.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.header[13])
    }

    /// Window, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    /// Value and echo of a timestamps option in the form that all common stacks send (RFC 7323 appendix A): two
    /// no-operations and the option, alone.
    #[inline]
    pub fn aligned_timestamps(&self) -> Option<(u32, u32)> {
        let options: &[u8; 12] = self.options.try_into().ok()?;
        let [first, second, third] = options.as_chunks::<4>().0 else { return None };
        let word = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
        (*first == [1, 1, 8, 10]).then(|| (word(second), word(third)))
    }

    /// Options, up to the first that is malformed (RFC 9293 section 3.1: an option with an illegal length is ignored).
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions(self.options)
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes.
    MaxSegment(u16),
    /// Window scale: a shift count.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK ranges: left and right edge, 8 bytes each ([`sack_range`]).
    Sack(&'a [[u8; 8]]),
    /// Timestamp value and echo.
    Timestamps(u32, u32),
    /// Fast Open cookie; empty for a request.
    FastOpen(&'a [u8]),
    /// Another kind.
    Other(u8),
}

/// Left and right edge of a SACK range.
pub fn sack_range(bytes: [u8; 8]) -> (u32, u32) {
    pair(bytes)
}

/// Two words in network byte order.
#[inline]
fn pair(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(bytes);
    ((both >> 32) as u32, both as u32)
}

/// Iterator over the options of a header.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a>(&'a [u8]);

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            match *self.0 {
                [1, ref rest @ ..] => self.0 = rest,
                [kind, len, ..] if kind != 0 && len >= 2 => {
                    let (option, rest) = self.0.split_at_checked(len.into())?;
                    self.0 = rest;
                    return Some(TcpOption::of(kind, &option[2..]));
                }
                _ => {
                    self.0 = &[];
                    return None;
                }
            }
        }
    }
}

impl<'a> TcpOption<'a> {
    fn of(kind: u8, value: &'a [u8]) -> Self {
        match (kind, value) {
            (2, [high, low]) => Self::MaxSegment(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => Self::WindowScale(*shift),
            (4, []) => Self::SackPermitted,
            (5, ranges) if ranges.len() % 8 == 0 => Self::Sack(ranges.as_chunks().0),
            (8, values) if values.len() == 8 => {
                let (value, echo) = values.first_chunk().copied().map_or((0, 0), pair);
                Self::Timestamps(value, echo)
            }
            (34, cookie) => Self::FastOpen(cookie),
            _ => Self::Other(kind),
        }
    }
}

/// A TCP header under construction, in a buffer of [`MAX_TCP_HEADER`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct TcpBuilder {
    bytes: [u8; MAX_TCP_HEADER],
    len: usize,
    /// Control bits and window.
    bits: u32,
    /// Sum of the words written so far, in native byte order.
    sum: u64,
    /// Whether options were written that are no whole words, so that their sum is missing.
    is_ragged: bool,
}

impl TcpBuilder {
    /// A header without options. The checksum is zero.
    #[inline]
    pub fn new(ports: (u16, u16), sequence: u32, acknowledgement: u32, flags: TcpFlags, window: u16) -> Self {
        let mut bytes = [0; MAX_TCP_HEADER];
        let words = [u32::from(ports.0) << 16 | u32::from(ports.1), sequence, acknowledgement];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        let bits = u32::from(flags.0) << 16 | u32::from(window);
        let sum = words.into_iter().map(in_order).sum();
        Self { bytes, len: TCP_HEADER, bits, sum, is_ragged: false }
    }

    /// Appends a word of options. It is left out if it does not fit.
    #[inline]
    fn word(&mut self, word: u32) {
        if let Some(to) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut) {
            *to = word.to_be_bytes();
            (self.len, self.sum) = (self.len + 4, self.sum + in_order(word));
        }
    }

    /// Appends bytes of options. They are left out if they do not fit.
    #[inline]
    pub fn option(&mut self, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
            (self.len, self.is_ragged) = (self.len + bytes.len(), true);
        }
    }

    /// Appends the maximum segment size.
    pub fn max_segment(&mut self, bytes: u16) {
        let [high, low] = bytes.to_be_bytes();
        self.option(&[2, 4, high, low]);
    }

    /// Appends timestamps, aligned by two no-operations, or by SACK permitted.
    #[inline]
    pub fn timestamps(&mut self, value: u32, echo: u32, sack_permitted: bool) {
        self.word(if sack_permitted { 0x0402_080a } else { 0x0101_080a });
        self.word(value);
        self.word(echo);
    }

    /// Appends SACK ranges, as many as fit.
    pub fn sack(&mut self, ranges: impl Iterator<Item = (u32, u32)>) {
        let at = self.len;
        let room = (MAX_TCP_HEADER - at).saturating_sub(4) / 8;
        self.option(&[1, 1, 5, 2]);
        let mut n = 0;
        for (left, right) in ranges.take(room) {
            self.option(&left.to_be_bytes());
            self.option(&right.to_be_bytes());
            n += 1;
        }
        if n == 0 {
            self.len = at;
        } else if let Some(len) = self.bytes.get_mut(at + 3) {
            *len = 2 + 8 * n;
        }
    }

    /// Control bits.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags((self.bits >> 16) as u8)
    }

    /// Bytes for further options.
    pub fn room(&self) -> usize {
        MAX_TCP_HEADER - self.len
    }

    /// Sets the urgent pointer.
    pub fn urgent(&mut self, pointer: u16) {
        self.bits |= u32::from(TcpFlags::URG.0) << 16;
        self.bytes[18..20].copy_from_slice(&pointer.to_be_bytes());
        self.sum += in_order(pointer.into());
    }

    /// The header, padded to whole words, with its length in the data offset. The checksum is zero.
    #[inline]
    pub fn finish(&mut self) -> &mut [u8] {
        self.seal();
        &mut self.bytes[..self.len]
    }

    /// Finishes the header like [`TcpBuilder::finish`]. Returns its length and the sum of its words in native byte
    /// order, for [`checksum::Sum::add_words`](crate::checksum::Sum::add_words). The sum is that of the values: reading
    /// the bytes again would wait for the stores.
    #[inline]
    pub fn seal(&mut self) -> (usize, u64) {
        let len = self.len.next_multiple_of(4).min(MAX_TCP_HEADER);
        let word = (len as u32 / 4) << 28 | self.bits;
        self.bytes[12..16].copy_from_slice(&word.to_be_bytes());
        self.sum += in_order(word);
        if self.is_ragged {
            self.pad(len);
        }
        self.len = len;
        (len, self.sum)
    }

    #[cold]
    fn pad(&mut self, len: usize) {
        self.bytes[self.len..len].fill(0);
        self.sum = crate::checksum::Sum::of(&self.bytes[..len]).total();
    }

    /// Copies the finished header to the start of `to`, with this checksum. Bytes up to the longest header are
    /// overwritten. Does nothing if `to` is shorter than that.
    #[inline]
    pub fn write(&self, checksum: [u8; 2], to: &mut [u8]) {
        if let Some(to) = to.first_chunk_mut() {
            *to = self.bytes;
            [to[16], to[17]] = checksum;
        }
    }
}

/// A word as its sum counts, in native byte order.
#[inline]
fn in_order(word: u32) -> u64 {
    word.to_be().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Sum, fold};
    use proptest::prelude::*;
    use std::prelude::v1::*;

    #[test]
    fn built_headers_are_parsed() {
        let mut builder = TcpBuilder::new((7, 80), 1, 2, TcpFlags::SYN.with(TcpFlags::ACK), 0x1234);
        builder.max_segment(1460);
        builder.timestamps(3, 4, true);
        builder.option(&[3, 3, 7]);
        let header = builder.finish().to_vec();
        let view = Tcp::new(&header).unwrap();
        assert_eq!((view.ports(), view.sequence(), view.acknowledgement()), ((7, 80), 1, 2));
        assert_eq!((view.window(), view.header_len(), view.flags().0), (0x1234, 40, 0x12));
        let options: Vec<_> = view.options().collect();
        let expected = [
            TcpOption::MaxSegment(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps(3, 4),
            TcpOption::WindowScale(7),
        ];
        assert_eq!((options.as_slice(), view.aligned_timestamps()), (expected.as_slice(), None));
    }

    #[test]
    fn aligned_timestamps_and_sack_fit_together() {
        let mut builder = TcpBuilder::new((7, 80), 1, 2, TcpFlags::ACK, 9);
        builder.timestamps(3, 4, false);
        assert_eq!(Tcp::new(builder.clone().finish()).unwrap().aligned_timestamps(), Some((3, 4)));
        builder.sack([(1, 2), (3, 4), (5, 6), (7, 8)].into_iter());
        let header = builder.finish().to_vec();
        assert_eq!(header.len(), MAX_TCP_HEADER);
        let ranges = [[0, 0, 0, 1, 0, 0, 0, 2], [0, 0, 0, 3, 0, 0, 0, 4], [0, 0, 0, 5, 0, 0, 0, 6]];
        assert_eq!(Tcp::new(&header).unwrap().options().last(), Some(TcpOption::Sack(&ranges)));
    }

    #[test]
    fn the_sum_of_a_header_is_that_of_its_bytes() {
        for (is_ragged, is_urgent) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut builder = TcpBuilder::new((7, 80), 0xffff_fffe, 2, TcpFlags::ACK, 0x1234);
            builder.timestamps(3, 4, false);
            if is_ragged {
                builder.option(&[3, 3, 7]);
            }
            if is_urgent {
                builder.urgent(0x1234);
            }
            let (len, sum) = builder.seal();
            let mut bytes = [0; MAX_TCP_HEADER];
            builder.write([0; 2], &mut bytes);
            assert_eq!(fold(sum), fold(Sum::of(&bytes[..len]).total()));
            let view = Tcp::new(&bytes[..len]).unwrap();
            assert_eq!((view.header_len(), view.flags().has(TcpFlags::URG)), (len, is_urgent));
            builder.write([5, 6], &mut bytes);
            assert_eq!(bytes[16..18], [5, 6]);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(view) = Tcp::new(&bytes) {
                prop_assert!(view.header_len() <= bytes.len() && view.options().count() <= 40);
                let _ = (view.ports(), view.flags(), view.aligned_timestamps());
            }
        }
    }
}
