//! The same echo server, on tokens, over sockets of the kernel, over our stack on a TAP interface, and over our stack
//! on a ring. The kernel is the client of the first two.

use super::interfaces::{self, Plan, SERVER, answer, request};
use anyhow::{Context, Result, bail};
use api::token::{Kernel, Ports, Queues};
use counted::pair;
use host::Host;
use port::tap::{self, Tap};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const INTERFACE: &str = "tap0";
/// Address of the kernel, in the network of the server.
const CLIENT: &str = "10.100.0.2/24";

/// Transport of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Sockets and stack of the kernel, on the loopback interface.
    Kernel,
    /// Our stack over a TAP interface. Needs root.
    Tap,
    /// Our stack over a vhost-user port.
    Ring,
}

/// Nanoseconds per request in the server, and frames that the process receives and sends per request; `None` if the
/// kernel's stack does.
///
/// # Errors
/// If a port or a socket cannot be created, or if there are too few replies within a minute.
pub fn measure(transport: Transport, plan: Plan) -> Result<(f64, Option<f64>)> {
    match transport {
        Transport::Kernel => interfaces::kernel(plan).map(|nanos| (nanos, None)),
        Transport::Ring => {
            let (server, mut client) = pair::ends()?;
            let mut load = interfaces::load(&mut client, plan)?;
            serve(plan, server, &mut || {
                while client.poll(&mut load) {}
                load.answered()
            })
        }
        Transport::Tap => {
            let thread = std::thread::spawn(move || over_tap(plan));
            thread.join().unwrap_or_else(|_| bail!("the measuring thread panicked"))
        }
    }
}

/// Measures a server on tokens. `client` returns the number of replies so far.
fn serve(plan: Plan, server: Host, client: &mut dyn FnMut() -> u64) -> Result<(f64, Option<f64>)> {
    let mut queues = Queues::new(Ports::new(server));
    let listener = queues.listen(SERVER).map_err(std::io::Error::from)?;
    queues.accept(listener);
    let mut replies = 0;
    let mut client = || {
        replies = client();
        replies
    };
    let nanos = interfaces::measure(plan, &mut client, &mut || answer(&mut queues, listener))?;
    let counters = queues.device().host().stack().counters();
    Ok((nanos, Some((counters.frames_in + counters.frames_out) as f64 / replies as f64)))
}

/// Measures in a new network namespace of the calling thread and the programs that it starts. It ends with the thread.
fn over_tap(plan: Plan) -> Result<(f64, Option<f64>)> {
    // SAFETY: the thread keeps sharing its table of descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .context("a TAP interface needs a network namespace; run as root")?;
    let tap = Tap::open(tap::Options::new(INTERFACE), Instant::now())?;
    let mut server = pair::host(&[pair::SERVER], pair::CONNECTIONS, Box::new(tap))?;
    ip(&["address", "add", CLIENT, "dev", INTERFACE])?;
    ip(&["link", "set", INTERFACE, "up"])?;
    server.connect(&AtomicBool::new(false));
    let (mut clients, mut missing, mut replies) = (Queues::new(Kernel::new()?), Vec::new(), 0);
    for _ in 0..plan.connections {
        clients.connect(SERVER).map_err(std::io::Error::from)?;
    }
    serve(plan, server, &mut || request(&mut clients, &mut missing, &mut replies, plan))
}

/// Runs `ip` with these words.
fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).output().context("cannot run ip(8) of iproute2")?;
    if !output.status.success() {
        bail!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
