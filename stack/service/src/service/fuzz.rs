//! Fuzzing of what a client writes to the memory that it shares with the service, beside an honest client.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use super::{
    App, AsFd, Buffer, CONTROL_INTERVAL, Endpoint, Limits, Service, ServiceOptions, Stack, Time, UnixStream,
    handshake,
};
use crate::chunks::CHUNK;
use crate::entry::{Command, Completion};
use crate::region::{Descriptors, Parts};
use crate::ring::{Consumer, Producer, Words};
use mem::SharedRange;
use stack::ip::InterfaceConfig;
use std::sync::atomic::Ordering;
use wire::MacAddress;

const MAC: MacAddress = MacAddress::new([2; 6]);
/// Words of the beginning of a ring: positions, the flag of a consumer, and the first entry.
const HEAD: u32 = 40;

/// A client without the library.
pub(super) struct Raw {
    pub(super) commands: Producer<SharedRange>,
    pub(super) completions: Consumer<SharedRange>,
    pub(super) parts: Parts,
    _fds: Descriptors,
    pub(super) socket: UnixStream,
}

impl Raw {
    pub(super) fn new(service: &mut Service) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        service.add_client(theirs);
        let (sizes, fds) = handshake::receive(ours.as_fd()).unwrap();
        let parts = Parts::map(fds.memory.as_fd(), &sizes).unwrap();
        let commands = Producer::new(parts.commands.clone(), sizes.ring);
        let completions = Consumer::new(parts.completions.clone(), sizes.ring);
        Self { commands, completions, parts, _fds: fds, socket: ours }
    }

    pub(super) fn send(&mut self, words: &Words) {
        assert_eq!(self.commands.push(words), Ok(true));
        self.commands.publish();
    }

    pub(super) fn next(&mut self) -> Option<Completion> {
        let words = self.completions.pop().unwrap()?;
        self.completions.release();
        Some(Completion::decode(&words).unwrap())
    }
}

/// A service over a stack without a wire.
pub(super) struct Setup {
    pub(super) service: Service,
    pub(super) stack: Stack<Buffer>,
    now: Time,
}

impl Setup {
    pub(super) fn new() -> Self {
        let limits = Limits { ring: 64, arena: 4 * CHUNK, sends: 4, sockets: 8, ..Limits::default() };
        let service = Service::new(ServiceOptions { limits, ..ServiceOptions::default() }).unwrap();
        let mut stack = Stack::new(stack::Config::new([1; 16]), Time(0));
        let interface = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500, vlan: None });
        stack.add_address(interface, "10.0.0.1/24".parse().unwrap(), Time(0));
        Self { service, stack, now: Time(0) }
    }

    /// Runs rounds until nothing happens.
    pub(super) fn run(&mut self) {
        for _ in 0..100 {
            self.now = Time(self.now.0 + 2 * CONTROL_INTERVAL);
            let mut worked = false;
            while let Some(event) = self.stack.poll_event() {
                self.service.event(&mut self.stack, event, self.now);
                worked = true;
            }
            if !self.service.poll(&mut self.stack, self.now) && !worked {
                return;
            }
        }
    }
}

/// Plays a script on the side of a client. A step begins with a byte: an entry of 64 bytes with its kind and with fields
/// that are mostly possible, a number stored somewhere in a ring, or the end of the client and another one.
#[cfg_attr(not(feature = "fuzz"), expect(unreachable_pub, reason = "exported with the feature fuzz"))]
pub fn fuzz_client(script: &[u8]) {
    let mut setup = Setup::new();
    let mut honest = Raw::new(&mut setup.service);
    let (mut client, mut rest) = (Raw::new(&mut setup.service), script);
    while let Some((step, more)) = rest.split_first() {
        rest = more;
        match step {
            0..=239 => {
                if client.commands.push(&entry(&mut rest, u64::from(step % 16))) == Ok(true) {
                    client.commands.publish();
                }
            }
            240..=251 => {
                let ring = if step % 2 == 0 { &client.parts.commands } else { &client.parts.completions };
                let [at, value] = [word(&mut rest), word(&mut rest)];
                ring.store((at as u32 % HEAD) as usize, value, Ordering::Release);
            }
            // It has closed its end if this fails.
            252..=253 => drop(client.socket.shutdown(std::net::Shutdown::Both)),
            _ => client = Raw::new(&mut setup.service),
        }
        setup.run();
        let _ = client.completions.pop();
        client.completions.release();
    }
    drop(client);
    setup.run();
    assert_eq!(setup.service.clients(), 1, "only the honest client is left");
    assert_eq!((setup.service.connections.len(), setup.service.listeners.len()), (0, 0));
    honest.send(&Command::Listen { id: 1, local: Endpoint::default(), shares: false }.encode());
    setup.run();
    let answer = honest.next();
    assert!(
        matches!(answer, Some(Completion::Bound { id: 1, .. } | Completion::Failed { id: 1, .. })),
        "{answer:?}"
    );
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
