//! Bridges and links; frames arrive at once, or are lost.

use rstp::{Bridge, BridgeConfig, Event, Frame, PortConfig, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wire::MacAddress;

/// A bridge and one of its ports.
pub(crate) type End = (usize, u16);

#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) ends: [End; 2],
    pub(crate) is_up: bool,
}

pub(crate) struct Network {
    pub(crate) bridges: Vec<Bridge>,
    pub(crate) links: Vec<Link>,
    pub(crate) states: BTreeMap<End, State>,
    pub(crate) flushed: BTreeSet<End>,
    pub(crate) guarded: Vec<End>,
    /// Frames sent so far.
    pub(crate) frames: usize,
    /// Frames lost of 256.
    pub(crate) loss: u8,
    random: u64,
    waiting: VecDeque<(End, Box<Frame>)>,
    now: u64,
}

impl Network {
    pub(crate) fn new(configs: &[BridgeConfig]) -> Self {
        let bridge = |(i, config): (usize, &BridgeConfig)| {
            Bridge::new(MacAddress::from_u64(0x10 + i as u64), *config, Duration::ZERO).unwrap()
        };
        Self {
            bridges: configs.iter().enumerate().map(bridge).collect(),
            links: Vec::new(),
            states: BTreeMap::new(),
            flushed: BTreeSet::new(),
            guarded: Vec::new(),
            frames: 0,
            loss: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            waiting: VecDeque::new(),
            now: 0,
        }
    }

    /// Bridges in a ring; link `i` connects bridge `i` with the next one.
    pub(crate) fn ring(configs: &[BridgeConfig]) -> Self {
        let mut network = Self::new(configs);
        for i in 0..configs.len() {
            network.connect(i, (i + 1) % configs.len(), PortConfig::default());
        }
        network
    }

    pub(crate) fn add_port(&mut self, bridge: usize, config: PortConfig) -> End {
        let number = (1..=4095).find(|number| self.bridges[bridge].port_status(*number).is_none()).unwrap();
        self.bridges[bridge].add_port(number, config).unwrap();
        self.states.insert((bridge, number), State::Discarding);
        (bridge, number)
    }

    /// Connects two bridges, which may be the same one. Returns the link.
    pub(crate) fn connect(&mut self, a: usize, b: usize, config: PortConfig) -> usize {
        let ends = [self.add_port(a, config), self.add_port(b, config)];
        self.links.push(Link { ends, is_up: false });
        self.set_link(self.links.len() - 1, true);
        self.links.len() - 1
    }

    pub(crate) fn set_link(&mut self, link: usize, is_up: bool) {
        self.links[link].is_up = is_up;
        for (bridge, port) in self.links[link].ends {
            self.bridges[bridge].set_link(port, is_up);
        }
        self.deliver();
    }

    pub(crate) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            for bridge in &mut self.bridges {
                bridge.tick(Duration::from_secs(self.now));
            }
            self.deliver();
        }
    }

    /// Delivers frames until none is left.
    fn deliver(&mut self) {
        let before = self.frames;
        loop {
            (0..self.bridges.len()).for_each(|bridge| self.collect(bridge));
            let Some(((bridge, port), frame)) = self.waiting.pop_front() else { return };
            self.bridges[bridge].receive(port, &*frame);
            assert!(self.frames - before < 10_000, "frames circulate for ever");
        }
    }

    fn collect(&mut self, bridge: usize) {
        for event in self.bridges[bridge].take_events() {
            match event {
                Event::Send(port, frame) => self.send((bridge, port), frame),
                Event::State(port, state) => _ = self.states.insert((bridge, port), state),
                Event::Flush(port) => _ = self.flushed.insert((bridge, port)),
                Event::Guarded(port) => self.guarded.push((bridge, port)),
            }
        }
    }

    fn send(&mut self, from: End, frame: Box<Frame>) {
        self.frames += 1;
        // Xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.random as u8 >= self.loss {
            self.waiting.extend(self.peer(from).map(|to| (to, frame)));
        }
    }

    fn peer(&self, end: End) -> Option<End> {
        self.links.iter().filter(|link| link.is_up).find_map(|link| match link.ends {
            [a, b] if a == end => Some(b),
            [a, b] if b == end => Some(a),
            _ => None,
        })
    }

    /// Links that are up, and if `active` only those whose ends both forward.
    fn edges(&self, active: bool) -> impl Iterator<Item = [usize; 2]> {
        let forwards = |end: &End| self.states[end] == State::Forwarding;
        let links =
            self.links.iter().filter(move |link| link.is_up && (!active || link.ends.iter().all(forwards)));
        links.map(|link| link.ends.map(|(bridge, _)| bridge))
    }

    /// The component of each bridge, and whether the edges have a cycle.
    fn components(&self, active: bool) -> (Vec<usize>, bool) {
        let (mut component, mut has_cycle) = ((0..self.bridges.len()).collect::<Vec<_>>(), false);
        for [a, b] in self.edges(active) {
            let (from, to) = (component[a], component[b]);
            has_cycle |= from == to;
            component.iter_mut().filter(|one| **one == from).for_each(|one| *one = to);
        }
        (component, has_cycle)
    }

    pub(crate) fn has_loop(&self) -> bool {
        self.components(true).1
    }

    /// Whether the active topology is a spanning tree of each connected part, whose bridges know one root.
    pub(crate) fn is_converged(&self) -> bool {
        let ((all, _), (active, has_cycle)) = (self.components(false), self.components(true));
        let pairs = || (0..all.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let roots: Vec<_> = self.bridges.iter().map(|bridge| bridge.status().root).collect();
        !has_cycle
            && pairs().all(|(a, b)| (all[a] == all[b]) == (active[a] == active[b]))
            && pairs().all(|(a, b)| (all[a] == all[b]) == (roots[a] == roots[b]))
    }

    /// Seconds until [`Network::is_converged`].
    pub(crate) fn converge(&mut self, limit: u64) -> u64 {
        let seconds = (0..=limit).find(|seconds| {
            if *seconds > 0 {
                self.run(1);
            }
            self.is_converged()
        });
        seconds.unwrap_or_else(|| panic!("no spanning tree after {limit} s: {:?}", self.states))
    }
}
