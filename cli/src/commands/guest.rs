//! `linerate guest`: a virtio-user guest for any vhost-user switch.
//!
//! One process, one thread, one or more devices. If nothing listens at start, the guest exits with the reason, unless
//! `--wait` is given. A device whose back end disconnects later reconnects with new rings, so that a switch can be
//! killed and restarted under load.

mod calm;
mod hostile;

use crate::args::guest as args;
use crate::args::guest::{FrameSize, GuestArgs, GuestMode};
use crate::commands::cpu;
use crate::remedy;
use console::Diagnostic;
use console::Output;
use guest::{Descriptors, Flows, FrameSizes, GuestConfig, GuestDevice, GuestError, GuestStats, Mode};
use port::virtio_user::{FrontEnd, FrontEndError, FrontEndListener};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Timeout of one reply of the back end; also the interval in which signals are checked while waiting.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Queue polls between two clock reads.
const STEPS: u32 = 4096;

/// After this time without a received frame, frames in circulation count as lost. A paused switch resumes sooner.
const SILENCE: Duration = Duration::from_millis(100);

/// Default ring size.
const QUEUE_SIZE: u16 = 1024;

/// Printed results of a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestReport {
    /// Seconds from the end of the warm-up to the end.
    pub(crate) seconds: f64,
    /// CPU to which it was pinned.
    pub(crate) cpu: Option<usize>,
    /// Results per device.
    pub(crate) devices: Vec<DeviceReport>,
}

/// One device of a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeviceReport {
    pub(crate) socket: PathBuf,
    pub(crate) mac: MacAddress,
    pub(crate) connects: u64,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) rx_mpps: f64,
    pub(crate) tx_mpps: f64,
    pub(crate) empty_polls: f64,
}

/// Location of a device's back end.
enum Endpoint {
    Connect(PathBuf),
    Listen(PathBuf, FrontEndListener),
}

/// A device that is connected or waits for its back end.
struct Device {
    endpoint: Endpoint,
    config: GuestConfig,
    /// Whether to wait for a back end that was never available.
    waits: bool,
    /// Whether the current wait was reported.
    is_wait_noted: bool,
    /// The driver, while a back end is connected.
    connected: Option<Box<dyn GuestDevice>>,
    connects: u64,
    before: GuestStats,
    /// Counts of the warm-up.
    uncounted: GuestStats,
    /// Received frames at the last change, and its time.
    last_received: (u64, Instant),
}

/// Runs the guest.
pub(crate) fn run(args: &GuestArgs) -> anyhow::Result<()> {
    cpu::pin(args.cpu)?;
    let ending = console::stop_on_signals()?;
    if let Some(attack) = args.attack.hostile {
        return hostile::run(attack, args, &ending);
    }
    let mut devices = devices(args, args.wait)?;
    while !ending.load(Ordering::Relaxed) && devices.iter().any(|device| device.connected.is_none()) {
        devices.iter_mut().try_for_each(Device::connect)?;
    }
    poll(&mut devices, &ending, Some(Instant::now() + args.warm_up.0))?;
    for device in &mut devices {
        device.uncounted = device.stats();
    }
    let began = Instant::now();
    poll(&mut devices, &ending, args.duration.map(|duration| began + duration.0))?;
    let report = report(args, &mut devices, began.elapsed());
    print(args.show.output, &report)?;
    if args.duration.is_some() && ending.load(Ordering::Relaxed) {
        return Err(Diagnostic::interrupted("linerate guest").into());
    }
    Ok(())
}

/// Polls the devices until a signal, or until this time.
fn poll(devices: &mut [Device], ending: &AtomicBool, until: Option<Instant>) -> Result<(), Diagnostic> {
    while !ending.load(Ordering::Relaxed) && until.is_none_or(|at| Instant::now() < at) {
        for _ in 0..STEPS {
            devices.iter_mut().try_for_each(Device::step)?;
        }
        devices.iter_mut().try_for_each(Device::check)?;
    }
    Ok(())
}

/// A guest driven by another thread's loop.
pub(crate) struct Inside {
    devices: Vec<Device>,
}

impl Inside {
    /// Creates the listening sockets; does not wait for connections.
    pub(crate) fn new(args: &GuestArgs) -> Result<Self, Diagnostic> {
        let mut devices = devices(args, true)?;
        // The loop's owner says what it waits for.
        for device in &mut devices {
            device.is_wait_noted = true;
        }
        Ok(Self { devices })
    }

    /// Connects devices whose back end is available. Returns whether all are connected.
    pub(crate) fn connect(&mut self) -> Result<bool, Diagnostic> {
        self.devices.iter_mut().try_for_each(Device::connect)?;
        Ok(self.devices.iter().all(|device| device.connected.is_some()))
    }

    /// Polls each device once.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), Diagnostic> {
        self.devices.iter_mut().try_for_each(Device::step)
    }
}

fn devices(args: &GuestArgs, waits: bool) -> Result<Vec<Device>, Diagnostic> {
    validate_size(args)?;
    let connect = args.socket.connect.iter().map(|path| Ok(Endpoint::Connect(path.clone())));
    let listen = args.socket.listen.iter().map(|path| match FrontEndListener::bind(path) {
        Ok(listener) => Ok(Endpoint::Listen(path.clone(), listener)),
        Err(error) => Err(Diagnostic::bad(path.display(), error, "choose another path for the socket")),
    });
    let endpoints = connect.chain(listen).collect::<Result<Vec<_>, _>>()?;
    let count = endpoints.len();
    Ok(endpoints
        .into_iter()
        .enumerate()
        .map(|(n, endpoint)| Device::new(endpoint, config(args, n, count), waits))
        .collect())
}

/// The size of a split ring must be a power of two.
fn validate_size(args: &GuestArgs) -> Result<(), Diagnostic> {
    match args.queue_size {
        Some(size) if !args.ring.is_packed() && !size.is_power_of_two() => {
            let reason = format!("{size} is not a power of two, as split rings require");
            Err(Diagnostic::bad("--queue-size", reason, "use 256, 512 or 1024, or a packed ring"))
        }
        _ => Ok(()),
    }
}

fn config(args: &GuestArgs, n: usize, count: usize) -> GuestConfig {
    let mac = |n: usize| {
        let mut mac = args.mac.octets();
        mac[5] = mac[5].wrapping_add(n as u8);
        mac
    };
    // A single device sends to the address after its own.
    let next = if n + 1 < count || count == 1 { n + 1 } else { 0 };
    GuestConfig {
        ring: args.ring,
        descriptors: descriptors(args.descriptors),
        mode: mode(args.mode),
        queue_size: args.queue_size.unwrap_or(QUEUE_SIZE),
        queue_pairs: args.queue_pairs,
        mergeable: !args.no_mergeable,
        mac: mac(n),
        peer: args.peer.map_or_else(|| mac(next), wire::MacAddress::octets),
        sizes: sizes(args.size),
        packets: args.in_flight,
        flows: flows(args),
    }
}

fn flows(args: &GuestArgs) -> Option<Flows> {
    let count = args.flows?;
    args.zipf.and_then(|exponent| Flows::zipf(count, exponent)).or_else(|| Some(Flows::uniform(count)))
}

fn descriptors(descriptors: args::Descriptors) -> Descriptors {
    match descriptors {
        args::Descriptors::Single => Descriptors::Single,
        args::Descriptors::Chain => Descriptors::Chain,
        args::Descriptors::Indirect => Descriptors::Indirect,
    }
}

fn mode(mode: GuestMode) -> Mode {
    match mode {
        GuestMode::Macswap => Mode::MacSwap,
        GuestMode::Io => Mode::Io,
        GuestMode::Txonly => Mode::TxOnly,
        GuestMode::Rxonly => Mode::RxOnly,
    }
}

fn sizes(size: FrameSize) -> FrameSizes {
    match size {
        FrameSize::Bytes(bytes) => FrameSizes::fixed(bytes),
        FrameSize::Mix => FrameSizes::mix(),
    }
}

impl Device {
    fn new(endpoint: Endpoint, config: GuestConfig, waits: bool) -> Self {
        Self {
            endpoint,
            config,
            waits,
            is_wait_noted: false,
            connected: None,
            connects: 0,
            before: GuestStats::default(),
            uncounted: GuestStats::default(),
            last_received: (0, Instant::now()),
        }
    }

    fn socket(&self) -> &PathBuf {
        match &self.endpoint {
            Endpoint::Connect(path) | Endpoint::Listen(path, _) => path,
        }
    }

    /// Connects if the back end is available. Returns an error if it lacks a required feature, or if it was never
    /// available and is not to be waited for.
    fn connect(&mut self) -> Result<(), Diagnostic> {
        if self.connected.is_some() {
            return Ok(());
        }
        let front_end = match &self.endpoint {
            Endpoint::Connect(path) => FrontEnd::connect(path, TIMEOUT),
            Endpoint::Listen(_, listener) => listener.accept(TIMEOUT),
        };
        let front_end = match front_end {
            Ok(front_end) => front_end,
            Err(FrontEndError::NoBackEnd(path, errno)) if !self.waits && self.connects == 0 => {
                return Err(unreachable(&path, errno));
            }
            Err(error) => {
                self.note_wait(&error);
                std::thread::sleep(Duration::from_millis(20));
                return Ok(());
            }
        };
        self.is_wait_noted = false;
        match guest::plug_in(front_end, &self.config) {
            Ok(device) => {
                self.connected = Some(device);
                self.connects += 1;
                Ok(())
            }
            // It disconnected during the handshake or was not ready; retry.
            Err(GuestError::FrontEnd(_) | GuestError::Closed) => Ok(()),
            Err(error) => {
                let remedy = "change the features of the guest or of the switch";
                Err(Diagnostic::failed(self.socket().display(), error, remedy))
            }
        }
    }

    /// Says once for each wait, and why, that the back end is not available.
    fn note_wait(&mut self, error: &FrontEndError) {
        if std::mem::replace(&mut self.is_wait_noted, true) {
            return;
        }
        let reason = match error {
            FrontEndError::NoBackEnd(_, errno) => std::io::Error::from(*errno).to_string(),
            FrontEndError::AcceptTimeout(_) => "it has not connected".to_owned(),
            other => other.to_string(),
        };
        console::note(&format!("waiting for a switch at {}: {reason}", self.socket().display()));
    }

    #[inline]
    fn step(&mut self) -> Result<(), Diagnostic> {
        let Some(device) = &mut self.connected else { return Ok(()) };
        match device.step() {
            Ok(_) => Ok(()),
            Err(error) => Err(Diagnostic::failed(
                self.socket().display(),
                error,
                "report this to the developers of the switch",
            )),
        }
    }

    /// Makes the device replace lost frames, e.g. if the switch did not forward yet.
    fn renew_after_silence(&mut self) {
        let (now, received) = (Instant::now(), self.stats().rx_packets);
        if received != self.last_received.0 {
            self.last_received = (received, now);
        } else if now - self.last_received.1 > SILENCE {
            self.last_received.1 = now;
            self.connected.iter_mut().for_each(|device| device.replace_lost());
        }
    }

    /// Detects that the back end has disconnected, and reconnects.
    fn check(&mut self) -> Result<(), Diagnostic> {
        if let Some(device) = self.connected.take_if(|device| device.is_closed()) {
            console::note(&format!("{}: the back end disconnected", self.socket().display()));
            self.before = sum(self.before, device.stats());
        }
        self.renew_after_silence();
        self.connect()
    }

    fn stats(&self) -> GuestStats {
        self.connected.as_ref().map_or(self.before, |device| sum(self.before, device.stats()))
    }
}

/// Error for a failed connection.
fn unreachable(socket: &Path, errno: Errno) -> Diagnostic {
    let error = std::io::Error::from(errno);
    let remedy = remedy::connection(error.kind(), "switch", "add --wait");
    let remedy = remedy.unwrap_or_else(|| "name the socket of a vhost-user port".to_owned());
    Diagnostic::failed(socket.display(), format!("cannot connect: {error}"), remedy)
}

fn sum(a: GuestStats, b: GuestStats) -> GuestStats {
    GuestStats {
        rx_packets: a.rx_packets + b.rx_packets,
        rx_bytes: a.rx_bytes + b.rx_bytes,
        tx_packets: a.tx_packets + b.tx_packets,
        polls: a.polls + b.polls,
        empty_polls: a.empty_polls + b.empty_polls,
    }
}

fn difference(a: GuestStats, b: GuestStats) -> GuestStats {
    GuestStats {
        rx_packets: a.rx_packets - b.rx_packets,
        rx_bytes: a.rx_bytes - b.rx_bytes,
        tx_packets: a.tx_packets - b.tx_packets,
        polls: a.polls - b.polls,
        empty_polls: a.empty_polls - b.empty_polls,
    }
}

fn report(args: &GuestArgs, devices: &mut [Device], elapsed: Duration) -> GuestReport {
    let seconds = elapsed.as_secs_f64();
    let device = |device: &mut Device| {
        let stats = difference(device.stats(), device.uncounted);
        if let Some(device) = device.connected.take() {
            // The results are already taken; a back end that no longer replies does not affect them.
            let _ = device.unplug();
        }
        let rate = |packets: u64| packets as f64 / seconds / 1e6;
        DeviceReport {
            socket: device.socket().clone(),
            mac: device.config.mac.into(),
            connects: device.connects,
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            tx_packets: stats.tx_packets,
            rx_mpps: rate(stats.rx_packets),
            tx_mpps: rate(stats.tx_packets),
            empty_polls: stats.empty_polls as f64 / stats.polls.max(1) as f64,
        }
    };
    GuestReport { seconds, cpu: args.cpu, devices: devices.iter_mut().map(device).collect() }
}

fn print(output: Output, report: &GuestReport) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    let row = |d: &DeviceReport| {
        vec![
            d.socket.display().to_string(),
            d.connects.to_string(),
            format!("{:.3}", d.rx_mpps),
            format!("{:.3}", d.tx_mpps),
            d.rx_packets.to_string(),
            d.tx_packets.to_string(),
            format!("{:.0} %", d.empty_polls * 100.0),
        ]
    };
    let titles =
        ["DEVICE", ">CONNECTS", ">RX Mpps", ">TX Mpps", ">RX PACKETS", ">TX PACKETS", ">EMPTY POLLS"];
    let table = console::table(&titles, report.devices.iter().map(row));
    let cpu = report.cpu.map_or("no fixed CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    writeln!(out, "{table}\n{:.1} s on {cpu}", report.seconds)?;
    Ok(())
}
