//! Invariants that hold at every moment for any program.

use proptest::prelude::*;

use super::program::{LINES, Op, any_op, execute};
use super::{small, two_sockets};
use crate::Prefetchers;
use crate::core::Core;
use crate::directory::NO_CORE;
use crate::memory::{Cleaning, Copying, Intent};
use crate::profile::{Constant, Protocol};
use crate::{Counters, Machine, Profile, Sockets};

/// Checks that rights and presence agree: one writer per line, tags equal to the directory, first level within the
/// second.
fn check(machine: &mut Machine) {
    for line in 0..LINES {
        let entry = *machine.directory.at(line);
        let owner = usize::from(entry.owner);
        assert!(!entry.exclusive || entry.sharers == 1 << owner, "line {line}: {entry:?}");
        assert!(entry.owner == NO_CORE || entry.shared_by(owner), "line {line}: {entry:?}");
        let may_be_dirty = entry.exclusive || machine.timing.protocol == Protocol::Moesi;
        assert!(!entry.dirty || (entry.owner != NO_CORE && may_be_dirty), "line {line}: {entry:?}");
        let apart = machine.timing.inclusive || !entry.exclusive || !machine.llc.has(line);
        assert!(apart, "line {line} is in a victim cache and owned");
        for (id, core) in machine.cores.iter().enumerate() {
            assert_eq!(core.l2.has(line), entry.shared_by(id), "line {line}, core {id}: {entry:?}");
            assert!(!core.l1.has(line) || core.l2.has(line), "line {line}, core {id}");
            let included = !core.l2.has(line) || machine.llc.has_on(machine.sockets.of(id), line);
            assert!(
                !machine.timing.inclusive || included,
                "line {line} is in core {id} and not in its shared cache"
            );
        }
    }
}

/// Checks that at most `buffers` fill buffers are in use at any time.
fn check_fills(core: &Core, buffers: usize) {
    for (from, until) in &core.taken {
        assert!(from <= until);
        let at_once = core.taken.iter().filter(|(begin, end)| begin <= from && from < end).count();
        assert!(at_once <= buffers.max(1), "{at_once} at {from}");
    }
    let begin = core.taken.iter().map(|(from, _)| *from).min().unwrap_or(0);
    let end = core.taken.iter().map(|(_, until)| *until).max().unwrap_or(0);
    assert!(core.counters.fill_full_time <= end - begin, "all buffers in use for longer than any was");
}

/// Checks that related counters agree.
fn check_counters(counters: &Counters, issue: u64) {
    let Counters { time, instructions, loads, l1_misses, l2_misses, llc_misses, .. } = *counters;
    assert!(loads >= l1_misses && l1_misses >= l2_misses && l2_misses >= llc_misses);
    assert!(l2_misses >= counters.hits_modified);
    let stalls = counters.stall_l2
        + counters.stall_llc
        + counters.stall_core
        + counters.stall_dram
        + counters.stall_fills;
    let waited = stalls + counters.stall_stores + counters.spin;
    assert!(waited <= time, "waited {waited} of {time}");
    // The remaining time is issue, and waiting for the first level.
    assert!(time - waited >= (instructions - loads) * issue);
}

fn machine(
    protocol: Protocol,
    inclusive: bool,
    sockets: bool,
    demotes: bool,
    prefetchers: Prefetchers,
    cores: usize,
) -> Machine {
    let two = two_sockets();
    let mut profile = Profile { protocol, demote: demotes, ..small() };
    profile.inclusive = inclusive.then(|| Constant { value: 1.0, ..profile.migratory.clone() });
    profile.transfer.remote_core = two.transfer.remote_core;
    profile.transfer.remote_dram = two.transfer.remote_dram;
    let machine = Machine::new(&profile, cores, LINES * 64, prefetchers);
    if !sockets {
        return machine;
    }
    let halves = Sockets::one().with_core(1).with_memory(LINES * 32..LINES * 64);
    machine.on(halves).expect("the profile has two")
}

/// Each request for a store's line also fetched its neighbour, which evicted another line of the small shared cache:
/// the store's own line.
#[test]
fn a_store_whose_line_each_request_pushes_out_again_becomes_visible() {
    use Op::{Clean, Copy, Follows, Load, Prefetch, Read, Store, Write};

    let adjacent = Prefetchers { stream: false, adjacent: true };
    let machine = machine(Protocol::Mesif, true, false, false, adjacent, 4);
    let programs = [
        vec![
            Load(0),
            Store(6),
            Store(4),
            Read(640, 129),
            Store(2),
            Load(5),
            Write(1062, 155),
            Store(2),
            Write(1216, 65),
        ],
        vec![
            Write(609, 33),
            Clean(0, Cleaning::WriteBack),
            Store(6),
            Load(0),
            Copy(58, 480, 49, Copying::Sse),
        ],
        vec![
            Copy(768, 896, 129, Copying::RepMovsb),
            Load(4),
            Copy(768, 0, 1, Copying::Words),
            Load(2),
            Follows,
            Prefetch(512, Intent::Read),
            Load(0),
            Clean(0, Cleaning::Flush),
            Load(0),
        ],
        vec![Copy(0, 1208, 73, Copying::Avx2)],
    ];
    let (mut machine, history) = execute(machine, &programs, check);
    check(&mut machine);
    assert_eq!(history[0].iter().filter(|event| event.store).count(), 4);
}

fn programs() -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(any_op(), 1..40), 2..=4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rights_presence_buffers_and_counters_agree(
        programs in programs(),
        owned in any::<bool>(),
        inclusive in any::<bool>(),
        sockets in any::<bool>(),
        demotes in any::<bool>(),
        stream in any::<bool>(),
        adjacent in any::<bool>(),
    ) {
        let protocol = if owned { Protocol::Moesi } else { Protocol::Mesif };
        let machine = machine(protocol, inclusive, sockets, demotes, Prefetchers { stream, adjacent }, programs.len());
        let (mut machine, _) = execute(machine, &programs, check);
        check(&mut machine);
        for id in 0..programs.len() {
            check_fills(&machine.cores[id], 3);
            check_counters(&machine.counters(id), machine.timing.issue);
        }
    }

    #[test]
    fn equal_programs_give_equal_counters_and_history(programs in programs()) {
        let prefetchers = Prefetchers { stream: true, adjacent: true };
        let run = || {
            let machine = machine(Protocol::Mesif, false, false, false, prefetchers, programs.len());
            let (machine, history) = execute(machine, &programs, |_| {});
            let counters: Vec<_> = (0..programs.len()).map(|id| machine.counters(id)).collect();
            (counters, history)
        };
        prop_assert_eq!(run(), run());
    }
}
