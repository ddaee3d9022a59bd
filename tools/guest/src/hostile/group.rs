//! The devices of an attack. Separate threads connect and reconnect them after the switch has closed a connection, so
//! that stepping them never blocks.

use super::super::GuestError;
use super::attacks::Attack;
use super::back_end::{self, OFFER};
use super::device::{Counts, Device};
use super::memif;
use super::other::{self, Via};
use super::plan::{Plan, Target};
use port::vhost_user::BackEnd;
use port::virtio_user::{FrontEnd, FrontEndListener, RingKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Timeout of one answer of the switch.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Delay before a closed device is reconnected, and between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(20);
/// Delay between two connections of `reconnect`.
const RECONNECT_PAUSE: Duration = Duration::from_millis(1);
/// Turns between two checks of the connections.
const POLL_TURNS: u32 = 4096;

/// A connected device.
pub(super) trait Unit: Send {
    /// Runs one turn; must not block.
    fn step(&mut self) -> Result<(), GuestError>;
    /// The counters.
    fn counts(&self) -> Counts;
    /// Whether the switch has closed the connection; for devices whose turns do not detect it.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Socket role of a device.
#[derive(Clone, Debug)]
pub enum Socket {
    /// The guest connects.
    Connect(PathBuf),
    /// The switch connects; the guest listens.
    Listen(PathBuf, Arc<FrontEndListener>),
}

/// Parameters of an attack.
#[derive(Clone, Copy, Debug)]
pub struct AttackConfig {
    /// The ring kind of every device.
    pub ring: RingKind,
    /// Addresses and ring size.
    pub target: Target,
    /// Whether to attack even if the switch lacks needed features.
    pub anyway: bool,
}

/// Counters of a device over all of its connections.
#[derive(Clone, Debug)]
pub struct DeviceCounts {
    /// Socket path.
    pub socket: PathBuf,
    /// MAC address.
    pub mac: [u8; 6],
    /// Established connections.
    pub connects: u64,
    /// Connections closed by the switch.
    pub refused: u64,
    /// Traffic counters.
    pub counts: Counts,
    /// Error that stopped the device.
    pub fault: Option<String>,
}

/// Parameters for connecting, sent to the connecting thread.
#[derive(Clone)]
struct Connection {
    socket: Socket,
    via: Via,
    plan: Arc<Plan>,
    ring: RingKind,
    mac: [u8; 6],
    anyway: bool,
    /// Number of earlier connections.
    round: u64,
    ending: Arc<AtomicBool>,
}

struct Attacker {
    connection: Connection,
    device: Option<Box<dyn Unit>>,
    coming: Option<Receiver<Result<Box<dyn Unit>, GuestError>>>,
    loops: Option<Arc<AtomicU64>>,
    account: DeviceCounts,
}

/// All devices of an attack.
pub struct AttackGroup {
    attackers: Vec<Attacker>,
    ending: Arc<AtomicBool>,
    turns: u32,
}

impl std::fmt::Debug for AttackGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttackGroup").field("attackers", &self.attackers.len()).finish_non_exhaustive()
    }
}

impl Socket {
    fn path(&self) -> &PathBuf {
        match self {
            Self::Connect(path) | Self::Listen(path, _) => path,
        }
    }

    fn open(&self) -> Result<FrontEnd, GuestError> {
        Ok(match self {
            Self::Connect(path) => FrontEnd::connect(path, TIMEOUT)?,
            Self::Listen(_, listener) => listener.accept(TIMEOUT)?,
        })
    }

    /// As `open`, for a guest that is the back end.
    fn open_back_end(&self) -> Result<BackEnd, GuestError> {
        Ok(match self {
            Self::Connect(path) => BackEnd::connect(path, OFFER)?,
            Self::Listen(_, listener) => BackEnd::over(listener.accept_socket(TIMEOUT)?, OFFER),
        })
    }
}

impl Connection {
    fn once(&self) -> Result<Box<dyn Unit>, GuestError> {
        let Self { plan, round, .. } = self;
        let path = self.socket.path();
        match self.via {
            Via::BackEnd(violation) => {
                let orders = back_end::ConnectionConfig {
                    plan,
                    own: self.mac,
                    violation,
                    round: *round,
                    anyway: self.anyway,
                };
                back_end::plug_in(self.socket.open_back_end()?, &orders, TIMEOUT)
            }
            Via::RawMemif(writing) => memif::plug_in(path, writing, plan, *round, TIMEOUT),
            Via::Memif(buffer) => other::memif(path, buffer, self.plan.frame().to_vec(), TIMEOUT),
            Via::Stream => other::stream(path, self.plan.frame()),
            Via::Vhost => {
                let front_end = self.socket.open()?;
                Ok(Box::new(Device::plug_in(front_end, &self.plan, self.ring, self.mac, self.anyway)?))
            }
        }
    }

    /// Retries until the device is connected, a permanent error occurs, or the attack ends.
    fn plug_in(&self) -> Result<Box<dyn Unit>, GuestError> {
        loop {
            match self.once() {
                Err(GuestError::FrontEnd(_) | GuestError::Closed) if !self.ending.load(Ordering::Relaxed) => {
                    std::thread::sleep(RETRY);
                }
                other => return other,
            }
        }
    }

    /// Connects and disconnects until the attack ends.
    fn reconnect_repeatedly(&self, count: &AtomicU64) {
        while !self.ending.load(Ordering::Relaxed) {
            count.fetch_add(u64::from(self.once().is_ok()), Ordering::Relaxed);
            std::thread::sleep(RECONNECT_PAUSE);
        }
    }
}

impl Attacker {
    fn new(connection: Connection, reconnects: bool) -> Self {
        let account = DeviceCounts {
            socket: connection.socket.path().clone(),
            mac: connection.mac,
            connects: 0,
            refused: 0,
            counts: Counts::default(),
            fault: None,
        };
        let mut attacker = Self { connection, device: None, coming: None, loops: None, account };
        if reconnects {
            let (connection, count) = (attacker.connection.clone(), Arc::<AtomicU64>::default());
            attacker.loops = Some(count.clone());
            std::thread::spawn(move || connection.reconnect_repeatedly(&count));
        } else {
            attacker.call(None);
        }
        attacker
    }

    /// Connects on another thread, after a pause if a device was connected before.
    fn call(&mut self, before: Option<Box<dyn Unit>>) {
        let (send, receive) = channel();
        let connection = Connection { round: self.account.connects, ..self.connection.clone() };
        std::thread::spawn(move || {
            if before.is_some() {
                drop(before);
                std::thread::sleep(PAUSE);
            }
            // The receiver is gone if the attack has ended.
            let _ = send.send(connection.plug_in());
        });
        self.coming = Some(receive);
    }

    fn check(&mut self) -> Result<(), GuestError> {
        if let Some(device) = self.device.take_if(|device| device.is_closed()) {
            self.disconnected(device);
        }
        let Some(coming) = &self.coming else { return Ok(()) };
        match coming.try_recv() {
            Ok(device) => {
                self.device = Some(device?);
                self.account.connects += 1;
                self.coming = None;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.coming = None,
        }
        Ok(())
    }

    fn disconnected(&mut self, device: Box<dyn Unit>) {
        self.account.refused += 1;
        self.account.counts = sum(self.account.counts, device.counts());
        self.call(Some(device));
    }

    #[inline]
    fn step(&mut self) {
        let Some(device) = &mut self.device else { return };
        if let Err(error) = device.step() {
            if !matches!(error, GuestError::Closed) {
                self.account.fault = Some(error.to_string());
            }
            if let Some(device) = self.device.take() {
                self.disconnected(device);
            }
        }
    }

    fn account(&self) -> DeviceCounts {
        let counts = self.device.as_ref().map_or(Counts::default(), |device| device.counts());
        let loops = self.loops.as_ref().map_or(0, |loops| loops.load(Ordering::Relaxed));
        let connects = self.account.connects + loops;
        DeviceCounts { counts: sum(self.account.counts, counts), connects, ..self.account.clone() }
    }

    fn is_ready(&self) -> bool {
        self.device.is_some() || self.loops.is_some()
    }
}

impl AttackGroup {
    /// Starts connecting: the first of `sockets` sends, the second, if present, receives.
    pub fn new(attack: &Attack, orders: &AttackConfig, sockets: Vec<Socket>) -> Self {
        let ending = Arc::<AtomicBool>::default();
        let target = &orders.target;
        let roles = [((attack.send)(target), target.own), ((attack.receive)(target), target.to)];
        let attacker = |(n, (socket, (plan, mac))): (usize, (Socket, (Plan, _)))| {
            let (plan, ending) = (Arc::new(plan), ending.clone());
            let via = if n == 0 { attack.via } else { Via::Vhost };
            let connection = Connection {
                socket,
                via,
                plan,
                ring: orders.ring,
                mac,
                anyway: orders.anyway,
                round: 0,
                ending,
            };
            Attacker::new(connection, attack.reconnects && n == 0)
        };
        let attackers = sockets.into_iter().zip(roles).enumerate().map(attacker).collect();
        Self { attackers, ending, turns: 0 }
    }

    /// Whether every device is connected. Returns an error if a device cannot connect.
    pub fn is_ready(&mut self) -> Result<bool, GuestError> {
        self.attackers.iter_mut().try_for_each(Attacker::check)?;
        Ok(self.attackers.iter().all(Attacker::is_ready))
    }

    /// Runs one turn of each device.
    #[inline]
    pub fn step(&mut self) {
        self.attackers.iter_mut().for_each(Attacker::step);
        self.turns += 1;
        if self.turns >= POLL_TURNS {
            self.turns = 0;
            for attacker in &mut self.attackers {
                if let Err(error) = attacker.check() {
                    attacker.account.fault = Some(error.to_string());
                }
            }
        }
    }

    /// Counters of each device.
    pub fn device_counts(&self) -> Vec<DeviceCounts> {
        self.attackers.iter().map(Attacker::account).collect()
    }
}

impl Drop for AttackGroup {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

fn sum(a: Counts, b: Counts) -> Counts {
    Counts {
        sent: a.sent + b.sent,
        received: a.received + b.received,
        foreign: a.foreign + b.foreign,
        kicks: a.kicks + b.kicks,
    }
}
