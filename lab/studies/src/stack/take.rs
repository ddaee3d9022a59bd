//! Takes one reading of a cell.

use super::Plan;
use super::study::{Cell, Study};
use benches::stack::{
    accept, bulk, control, cores, echo, grants, http, interfaces, proxy, queue, reads, sockets, storage,
    transports,
};
use measure::pinning::pin;
use std::fmt::Display;
use std::time::Duration;

/// Connections of studies that do not vary them.
const CONNECTIONS: u32 = 16;
/// Bytes of a request of studies that do not vary them.
const BYTES: u64 = 64;
/// Time that the slow client of the accept queues needs for a connection, about ten times that of the others.
const SLOW: Duration = Duration::from_micros(200);
/// Cache lines of additional state of a connection: as many as 1 KiB has.
const WIDE: usize = 16;
/// Time that a reading of the proxy needs for this many requests.
const PROXY_REQUESTS_PER_MS: u64 = 100;

/// Reason why a reading could not be taken.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadingError(String);

impl ReadingError {
    fn new(error: impl Display) -> Self {
        Self(format!("{error:#}"))
    }
}

/// A value, and those of [`Study::more`].
type Taken = (f64, Vec<f64>);

/// Takes a reading on a thread of its own, because it pins itself.
pub(super) fn take(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if !cell.study.is_parallel() {
                pin(plan.cpus[0]).map_err(ReadingError::new)?;
            }
            of(plan, cell)
        });
        thread.join().unwrap_or_else(|_| Err(ReadingError::new("the measuring thread panicked")))
    })
}

fn of(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    let (at, small, requests) = (cell.at, cell.at as u32, plan.requests);
    let alone = |value: f64| (value, Vec::new());
    let is = |variant| cell.variant == variant;
    match cell.study {
        Study::Calls => in_folder(|folder| reads::measure(folder, small, is("io_uring"), requests))
            .map(|(value, calls)| (value, vec![calls])),
        Study::Accept => accepting(cell, Duration::ZERO, requests),
        Study::Skew => accepting(cell, SLOW, requests),
        Study::Batch => {
            let measured = queue::measure(cell.variant.parse().ok(), small, 64, requests);
            measured.map(|(value, _)| alone(value)).map_err(ReadingError::new)
        }
        Study::Ports => cores::ports(plan.cpus, is("home"), CONNECTIONS.into(), BYTES, requests)
            .map(|(rate, crossed)| (rate, vec![crossed]))
            .map_err(ReadingError::new),
        Study::Frames if is("stored-sums") => bodies(at, http::Bodies::Summed, requests).map(alone),
        Study::Gather if is("copy") => bodies(at, http::Bodies::Copied, requests).map(alone),
        Study::Frames | Study::Gather => bodies(at, http::Bodies::Plain, requests).map(alone),
        Study::Proxy => {
            let forward = if is("copy") { proxy::Forward::Copy } else { proxy::Forward::Reference };
            let time = Duration::from_millis((requests / PROXY_REQUESTS_PER_MS).max(1));
            in_folder(|folder| proxy::Rig::new(folder)?.measure(small, CONNECTIONS, forward, time)).map(alone)
        }
        Study::Connections => {
            let lines = if is("wide") { WIDE } else { 0 };
            echo_server(echo::Plan {
                connections: small,
                bytes: BYTES as u32,
                offloads: true,
                lines,
                requests,
            })
        }
        Study::Checksum => {
            let (connections, offloads) = (CONNECTIONS, is("offloaded"));
            echo_server(echo::Plan { connections, bytes: small, offloads, lines: 0, requests })
        }
        Study::Threads => cores::threads(plan.cpus, model(cell.variant), at, BYTES, requests)
            .map(|(rate, p50, p99)| (rate, vec![p50, p99]))
            .map_err(ReadingError::new),
        Study::Control => control::measure(other(cell.variant), requests)
            .map(|reading| (reading.requests, vec![reading.others, reading.longest]))
            .map_err(ReadingError::new),
        Study::Interfaces => {
            let plan = interfaces::Plan { connections: CONNECTIONS, bytes: at as usize, requests };
            interface(cell.variant)(plan).map(alone).map_err(ReadingError::new)
        }
        Study::Sockets => over_sockets(plan, cell),
        Study::Transports => over(plan, cell),
        Study::Storage => from_disk(plan, cell),
        Study::Grants => granted(plan, cell),
        Study::Idle => round_trips(plan, cell),
        Study::Bulk => bulk::measure(stream(cell.variant), at as usize, requests)
            .map(|(value, frames)| (value, vec![frames]))
            .map_err(ReadingError::new),
    }
}

fn over_sockets(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    let way = match cell.variant {
        "io_uring" => sockets::Way::Ring,
        "sqpoll" => sockets::Way::Thread,
        _ => sockets::Way::Calls,
    };
    let (connections, bytes) = (CONNECTIONS as usize, cell.at as u32);
    let plan = sockets::Plan { cpus: plan.cpus, connections, bytes, requests: plan.requests };
    let measured = sockets::measure(way, &plan);
    measured.map(|(value, calls)| (value, vec![calls])).map_err(ReadingError::new)
}

fn over(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    let transport = match cell.variant {
        "tap" => transports::Transport::Tap,
        "ring" => transports::Transport::Ring,
        _ => transports::Transport::Kernel,
    };
    let bytes = cell.at as usize;
    let plan = interfaces::Plan { connections: CONNECTIONS, bytes, requests: plan.requests };
    let measured = transports::measure(transport, plan);
    measured.map(|(value, frames)| (value, frames.into_iter().collect())).map_err(ReadingError::new)
}

fn from_disk(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    let known = storage::MODES.into_iter().find(|known| known.0 == cell.variant);
    let (_, mode) = known.ok_or_else(|| ReadingError::new("there is no such mode"))?;
    in_folder(|folder| storage::measure(folder, mode, cell.at > 0, plan.requests))
        .map(|(value, cached)| (value, vec![cached]))
}

fn granted(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    if cell.variant == "service" {
        let measured = control::measure(control::Other::Nothing, plan.requests);
        return measured.map(|reading| (reading.requests, Vec::new())).map_err(ReadingError::new);
    }
    let measured = grants::measure(plan.requests);
    let micros = |stop: Duration| stop.as_nanos() as f64 / 1e3;
    measured.map(|reading| (reading.requests, vec![micros(reading.stop)])).map_err(ReadingError::new)
}

fn round_trips(plan: &Plan, cell: &Cell) -> Result<Taken, ReadingError> {
    let batch = cell.variant.parse().map_err(ReadingError::new)?;
    let measured = queue::idle(batch, plan.requests);
    measured.map(|times| (times.p99, vec![times.p50, times.batch])).map_err(ReadingError::new)
}

/// Runs `measure` with a temporary folder.
fn in_folder<T, E: Display>(
    measure: impl FnOnce(&std::path::Path) -> Result<T, E>,
) -> Result<T, ReadingError> {
    let folder = tempfile::tempdir().map_err(ReadingError::new)?;
    measure(folder.path()).map_err(ReadingError::new)
}

fn bodies(bytes: u64, bodies: http::Bodies, requests: u64) -> Result<f64, ReadingError> {
    in_folder(|folder| {
        std::fs::write(folder.join(http::FILE), vec![b'x'; bytes as usize])?;
        let mut pair = http::Pair::new(folder, bodies, CONNECTIONS)?;
        let mut load = pair.load()?;
        pair.measure(&mut load, requests)
    })
}

fn accepting(cell: &Cell, slow: Duration, requests: u64) -> Result<Taken, ReadingError> {
    let measured = accept::measure(policy(cell.variant), cell.at as usize, slow, requests);
    measured.map(|(value, share)| (value, vec![share])).map_err(ReadingError::new)
}

fn echo_server(plan: echo::Plan) -> Result<Taken, ReadingError> {
    let measured = echo::measure(plan);
    measured.map(|value| (value, Vec::new())).map_err(ReadingError::new)
}

fn policy(variant: &str) -> accept::AcceptPolicy {
    match variant {
        "round-robin" => accept::AcceptPolicy::RoundRobin,
        "own-stealing" => accept::AcceptPolicy::OwnWithStealing,
        _ => accept::AcceptPolicy::Locked,
    }
}

fn other(variant: &str) -> control::Other {
    match variant {
        "attach" => control::Other::Attach,
        "open" => control::Other::Open,
        _ => control::Other::Nothing,
    }
}

fn model(variant: &str) -> cores::Threads {
    match variant {
        "split" => cores::Threads::Split,
        "merge" => cores::Threads::Merge,
        _ => cores::Threads::Unified,
    }
}

fn interface(variant: &str) -> interfaces::Measure {
    let [events, tokens, futures, kernel] = interfaces::INTERFACES.map(|(_, measure)| measure);
    match variant {
        "tokens" => tokens,
        "futures" => futures,
        "kernel" => kernel,
        _ => events,
    }
}

fn stream(variant: &str) -> bulk::Way {
    match variant {
        "reference" => bulk::Way::Reference,
        "no-offloads" => bulk::Way::WithoutOffloads,
        _ => bulk::Way::Copy,
    }
}
