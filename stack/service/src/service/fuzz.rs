//! Fuzzing of what a client writes to the memory that it shares with the service, beside an honest client.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use super::{App, AsFd, Buffer, Endpoint, Limits, ORDER_INTERVAL, Service, ServiceOptions, Stack, Time};
use crate::chunks::CHUNK;
use crate::entry::{Command, Completion};
use crate::region::{Descriptors, Parts};
use crate::ring::{Consumer, Producer, Words};
use crate::{SlowPath, handshake};
use mem::SharedRange;
use stack::Affinity;
use stack::ip::InterfaceConfig;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use wire::MacAddress;

const MAC: MacAddress = MacAddress::new([2; 6]);
/// Words of the beginning of a ring: positions, the flag of a consumer, and the first entry.
const HEAD: u32 = 40;

/// Memory that a client shares with one worker.
pub(super) struct Lane {
    pub(super) commands: Producer<SharedRange>,
    pub(super) completions: Consumer<SharedRange>,
    pub(super) parts: Parts,
}

impl Lane {
    pub(super) fn send(&mut self, words: &Words) {
        assert_eq!(self.commands.push(words), Ok(true));
        self.commands.publish();
    }

    pub(super) fn next(&mut self) -> Option<Completion> {
        let words = self.completions.pop().unwrap()?;
        self.completions.release();
        Some(Completion::decode(&words).unwrap())
    }

    /// All completions that wait.
    #[cfg(test)]
    pub(super) fn rest(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// A client without the library.
pub(super) struct Raw {
    pub(super) lanes: Vec<Lane>,
    _fds: Descriptors,
    pub(super) socket: UnixStream,
}

impl Raw {
    pub(super) fn new(setup: &mut Setup) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        setup.slow_path.attach(theirs);
        let (sizes, fds) = handshake::receive(ours.as_fd()).unwrap();
        let lane = |own: &crate::region::Own| {
            let parts = Parts::map(own.memory.as_fd(), &sizes).unwrap();
            let commands = Producer::new(parts.commands.clone(), sizes.ring);
            let completions = Consumer::new(parts.completions.clone(), sizes.ring);
            Lane { commands, completions, parts }
        };
        Self { lanes: fds.own.iter().map(lane).collect(), _fds: fds, socket: ours }
    }

    /// Memory that the client shares with the first worker.
    #[cfg(test)]
    pub(super) fn lane(&mut self) -> &mut Lane {
        &mut self.lanes[0]
    }
}

/// A service over stacks without a wire.
pub(super) struct Setup {
    pub(super) slow_path: SlowPath,
    pub(super) workers: Vec<(Service, Stack<Buffer>)>,
    now: Time,
}

impl Setup {
    pub(super) fn new(workers: usize) -> Self {
        let limits = Limits { ring: 64, arena: 4 * CHUNK, sends: 4, sockets: 8, ..Limits::default() };
        let options = ServiceOptions { limits, ..ServiceOptions::default() };
        let (slow_path, services) = SlowPath::new(options, workers).unwrap();
        let stack = |index: u16| {
            let mut config = stack::Config::new([1; 16]);
            config.affinity = Affinity::new(index, workers as u16, None);
            let mut stack = Stack::new(config, Time(0));
            let interface = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500, vlan: None });
            stack.add_address(interface, "10.0.0.1/24".parse().unwrap(), Time(0));
            stack
        };
        Self { slow_path, workers: services.into_iter().zip((0..).map(stack)).collect(), now: Time(0) }
    }

    /// Runs rounds until nothing happens.
    pub(super) fn run(&mut self) {
        for _ in 0..200 {
            self.now = Time(self.now.0 + 2 * ORDER_INTERVAL);
            if !(self.slow_path.turn() | self.serve()) {
                return;
            }
        }
    }

    /// Runs one round of each worker. Returns whether there was any work.
    pub(super) fn serve(&mut self) -> bool {
        let mut worked = false;
        for (service, stack) in &mut self.workers {
            while let Some(event) = stack.poll_event() {
                service.event(stack, event, self.now);
                worked = true;
            }
            worked |= service.poll(stack, self.now);
        }
        worked
    }

    /// The service of the first worker.
    #[cfg(test)]
    pub(super) fn service(&self) -> &Service {
        &self.workers[0].0
    }

    /// Whether no worker has a connection or a listener.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.iter().all(|(service, stack)| {
            service.connections.is_empty() && service.listeners.is_empty() && stack.connections().count() == 0
        })
    }
}

/// Plays a script on the side of a client of two workers. A step begins with a byte: an entry of 64 bytes for one of
/// them, with its kind and with fields that are mostly possible, a number stored somewhere in a ring, or the end of the
/// client and another one.
#[cfg_attr(not(feature = "fuzz"), expect(unreachable_pub, reason = "exported with the feature fuzz"))]
pub fn fuzz_client(script: &[u8]) {
    let mut setup = Setup::new(2);
    let mut honest = Raw::new(&mut setup);
    let (mut client, mut rest) = (Raw::new(&mut setup), script);
    while let Some((step, more)) = rest.split_first() {
        rest = more;
        let lane = &mut client.lanes[usize::from(step / 16 % 2)];
        match step {
            0..=239 => {
                if lane.commands.push(&entry(&mut rest, u64::from(step % 16))) == Ok(true) {
                    lane.commands.publish();
                }
            }
            240..=251 => {
                let ring = if step % 2 == 0 { &lane.parts.commands } else { &lane.parts.completions };
                let [at, value] = [word(&mut rest), word(&mut rest)];
                ring.store((at as u32 % HEAD) as usize, value, Ordering::Release);
            }
            // It has closed its end if this fails.
            252..=253 => drop(client.socket.shutdown(std::net::Shutdown::Both)),
            _ => client = Raw::new(&mut setup),
        }
        setup.run();
        for lane in &mut client.lanes {
            let _ = lane.completions.pop();
            lane.completions.release();
        }
    }
    drop(client);
    setup.run();
    assert_eq!(setup.slow_path.clients(), 1, "only the honest client is left");
    assert!(setup.is_empty());
    for lane in &mut honest.lanes {
        lane.send(&Command::Listen { id: 1, local: Endpoint::default(), shares: false }.encode());
    }
    setup.run();
    for lane in &mut honest.lanes {
        let answer = lane.next();
        assert!(
            matches!(answer, Some(Completion::Bound { id: 1, .. } | Completion::Failed { id: 1, .. })),
            "{answer:?}"
        );
    }
}

/// The next word of a script; missing bytes are zero.
fn word(rest: &mut &[u8]) -> u64 {
    let (bytes, more) = rest.split_at(rest.len().min(8));
    *rest = more;
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// An entry from the next words of a script.
fn entry(rest: &mut &[u8], kind: u64) -> Words {
    let [numbers, range, options, local, remote] = [(); 5].map(|()| word(rest));
    // 10.0.0.1, one of 32 groups, or any other address.
    let address = |word: u64| match word % 8 {
        0..=4 => 0x0100_000a_ffff_0000,
        5 | 6 => (word >> 8 & 31) << 56 | 0x0000_00ef_ffff_0000,
        _ => word,
    };
    let (local, remote) = (address(local), address(remote));
    let ports = (numbers >> 32 & 3) << 16 | (numbers >> 34 & 7) << 32;
    let range = if options % 8 < 6 {
        (range % (4 * u64::from(CHUNK))) | (((range >> 32) % 4096) << 32)
    } else {
        range
    };
    [
        kind | (numbers >> 8 & 3) << 8 | ports,
        numbers & 7 | (numbers >> 16 & 3) << 32,
        range,
        options,
        0,
        u64::from_be(local),
        0,
        u64::from_be(remote),
    ]
}
