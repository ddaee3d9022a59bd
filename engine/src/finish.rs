//! Sending packets with work left to an output that does not do all of it.
//!
//! Runs of packets that the output takes as they are go to it as always. Any other is finished in software, into a burst
//! that the worker keeps for this, and follows in its place, so that the order stays.

use port::finish::Finishing;
use port::{Burst, Capabilities, DropReason, PortFault, Tally};

/// Sends a burst's picks; what does not fit is counted by whoever does it.
pub(crate) trait Push {
    /// Sends `picks` of `burst` in order.
    fn push(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<(), PortFault>;
}

/// The numbers of all packets that a burst can hold.
const ALL: [u8; port::BURST] = {
    let mut all = [0; port::BURST];
    let mut i = 0;
    while i < port::BURST {
        all[i] = i as u8;
        i += 1;
    }
    all
};

/// Sends `picks` of `burst` to an output with these capabilities. How many packets were made beyond those picked: a
/// packet that was cut counts as all of its segments from here on.
#[cold]
pub(crate) fn push_finished(
    output: &mut impl Push,
    capabilities: Capabilities,
    (burst, picks): (&Burst, &[u8]),
    made: &mut Burst,
    tally: &mut Tally,
) -> (u64, Result<(), PortFault>) {
    let (mut extra, mut left) = (0, picks);
    while let Some((&pick, behind)) = left.split_first() {
        let fits = |pick: &&u8| capabilities.cover(burst.offload(usize::from(**pick)).needs());
        let run = left.iter().take_while(fits).count();
        let sent = if run > 0 {
            let (now, later) = left.split_at(run);
            left = later;
            output.push(burst, now, tally)
        } else {
            left = behind;
            push_one(output, (burst, usize::from(pick)), made, &mut extra, tally)
        };
        if sent.is_err() {
            return (extra, sent);
        }
    }
    (extra, Ok(()))
}

fn push_one(
    output: &mut impl Push,
    (burst, i): (&Burst, usize),
    made: &mut Burst,
    extra: &mut u64,
    tally: &mut Tally,
) -> Result<(), PortFault> {
    let Ok(mut finishing) = Finishing::start(burst, i) else {
        tally.drop(DropReason::BadOffload, 1);
        return Ok(());
    };
    *extra += finishing.packets() as u64 - 1;
    while finishing.fill(burst, i, made) {
        output.push(made, &ALL[..made.len()], tally)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Offload, Segmentation};

    /// Notes how long the packets are that come, and takes no more than it is told to.
    struct Output(Vec<usize>, usize);

    impl Push for Output {
        fn push(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<(), PortFault> {
            for &pick in picks {
                if self.0.len() == self.1 {
                    return Err(PortFault::MemoryLost);
                }
                self.0.push(burst.frame_len(usize::from(pick)));
                tally.packets += 1;
            }
            Ok(())
        }
    }

    const PLAIN: usize = 60;
    const CUT: usize = 14 + 20 + 20 + 70;

    /// Plain packets around one whose 70 bytes of TCP payload are to be cut, and one whose work is nonsense.
    fn burst() -> Burst {
        let mut tcp = vec![2; 12];
        tcp.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        tcp.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 16, 0, 0, 0, 0, 0, 0]);
        tcp.extend([7; 70]);
        assert_eq!(tcp.len(), CUT);
        let mut burst = Burst::new();
        burst.begin(0);
        for frame in [&[1; PLAIN][..], &tcp, &[3; PLAIN], &tcp] {
            assert!(burst.push_own(frame));
        }
        let cut = |segment| Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, segment, false);
        burst.set_offload(1, cut(32));
        burst.set_offload(3, Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp6, 32, false));
        burst
    }

    fn send(capabilities: Capabilities, room: usize) -> (Vec<usize>, u64, Tally, bool) {
        let (mut output, mut tally) = (Output(vec![], room), Tally::default());
        let (burst, mut made) = (burst(), Burst::new());
        let (extra, sent) =
            push_finished(&mut output, capabilities, (&burst, &[0, 1, 2, 3]), &mut made, &mut tally);
        (output.0, extra, tally, sent.is_ok())
    }

    #[test]
    fn segments_take_the_place_of_their_packet_and_nonsense_is_counted() {
        let (lens, extra, tally, sent) = send(Capabilities::NONE, 99);
        assert_eq!((lens, extra, sent), (vec![PLAIN, 86, 86, 60, PLAIN], 2, true));
        assert_eq!((tally.packets, tally.drops[DropReason::BadOffload as usize]), (5, 1));
        assert_eq!(tally.packets + tally.dropped(), 4 + extra, "each packet is sent or counted");
    }

    #[test]
    fn what_the_output_does_itself_goes_to_it_as_it_is() {
        let (lens, extra, tally, _) = send(Capabilities::ALL, 99);
        assert_eq!((lens, extra, tally.dropped()), (vec![PLAIN, CUT, PLAIN, CUT], 0, 0));
        let some = Capabilities(Capabilities::CHECKSUM | Capabilities::TCP4);
        let (lens, extra, tally, _) = send(some, 99);
        assert_eq!((lens, extra, tally.dropped()), (vec![PLAIN, CUT, PLAIN], 0, 1));
    }

    #[test]
    fn a_fault_in_the_middle_leaves_a_sum_that_can_be_completed() {
        let (lens, extra, tally, sent) = send(Capabilities::NONE, 2);
        assert_eq!((lens.len(), extra, sent), (2, 2, false));
        assert_eq!(
            4 + extra - tally.packets - tally.dropped(),
            4,
            "what the worker counts as lost to the fault"
        );
    }
}
