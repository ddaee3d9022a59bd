//! A policer on the receive queues of a port.
//!
//! All queues of a port share one meter. A burst is metered under one lock, which is held for a few instructions per
//! packet and without waiting: the rates of the port hold exactly for any number of workers, and workers write the line
//! of the meter once per burst, not once per packet.

use crate::dscp::{set_dscp, traffic_class};
use crate::policer::{Action, Colour, Meter, Policer};
use mem::copy::Kernel;
use mem::line::Padded;
use port::wrap::Inspect;
use port::{BURST, Burst, BurstStats, DropReason, PortDetail, PortDetails};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets and bytes of each colour, and packets with a changed DSCP.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: [u64; 3],
    bytes: [u64; 3],
    remarked: u64,
}

struct State {
    meter: Meter,
    counts: Counts,
}

/// The policer of a port.
pub(crate) struct SharedPolicer {
    policer: Policer,
    state: Padded<Mutex<State>>,
}

impl SharedPolicer {
    pub(crate) fn new(policer: Policer) -> Self {
        let state = State { meter: Meter::new(policer.rates), counts: Counts::default() };
        Self { policer, state: Padded(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Colours the packets of a burst. Returns the worst colour.
    fn colour(&self, burst: &Burst, colours: &mut [Colour; BURST]) -> Colour {
        let (mut state, mut worst) = (self.lock(), Colour::Green);
        let State { meter, counts } = &mut *state;
        meter.advance(burst.now().0);
        for (i, colour) in colours.iter_mut().enumerate().take(burst.len()) {
            let before = if self.policer.is_aware {
                self.policer.before(traffic_class(burst.head(i)))
            } else {
                Colour::Green
            };
            *colour = meter.colour(burst.frame_len(i), before);
            counts.packets[*colour as usize] += 1;
            counts.bytes[*colour as usize] += burst.frame_len(i) as u64;
            worst = worst.max(*colour);
        }
        worst
    }

    pub(crate) fn details(&self) -> PortDetails {
        let counts = self.lock().counts;
        let [green, yellow, red] = counts.packets;
        let [green_bytes, yellow_bytes, red_bytes] = counts.bytes;
        let details = [
            (PortDetail::PolicerGreen, green),
            (PortDetail::PolicerYellow, yellow),
            (PortDetail::PolicerRed, red),
            (PortDetail::PolicerGreenBytes, green_bytes),
            (PortDetail::PolicerYellowBytes, yellow_bytes),
            (PortDetail::PolicerRedBytes, red_bytes),
            (PortDetail::PolicerRemarked, counts.remarked),
        ];
        details.map(|(detail, count)| (detail, count.to_string())).into()
    }
}

/// Polices what a receive queue receives.
pub(crate) struct Policing<K> {
    shared: Arc<SharedPolicer>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> Policing<K> {
    pub(crate) fn new(shared: Arc<SharedPolicer>) -> Self {
        Self { shared, kernel: PhantomData }
    }
}

impl<K: Kernel> Inspect for Policing<K> {
    fn inspect(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        let policer = &self.shared.policer;
        if policer.needs_headers() {
            burst.load_heads::<K>();
        }
        let mut colours = [Colour::Green; BURST];
        if self.shared.colour(burst, &mut colours) == Colour::Green {
            return;
        }
        let mut remarked = 0;
        burst.filter(0, |burst, to, from| match policer.action(colours[from]) {
            Action::Pass => true,
            Action::Remark(dscp) => {
                remarked += u64::from(set_dscp(burst.head_mut(to), dscp));
                true
            }
            Action::Drop => {
                stats.drop(DropReason::Policed, 1);
                false
            }
        });
        if remarked > 0 {
            self.shared.lock().counts.remarked += remarked;
        }
    }
}
