//! Fuzz target of the generator, also replayed by ordinary tests: frames as a switch under test may return them, and
//! arbitrary captures.

use super::headers;
use super::meter::{Meter, Order};
use super::tag::{TAG, Tag};
use super::template::Template;
use mem::copy::chosen;
use port::GeneratedBurst;
use wire::Layers;
use wire::checksum::{Sum, protocol};

const KEY: u32 = 1;
/// A byte of options, then the tail of a frame.
const RECORD: usize = 1 + TAG;

/// Runs `script` through both targets.
///
/// # Panics
/// If counts do not add up, or a frame of a capture is generated with a wrong checksum.
pub fn fuzz_traffic(script: &[u8]) {
    tails(script);
    capture(script);
}

/// Feeds tails to the meter. If the option bit is set, the tail gets a valid checksum, so that its numbers are used.
fn tails(script: &[u8]) {
    let mut meter = Meter::new(3, KEY);
    let mut now = 0_u64;
    for record in script.chunks(RECORD) {
        let Some((choices, tail)) = record.split_first() else { continue };
        now = now.wrapping_add(u64::from(choices >> 1) << 20);
        let tail: Option<[u8; TAG]> = tail.first_chunk().copied();
        let sealed = tail.map(|tail| if choices & 1 == 1 { seal(&tail) } else { tail });
        meter.take(sealed.as_ref(), record.len(), now);
    }
    let of = |count: fn(&Order) -> u64| meter.streams().iter().map(|s| count(&s.order)).sum::<u64>();
    let unidentified = meter.unidentified();
    let apart = unidentified.warm_up + unidentified.untagged + unidentified.unknown + unidentified.future;
    let own = of(Order::received) + of(Order::duplicates) + of(Order::too_late);
    assert_eq!(meter.taken(), own + apart, "a frame is counted twice, or not at all");
    for stream in meter.streams() {
        assert!(stream.order.reordered() <= stream.order.received());
        assert_eq!(stream.delay.latency().count(), stream.order.received());
        assert_eq!(stream.order.extents().count(), stream.order.reordered());
    }
}

/// The same fields with a valid checksum.
fn seal(tail: &[u8; TAG]) -> [u8; TAG] {
    let word = |at: usize| tail[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let stream = (word(0) >> 48) as u16;
    let warm_up = stream >> 15 == 1;
    // Most 16-bit values would be streams that do not exist.
    Tag { stream: stream % 4, warm_up, sequence: word(0), time: word(6) }.write(KEY)
}

/// A captured frame is either rejected or generated unchanged except for its tag and checksum.
fn capture(frame: &[u8]) {
    let Some(laid) = headers::captured(frame.to_vec()) else { return };
    let template = Template::new(&laid, &[]);
    let (first, again) =
        (Tag::default().write(KEY), Tag { time: 9, sequence: 1, ..Tag::default() }.write(KEY));
    let mut burst = GeneratedBurst::new();
    burst.begin(0);
    burst.push_derived(template.head(), std::iter::empty());
    template.write(burst.head_mut(0), &mut [], &first);
    let sound = |head: &[u8], tag: &[u8; TAG]| {
        let mut whole = [head, template.body()].concat();
        if template.is_long() {
            whole.extend(tag);
        }
        assert_eq!(whole.len(), laid.bytes.len());
        assert_eq!(whole.last_chunk(), Some(tag));
        is_sound(&whole, !laid.sums.is_empty());
    };
    sound(burst.head(0), &first);
    template.rewrite_tag(burst.head_mut(0), &first, &again);
    sound(burst.head(0), &again);
    mem::with_kernel!(chosen(), K => {
        let whole = burst.frame(0).tail::<K, TAG>();
        assert!(template.is_long() || whole == Some(again));
    });
}

/// Checks the transport checksum, if the frame has one that the generator maintains.
fn is_sound(frame: &[u8], summed: bool) {
    let Some(layers) = Layers::of(frame).filter(|_| summed) else { return };
    let own = &frame[layers.transport..];
    let mut sum = Sum::pseudo(layers.addresses(frame), layers.protocol, own.len() as u32);
    sum.add(own);
    assert!(matches!(layers.protocol, protocol::TCP | protocol::UDP));
    assert_eq!(sum.finish(), [0, 0], "{frame:02x?}");
}
