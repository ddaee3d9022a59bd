//! The queues of a vhost-user port end to end: from one guest's ring into the other guest's ring.
//!
//! The script writes both guests' descriptors, tables and raw words, changes their memory and stops and starts their
//! queues. In between it acts as a worker: takes a burst, loads heads, sends it by one of two handles of a forked queue
//! or by a single queue, completes it and checks for notifications. Invariants: every call returns, every packet taken
//! is sent, counted under a reason or left to the caller, the sender's buffers are not written, and a queue that
//! reports a fault can be dropped and restarted.

use super::driver::{Driver, NEXT, Script, WRITE};
use super::race::rewrite;
use mem::copy::Portable;
use mem::{GuestMemory, MemTable, Region, VolatileSlice};
use port::soft_offload::SoftGso;
use port::vhost::Features;
use port::vhost_user::QUEUES;
use port::vhost_user::setup::QueueSetup;
use port::{Burst, BurstStats, QueueState, RxQueue, TxQueue};
use ring::mock::{BUFFERS, Mock, REGION, RINGS, USER};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Offloads that the sender may request or the receiver supports.
const OFFLOADS: u64 = Features::CSUM
    | Features::HOST_TSO4
    | Features::HOST_TSO6
    | Features::HOST_USO
    | Features::GUEST_CSUM
    | Features::GUEST_TSO4;

/// A guest: the driver side, controlled by the script, and its memory.
struct Guest {
    driver: Driver,
    features: Features,
    memory: Arc<MemTable>,
    base: u32,
}

impl Guest {
    fn new(script: &mut Script<'_>, way: u16) -> Self {
        let shape = script.shape(script.0.len() % 2 == 1);
        let bits = script.byte();
        let extra = [Features::VERSION_1, Features::MRG_RXBUF, Features::VERSION_1 | Features::MRG_RXBUF, 0];
        let named = [
            (shape.packed, Features::RING_PACKED),
            (shape.in_order, Features::IN_ORDER),
            (shape.event_idx, Features::EVENT_IDX),
            (shape.indirect, Features::INDIRECT_DESC),
        ];
        let offloads = if bits & 4 == 0 { 0 } else { OFFLOADS };
        let first = extra[usize::from(bits) % 4] | offloads;
        let bits = named.iter().filter(|n| n.0).fold(first, |all, n| all | n.1);
        let mock = Mock::new(shape);
        let memory = Arc::new(MemTable::new(whole(&mock)));
        let base = mock.layout.base;
        Self { driver: Driver::new(mock, shape, way), features: Features(bits), memory, base }
    }

    fn setup(&self) -> QueueSetup {
        let layout = self.driver.mock.layout;
        QueueSetup {
            memory: self.memory.clone(),
            size: layout.size,
            descriptors: layout.descriptors,
            driver: layout.driver,
            device: layout.device,
            base: self.base,
            features: self.features,
            record: None,
            log: None,
            kick: None,
            call: None,
        }
    }

    /// Writes the next descriptor, often a valid buffer, and usually makes it available.
    fn describe(&mut self, script: &mut Script<'_>) {
        let driver = &mut self.driver;
        let (how, size) = (script.byte(), driver.shape.size);
        let at = if how & 7 != 7 { driver.next.0 % size } else { script.below(size) % size };
        let place = if how & 1 == 0 {
            (BUFFERS + u64::from(script.byte()) * 1021, 20 + u32::from(script.byte()) * 8)
        } else {
            (script.address(), script.len())
        };
        let usual = driver.usual();
        let flags = if how & 2 == 0 { usual } else { script.flags(usual) };
        let link = if driver.shape.packed { at } else { (at + 1) % size };
        driver.write(driver.mock.layout.descriptors, at, place, flags, link);
        // Descriptors of a chain behind its head are not offered separately.
        if driver.shape.packed || how & 4 == 0 || flags & NEXT == 0 {
            driver.advance(at);
        }
    }

    /// Writes an entry of an indirect table, without the lap's flags.
    fn table(&mut self, script: &mut Script<'_>) {
        let packed = self.driver.shape.packed;
        self.driver.table(script, self.driver.way, |_, at| if packed { at } else { at + 1 });
    }

    /// Replaces the map: complete, without a region, or with a region split in two.
    fn change_map(&mut self, script: &mut Script<'_>) {
        let mut regions = self.driver.mock.map.regions().to_vec();
        let one = usize::from(script.byte()) % regions.len();
        match script.byte() & 3 {
            0 => drop(regions.remove(one)),
            1 if one > 0 => {
                let (spec, cut) = (regions.remove(one).spec(), u64::from(script.byte()) * 509 + 1);
                let half = |from, to| Arc::new(Region::heap(spec.guest + from, spec.user + from, to - from));
                regions.extend([half(0, cut), half(cut, spec.len)]);
            }
            _ => {}
        }
        drop(self.memory.replace(GuestMemory::new(regions).expect("these regions do not overlap")));
    }

    /// Restarts at the base that the queue reported, or with a new ring.
    fn start_again(&mut self, base: Option<u32>) {
        drop(self.memory.replace(whole(&self.driver.mock)));
        self.base = base.unwrap_or(self.driver.mock.layout.base);
        if base.is_none() {
            self.driver.begin_again();
        }
    }

    fn rings(&self) -> VolatileSlice {
        let len = self.driver.mock.map.regions()[0].spec().len as u32;
        self.driver.mock.map.by_user(USER + RINGS, len).expect("the mock's own memory")
    }

    /// The bytes of regions that the guest no longer shares, except for the rings, which other threads write.
    fn unshared(&self) -> Vec<u8> {
        let shared = self.memory.load();
        let is_shared = |region| shared.regions().iter().any(|one| Arc::ptr_eq(one, region));
        let mut all = self.buffers();
        for (half, region) in all.chunks_mut(REGION as usize).zip(&self.driver.mock.map.regions()[1..]) {
            if is_shared(region) {
                half.fill(0);
            }
        }
        all
    }

    /// The bytes of the buffers, in both regions.
    fn buffers(&self) -> Vec<u8> {
        let mut all = vec![0; 2 * REGION as usize];
        for (half, at) in all.chunks_mut(REGION as usize).zip([BUFFERS, BUFFERS + REGION]) {
            let seg = self.driver.mock.map.by_user(USER + at, REGION as u32).expect("the mock's own memory");
            // SAFETY: the mock holds the map; the slice has the length of `half`.
            unsafe { seg.copy_out::<Portable>(half) };
        }
        all
    }
}

fn whole(mock: &Mock) -> GuestMemory {
    GuestMemory::new(mock.map.regions().to_vec()).expect("the mock's own regions")
}

/// Both guests, their queues, and the burst between them.
struct Play {
    from: Guest,
    to: Guest,
    rx: Vec<Box<dyn RxQueue>>,
    /// One handle, or two handles of a forked queue.
    tx: Vec<Box<dyn TxQueue>>,
    burst: Burst,
    /// Packets produced by software offload for a receiver without the offload.
    derived: Burst,
    raced: bool,
}

/// Runs a script; its first byte determines whether another thread modifies the rings concurrently.
///
/// # Panics
/// If a queue violates an invariant.
pub fn play(script: &[u8]) {
    let mut script = Script(script);
    let raced = script.byte() & 7 == 7;
    let seed = u64::from(script.byte()) | 1 << 40;
    let (from, to) = (Guest::new(&mut script, 0), Guest::new(&mut script, WRITE));
    let rings = [from.rings(), to.rings()];
    // The racing threads write until they are joined, so their maps are held here.
    let _held = [from.driver.mock.map.clone(), to.driver.mock.map.clone()];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ending = Ending(&done);
        if raced {
            let done = &done;
            rings.into_iter().for_each(|rings| {
                scope.spawn(move || rewrite(rings, seed, done));
            });
        }
        Play::new(from, to, raced).run(&mut script);
    });
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Play {
    fn new(from: Guest, to: Guest, raced: bool) -> Self {
        let rx = vec![(QUEUES.rx)(&from.setup()).expect("the mock's layout is right")];
        let tx = vec![(QUEUES.tx)(&to.setup()).expect("the mock's layout is right")];
        Self { from, to, rx, tx, burst: Burst::new(), derived: Burst::new(), raced }
    }

    fn run(&mut self, script: &mut Script<'_>) {
        while !script.0.is_empty() {
            match script.byte() % 16 {
                0..=2 => self.from.describe(script),
                3..=5 => self.to.describe(script),
                6 => self.from.table(script),
                7 => self.to.table(script),
                8 => {
                    if script.byte() & 1 == 0 {
                        self.from.driver.poke(script)
                    } else {
                        self.to.driver.poke(script)
                    }
                }
                9..=11 => self.carry(script),
                12 => self.notifications(script),
                13 => self.refresh(script),
                14 => self.fork(),
                _ => self.restart(script),
            }
        }
    }

    /// Processes one burst as a worker does.
    fn carry(&mut self, script: &mut Script<'_>) {
        let before = if self.raced { vec![] } else { self.from.buffers() };
        let mut stats = BurstStats::default();
        self.burst.begin(0);
        let taken = self.rx[0].rx(&mut self.burst, &mut stats);
        let (n, lost) = (self.burst.len(), stats.lost as usize);
        assert_eq!(stats.packets as usize, n + lost, "taken packets are in the burst or counted as lost");
        self.burst.load_heads::<Portable>();
        self.send(script, n);
        self.rx[0].complete(self.burst.buf_ids());
        assert!(self.raced || before == self.from.buffers(), "a sender's buffers were written");
        if taken.is_err() {
            self.restart_rx(None);
        }
    }

    fn send(&mut self, script: &mut Script<'_>, n: usize) {
        let handle = usize::from(script.byte()) % self.tx.len();
        let can = self.tx[handle].capabilities();
        let covered = |pick: &u8| can.cover(self.burst.offload(usize::from(*pick)).needs());
        let (indices, others): (Vec<u8>, Vec<u8>) = (0..n as u8).partition(covered);
        let mut is_ok = Self::push(&mut self.tx[handle], &self.burst, &indices);
        for i in others.into_iter().map(usize::from) {
            let Ok(mut gso) = SoftGso::start(&self.burst, i) else { continue };
            while is_ok && gso.fill(&self.burst, i, &mut self.derived) {
                assert!(!self.derived.has_offloads(), "completed offloads leave none pending");
                let indices: Vec<u8> = (0..self.derived.len() as u8).collect();
                is_ok = Self::push(&mut self.tx[handle], &self.derived, &indices);
            }
        }
        self.derived.unpin();
        if !is_ok {
            self.restart_tx(None);
        }
    }

    /// Sends a burst. Returns false if the queue has a fault.
    fn push(tx: &mut Box<dyn TxQueue>, burst: &Burst, indices: &[u8]) -> bool {
        let (n, mut stats) = (indices.len(), BurstStats::default());
        match tx.tx(burst, indices, &mut stats) {
            Ok(done) => {
                let counted = stats.packets + stats.lost;
                assert!(done <= n && counted == done as u64, "each consumed index is counted once");
                true
            }
            Err(fault) => {
                assert!(!fault.to_string().is_empty());
                assert!(stats.packets + stats.lost <= n as u64, "the caller counts the rest");
                false
            }
        }
    }

    fn notifications(&mut self, script: &mut Script<'_>) {
        self.rx[0].notify();
        self.tx.iter_mut().for_each(|tx| tx.notify());
        self.rx[0].prefetch();
        if script.byte() & 1 == 0 && self.rx[0].enable_notification().is_err() {
            return self.restart_rx(None);
        }
        self.rx[0].disable_notification();
    }

    /// The front end changes its memory; every handle adopts the change, as at a burst boundary.
    fn refresh(&mut self, script: &mut Script<'_>) {
        self.burst.unpin();
        if script.byte() & 1 == 0 {
            self.from.change_map(script);
            if self.rx[0].refresh().is_err() {
                self.restart_rx(None);
            }
        } else {
            self.to.change_map(script);
            let mut is_ok = self.tx[0].refresh().is_ok();
            is_ok &= self.tx.len() == 1 || self.send_late();
            is_ok &= self.tx[1..].iter_mut().all(|tx| tx.refresh().is_ok());
            if !is_ok {
                self.restart_tx(None);
            }
        }
    }

    /// The other worker sends before its burst boundary. Returns false if its queue has a fault.
    fn send_late(&mut self) -> bool {
        let before = self.to.unshared();
        self.burst.begin(0);
        assert!(self.burst.push_own(&[0x5a; 60]), "a frame fits into an empty burst");
        let sent = self.tx[1].tx(&self.burst, &[0], &mut BurstStats::default());
        self.burst.unpin();
        assert!(before == self.to.unshared(), "memory that is no longer shared was written");
        sent.is_ok()
    }

    fn fork(&mut self) {
        if self.tx.len() == 1 {
            let other = self.tx[0].fork();
            self.tx.push(other);
        }
    }

    /// The front end stops a ring and restarts it where it stopped.
    fn restart(&mut self, script: &mut Script<'_>) {
        if script.byte() & 1 == 0 {
            let state = self.rx.pop().map(|rx| rx.freeze());
            self.restart_rx(base(state));
        } else {
            let state = self.tx.pop().map(|tx| tx.freeze());
            self.restart_tx(base(state));
        }
    }

    fn restart_rx(&mut self, base: Option<u32>) {
        self.burst.unpin();
        self.from.start_again(base);
        self.rx = vec![(QUEUES.rx)(&self.from.setup()).expect("a ring starts at the base that it reported")];
    }

    fn restart_tx(&mut self, base: Option<u32>) {
        self.to.start_again(base);
        self.tx = vec![(QUEUES.tx)(&self.to.setup()).expect("a ring starts at the base that it reported")];
    }
}

/// The base of a frozen queue.
fn base(state: Option<QueueState>) -> Option<u32> {
    let Some(QueueState::Ring { base }) = state else { panic!("a ring has a base") };
    Some(base)
}
