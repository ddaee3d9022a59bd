//! The part of the XDP program that forwards frames of installed pairs of stations, and of installed flows, to other
//! interfaces.
//!
//! The key of a pair has the ingress slot and the addresses of a frame; that of a flow also has its IP addresses,
//! protocol, ports and traffic class. A frame that has an entry, which is as new as the epochs that it depends on, is
//! edited as the entry says, counted in it and redirected to its device. Every other frame continues to the socket; the
//! keys of some frames without an entry are left for control as candidates. The program must never forward a frame that
//! user space would change in another way or drop: frames with VLAN tags, longer than the destination takes, or with
//! headers that cannot be checked go to the socket. Partial checksums (`unfinished`) are completed.

use super::assembler::{Assembler, Label, Register, Width};
use super::program::{CONTEXT, DATA, DATA_END, IPV4, IPV6, REDIRECT_MAP, TAGS, wire};

/// Maps that the program uses, and the slot of its interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Entries by [`KEY`] bytes.
    pub(super) entries: i32,
    /// Keys of frames without an entry.
    pub(super) candidates: i32,
    /// Interfaces by slot.
    pub(super) devices: i32,
    /// Epochs: that of everything, then one for each port, then one for each watched connection.
    pub(super) epochs: i32,
    pub(super) slot: u32,
}

/// Size of a key: destination, source and slot of the ingress interface, and what follows for a flow.
pub(super) const KEY: usize = 56;
/// Size of an entry.
pub(super) const ENTRY: usize = 64;
/// Number of epochs of ports: any port number has one.
pub(super) const PORTS: usize = 1 << 16;
/// Number of epochs of connections. Nothing changes the first one.
pub(super) const CONNECTIONS: usize = 1 << 12;
/// Bits of the offset of a port's epoch from the first one.
const OF_PORT: i32 = 0xffff << 3;
const _: () = assert!((PORTS - 1) * 8 == OF_PORT as usize);
/// Bits of the offset of a connection's epoch from the first one.
const OF_CONNECTION: i32 = 0xfff << 3;
const _: () = assert!((CONNECTIONS - 1) * 8 == OF_CONNECTION as usize);

// Offsets in a key, behind the pair. They are 0 for a pair.
pub(super) const SOURCE: u8 = 16;
pub(super) const DESTINATION: u8 = 32;
pub(super) const TRANSPORT_PORTS: u8 = 48;
pub(super) const PROTOCOL: u8 = 52;
pub(super) const TRAFFIC_CLASS: u8 = 53;
/// As in the frame.
pub(super) const ETHERTYPE: u8 = 54;

// Offsets in an entry.
pub(super) const STAMP: u8 = 0;
pub(super) const PACKETS: u8 = 8;
pub(super) const BYTES: u8 = 16;
pub(super) const FROM: u8 = 24;
pub(super) const TO: u8 = 28;
pub(super) const DEVICE: u8 = 32;
pub(super) const LONGEST: u8 = 36;
pub(super) const CONNECTION: u8 = 40;
pub(super) const EDITS: u8 = 44;
/// Addresses of the frame as it is sent: destination, then source.
pub(super) const ADDRESSES: u8 = 48;

// Bits of `EDITS`. Only entries of flows have them.
/// The frame gets other addresses.
pub(super) const WITH_ADDRESSES: u32 = 1;
/// The time to live or hop limit is decremented.
pub(super) const WITH_TTL: u32 = 2;
/// TCP segments with control bits that end or begin a connection stay in user space.
pub(super) const CHECKS_FLAGS: u32 = 4;

/// `XDP_REDIRECT`
pub(super) const REDIRECT: i32 = 4;
/// One of so many frames without an entry becomes a candidate, a power of two.
const SAMPLED: i32 = 64;

// Numbers in `enum bpf_func_id`.
const LOOK_UP: i32 = 1;
const UPDATE: i32 = 2;
const RANDOM: i32 = 7;

// Offsets from the end of the stack frame.
const KEY_AT: i16 = -56;
const _: () = assert!(KEY == KEY_AT.unsigned_abs() as usize);
const NOTHING_AT: i16 = KEY_AT - 8;
const TRANSPORT_AT: i16 = KEY_AT - 16;

const ENTRY_REGISTER: Register = Register::of(7);
const SUM: Register = Register::of(8);
const LENGTH: Register = Register::of(9);
const R0: Register = Register::of(0);
const R1: Register = Register::of(1);
/// The packet, or the position in it.
const AT: Register = Register::of(2);
const END: Register = Register::of(3);
const R4: Register = Register::of(4);
const R5: Register = Register::of(5);

const TCP: i32 = 6;
const UDP: i32 = 17;
const SCTP: i32 = 132;
/// IPv6 extension headers, behind which there may be a checksum: hop-by-hop, routing, fragment, destination.
const EXTENSIONS: [i32; 4] = [0, 43, 44, 60];
/// Bytes that are summed up in one round.
const PIECE: i32 = 32;
/// Maximum number of pieces of a packet whose checksum is completed.
const PIECES: i32 = 48;

/// TCP header without options, and UDP header.
const TCP_HEADER: i32 = 20;
const UDP_HEADER: i32 = 8;
/// FIN, SYN and RST.
const NOT_PLAIN: i32 = 7;

/// Adds the fast path. The program continues behind it with frames for the socket.
pub(super) fn add(a: &mut Assembler, lane: Lane) {
    let [socket, sample, found, complete] = [(); 4].map(|()| a.label());
    pair(a, lane.slot, socket);
    look_up(a, lane.entries).jump_unless_equal(R0, 0, found);
    flow(a, sample);
    look_up(a, lane.entries).jump_if_equal(R0, 0, sample);
    a.place(found).copy(ENTRY_REGISTER, R0);
    is_valid(a, lane.epochs, socket);
    is_short(a, socket);
    is_editable(a, socket);
    finish_checksum(a, complete, socket);
    a.place(complete).load_map(R1, lane.devices).load(Width::Word, AT, ENTRY_REGISTER, i16::from(DEVICE));
    a.set(END, 0).call(REDIRECT_MAP).jump_unless_equal(R0, REDIRECT, socket);
    edit(a, socket);
    count(a);
    a.set(R0, REDIRECT).exit();
    a.place(sample);
    candidate(a, lane.candidates, socket);
    a.place(socket);
}

/// Looks the key on the stack up.
fn look_up(a: &mut Assembler, entries: i32) -> &mut Assembler {
    a.load_map(R1, entries).copy(AT, Register::STACK).add(AT, i32::from(KEY_AT)).call(LOOK_UP)
}

/// Loads the bounds of the frame. Continues only if it has `n` bytes.
fn bounds(a: &mut Assembler, n: i32, socket: Label) {
    a.load(Width::Word, AT, CONTEXT, DATA).load(Width::Word, END, CONTEXT, DATA_END);
    reach(a, n, socket);
}

/// Continues only if `n` bytes follow the position; otherwise jumps to `to`.
fn reach(a: &mut Assembler, n: i32, to: Label) {
    a.copy(R1, AT).add(R1, n).jump_if_above(R1, END, to);
}

/// Writes the key of the pair of an untagged frame to the stack.
fn pair(a: &mut Assembler, slot: u32, socket: Label) {
    bounds(a, 34, socket);
    a.load(Width::Half, R5, AT, 12);
    for tag in TAGS {
        a.jump_if_equal(R5, wire(tag), socket);
    }
    for at in [0, 4, 8] {
        a.load(Width::Word, R1, AT, at).store(Width::Word, Register::STACK, KEY_AT + at, R1);
    }
    a.set(R1, slot.cast_signed()).store(Width::Word, Register::STACK, KEY_AT + 12, R1);
    a.set(R1, 0);
    for at in (i16::from(SOURCE)..-KEY_AT).step_by(8) {
        a.store(Width::Double, Register::STACK, KEY_AT + at, R1);
    }
}

/// Completes the key for the flow of a TCP or UDP packet without IP options and extension headers. Continues only with
/// headers from which user space reads the same.
fn flow(a: &mut Assembler, sample: Label) {
    let (six, transport, udp) = (a.label(), a.label(), a.label());
    bounds(a, 42, sample);
    a.load(Width::Half, R5, AT, 12).jump_if_equal(R5, wire(IPV6), six);
    a.jump_unless_equal(R5, wire(IPV4), sample);
    flow_v4(a, sample);
    a.jump(transport).place(six);
    flow_v6(a, sample);
    a.place(transport);
    reach(a, UDP_HEADER, sample);
    a.load(Width::Word, R1, AT, 0).store(
        Width::Word,
        Register::STACK,
        KEY_AT + i16::from(TRANSPORT_PORTS),
        R1,
    );
    a.jump_if_equal(R4, UDP, udp).jump_unless_equal(R4, TCP, sample);
    reach(a, TCP_HEADER, sample);
    // Its own length, within the packet.
    a.load(Width::Byte, R1, AT, 12).shift_right(R1, 4).shift_left(R1, 2).jump_if_above(R1, R0, sample);
    a.jump_if_below(R1, TCP_HEADER, sample);
    a.place(udp).store(Width::Byte, Register::STACK, KEY_AT + i16::from(PROTOCOL), R4);
    a.store(Width::Half, Register::STACK, KEY_AT + i16::from(ETHERTYPE), R5);
}

/// Writes addresses and traffic class. Leaves the position at the transport header, and its protocol (`R4`) and length
/// with payload (`R0`).
fn flow_v4(a: &mut Assembler, sample: Label) {
    a.load(Width::Byte, R1, AT, 14).jump_unless_equal(R1, 0x45, sample);
    a.load(Width::Half, R1, AT, 20).and(R1, wire(0x3fff)).jump_unless_equal(R1, 0, sample);
    a.load(Width::Half, R0, AT, 16).swap_half(R0);
    a.copy(R1, AT).add_register(R1, R0).add(R1, 14).jump_if_above(R1, END, sample);
    a.jump_if_below(R0, 20 + UDP_HEADER, sample);
    addresses(a, 26, 1);
    a.load(Width::Byte, R1, AT, 15).store(
        Width::Byte,
        Register::STACK,
        KEY_AT + i16::from(TRAFFIC_CLASS),
        R1,
    );
    a.load(Width::Byte, R4, AT, 23).add(R0, -20).add(AT, 34);
}

/// As [`flow_v4`].
fn flow_v6(a: &mut Assembler, sample: Label) {
    reach(a, 54 + UDP_HEADER, sample);
    a.load(Width::Byte, R4, AT, 14).copy(R1, R4).and(R1, 0xf0).jump_unless_equal(R1, 0x60, sample);
    a.load(Width::Half, R0, AT, 18).swap_half(R0);
    a.copy(R1, AT).add_register(R1, R0).add(R1, 54).jump_if_above(R1, END, sample);
    a.jump_if_below(R0, UDP_HEADER, sample);
    addresses(a, 22, 4);
    // Between version and flow label.
    a.and(R4, 15).shift_left(R4, 4).load(Width::Byte, R1, AT, 15).shift_right(R1, 4).add_register(R1, R4);
    a.store(Width::Byte, Register::STACK, KEY_AT + i16::from(TRAFFIC_CLASS), R1);
    a.load(Width::Byte, R4, AT, 20).add(AT, 54);
}

/// Copies source and destination address, which have so many words, from this offset.
fn addresses(a: &mut Assembler, from: i16, words: i16) {
    for (address, to) in [(0, SOURCE), (1, DESTINATION)] {
        for word in 0..words {
            a.load(Width::Word, R1, AT, from + 4 * (address * words + word));
            a.store(Width::Word, Register::STACK, KEY_AT + i16::from(to) + 4 * word, R1);
        }
    }
}

/// Continues only if none of the four epochs has changed since the entry was installed: epochs only grow, so their sum
/// tells.
fn is_valid(a: &mut Assembler, epochs: i32, socket: Label) {
    a.load_map_value(SUM, epochs).load(Width::Double, R1, SUM, 0);
    let of_connections = 8 + OF_PORT + 8;
    for (which, bits, from) in
        [(FROM, OF_PORT, 8), (TO, OF_PORT, 8), (CONNECTION, OF_CONNECTION, of_connections)]
    {
        // The entry has the offset of the epoch; the mask bounds it for the verifier.
        a.load(Width::Word, AT, ENTRY_REGISTER, i16::from(which)).and(AT, bits);
        a.copy(END, SUM).add_register(END, AT).add(END, from).load(Width::Double, END, END, 0);
        a.add_register(R1, END);
    }
    a.load(Width::Double, AT, ENTRY_REGISTER, i16::from(STAMP)).jump_if_different(R1, AT, socket);
}

/// Continues only if the destination takes frames of this length.
fn is_short(a: &mut Assembler, socket: Label) {
    bounds(a, 34, socket);
    a.copy(LENGTH, END).subtract_register(LENGTH, AT);
    a.load(Width::Word, R1, ENTRY_REGISTER, i16::from(LONGEST)).jump_if_above(LENGTH, R1, socket);
}

/// Jumps to `label` unless the entry has this bit of [`EDITS`].
fn unless(a: &mut Assembler, bit: u32, label: Label) {
    a.load(Width::Word, R1, ENTRY_REGISTER, i16::from(EDITS))
        .and(R1, bit.cast_signed())
        .jump_if_equal(R1, 0, label);
}

/// Continues only if the time to live can be decremented, and the control bits are allowed. The position is at the
/// frame; the headers of a flow were checked.
fn is_editable(a: &mut Assembler, socket: Label) {
    let (flags, six, is) = (a.label(), a.label(), a.label());
    unless(a, WITH_TTL, flags);
    ttl(a);
    a.jump_if_below(R4, 2, socket);
    a.place(flags);
    unless(a, CHECKS_FLAGS, is);
    a.load(Width::Half, R5, AT, 12).jump_if_equal(R5, wire(IPV6), six);
    a.load(Width::Byte, R4, AT, 23).jump_unless_equal(R4, TCP, is);
    has_no_flags(a, 47, (is, socket));
    a.place(six);
    a.load(Width::Byte, R4, AT, 20).jump_unless_equal(R4, TCP, is);
    has_no_flags(a, 67, (is, socket));
    a.place(is);
}

/// Jumps by the control bits at this offset.
fn has_no_flags(a: &mut Assembler, at: i16, (plain, other): (Label, Label)) {
    reach(a, i32::from(at) + 1, other);
    a.load(Width::Byte, R4, AT, at).and(R4, NOT_PLAIN).jump_if_equal(R4, 0, plain).jump(other);
}

/// Loads the time to live or hop limit (`R4`) of the frame at the position, and the EtherType (`R5`).
fn ttl(a: &mut Assembler) {
    let (six, loaded) = (a.label(), a.label());
    a.load(Width::Half, R5, AT, 12).jump_if_equal(R5, wire(IPV6), six);
    a.load(Width::Byte, R4, AT, 22).jump(loaded);
    a.place(six).load(Width::Byte, R4, AT, 21).place(loaded);
}

/// Edits the frame, which is redirected. The bounds do not fail: they did not before.
fn edit(a: &mut Assembler, socket: Label) {
    let (addresses, six, edited) = (a.label(), a.label(), a.label());
    bounds(a, 34, socket);
    unless(a, WITH_TTL, addresses);
    ttl(a);
    a.add(R4, -1).jump_if_equal(R5, wire(IPV6), six);
    a.store(Width::Byte, AT, 22, R4);
    // The checksum grows by what the time to live has lost (RFC 1624), and by the carry.
    a.load(Width::Half, R4, AT, 24).add(R4, wire(0x0100)).copy(R5, R4).add(R5, 1).shift_right(R5, 16);
    a.add_register(R4, R5).store(Width::Half, AT, 24, R4).jump(addresses);
    a.place(six).store(Width::Byte, AT, 21, R4).place(addresses);
    unless(a, WITH_ADDRESSES, edited);
    for at in [0, 4, 8] {
        a.load(Width::Word, R1, ENTRY_REGISTER, i16::from(ADDRESSES) + at).store(Width::Word, AT, at, R1);
    }
    a.place(edited);
}

fn count(a: &mut Assembler) {
    let (entry, double) = (ENTRY_REGISTER, Width::Double);
    let (packets, bytes) = (i16::from(PACKETS), i16::from(BYTES));
    a.load(double, R1, entry, packets).add(R1, 1).store(double, entry, packets, R1);
    a.load(double, R1, entry, bytes).add_register(R1, LENGTH).store(double, entry, bytes, R1);
}

/// Leaves the key of some frames to control.
fn candidate(a: &mut Assembler, candidates: i32, socket: Label) {
    a.call(RANDOM).and(R0, SAMPLED - 1).jump_unless_equal(R0, 0, socket);
    a.set(R1, 0).store(Width::Double, Register::STACK, NOTHING_AT, R1);
    a.load_map(R1, candidates).copy(AT, Register::STACK).add(AT, i32::from(KEY_AT));
    a.copy(END, Register::STACK).add(END, i32::from(NOTHING_AT)).set(R4, 0).call(UPDATE);
}

/// Completes a partial checksum. Continues at `complete`, or at `socket` if that is left to user space.
///
/// The position is at the frame, with [`is_short`]'s bounds. Parsed are protocol (`R4`), length of the transport header
/// and its payload (`R5`), and the sum of addresses ([`SUM`]).
fn finish_checksum(a: &mut Assembler, complete: Label, socket: Label) {
    let (six, transport, udp) = (a.label(), a.label(), a.label());
    a.load(Width::Half, R5, AT, 12).jump_if_equal(R5, wire(IPV6), six);
    a.jump_unless_equal(R5, wire(IPV4), complete);
    parse_v4(a, complete);
    a.jump(transport).place(six);
    parse_v6(a, socket);
    a.place(transport);
    a.jump_if_equal(R4, SCTP, socket);
    // The pseudo header also has protocol and length, in network byte order.
    a.copy(R1, R4).shift_left(R1, 8).add_register(SUM, R1);
    a.copy(R1, R5).swap_half(R1).add_register(SUM, R1);
    fold(a);
    a.jump_if_equal(R4, UDP, udp).jump_unless_equal(R4, TCP, complete);
    finish(a, 16, complete, socket);
    a.place(udp);
    finish(a, 6, complete, socket);
}

/// IPv4 (RFC 791). Fragments have complete checksums.
fn parse_v4(a: &mut Assembler, complete: Label) {
    a.load(Width::Half, R1, AT, 20).and(R1, wire(0x3fff)).jump_unless_equal(R1, 0, complete);
    a.load(Width::Byte, R0, AT, 14).and(R0, 15).shift_left(R0, 2);
    a.load(Width::Byte, R4, AT, 23);
    a.load(Width::Half, R5, AT, 16).swap_half(R5).subtract_register(R5, R0);
    a.load(Width::Word, SUM, AT, 26).load(Width::Word, R1, AT, 30).add_register(SUM, R1);
    a.add(AT, 14).add_register(AT, R0);
}

/// IPv6 (RFC 8200).
fn parse_v6(a: &mut Assembler, socket: Label) {
    reach(a, 54, socket);
    a.load(Width::Byte, R4, AT, 20);
    for extension in EXTENSIONS {
        a.jump_if_equal(R4, extension, socket);
    }
    a.load(Width::Half, R5, AT, 18).swap_half(R5).set(SUM, 0);
    for word in 0..8 {
        a.load(Width::Word, R1, AT, 22 + 4 * word).add_register(SUM, R1);
    }
    a.add(AT, 54);
}

/// Folds [`SUM`] to 16 bits (RFC 1071).
fn fold(a: &mut Assembler) {
    a.copy(R1, SUM).shift_right(R1, 32).copy_word(SUM, SUM).add_register(SUM, R1);
    for _ in 0..3 {
        a.copy(R1, SUM).shift_right(R1, 16).and(SUM, 0xffff).add_register(SUM, R1);
    }
}

/// Completes the checksum at `field` of the transport header at the position, if it is the sum of the pseudo header.
fn finish(a: &mut Assembler, field: i16, complete: Label, socket: Label) {
    let nonzero = a.label();
    reach(a, if field == 16 { 20 } else { 8 }, socket);
    a.load(Width::Half, R1, AT, field).jump_if_different(R1, SUM, complete);
    // Bytes behind the packet would be summed up as well.
    a.copy(R1, END).subtract_register(R1, AT).jump_if_different(R1, R5, socket);
    a.store(Width::Double, Register::STACK, TRANSPORT_AT, AT);
    sum_rest(a, socket);
    fold(a);
    a.xor(SUM, 0xffff);
    if field == 6 {
        // RFC 768: zero means that there is no checksum.
        a.jump_unless_equal(SUM, 0, nonzero).set(SUM, 0xffff);
    }
    a.place(nonzero).load(Width::Double, AT, Register::STACK, TRANSPORT_AT);
    a.store(Width::Half, AT, field, SUM).jump(complete);
}

/// Sums up the bytes from the position, which is on the stack, to the end of the frame: `R5` bytes.
fn sum_rest(a: &mut Assembler, socket: Label) {
    let (next, tail) = (a.label(), a.label());
    a.set(SUM, 0).set(R0, 0).place(next);
    reach(a, PIECE, tail);
    words(a, (PIECE / 4) as i16);
    a.add(R0, 1).jump_unless_equal(R0, PIECES, next).jump(socket);
    // The position is computed again, so that the verifier has one state here instead of one for each number of pieces.
    a.place(tail).load(Width::Double, AT, Register::STACK, TRANSPORT_AT);
    a.copy(R1, R5).and(R1, !(PIECE - 1) & 0x7ff).add_register(AT, R1);
    for n in [16, 8, 4] {
        let skip = a.label();
        reach(a, n, skip);
        words(a, (n / 4) as i16);
        a.place(skip);
    }
    for (width, n) in [(Width::Half, 2), (Width::Byte, 1)] {
        let skip = a.label();
        reach(a, n, skip);
        a.load(width, R4, AT, 0).add_register(SUM, R4).add(AT, n).place(skip);
    }
}

fn words(a: &mut Assembler, n: i16) {
    for word in 0..n {
        a.load(Width::Word, R4, AT, 4 * word).add_register(SUM, R4);
    }
    a.add(AT, i32::from(n) * 4);
}

#[cfg(test)]
#[path = "fast_program_tests.rs"]
mod tests;
