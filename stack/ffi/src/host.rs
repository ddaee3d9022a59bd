//! The host: ports, a stack and a completion queue.

use crate::buffer::linerate_buffer;
use crate::call::{Failure, State, call, call_host, code, invalid};
use crate::pointer::{reference, store, wanted};
use crate::queue::linerate_completion;
use crate::workers::Worker;
use api::queue::{MAX_BATCH, Queue};
use engine::Polling;
use host::{BufferPool, FlowSteering, Host, Options, PoolLimits, SteeringOptions};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Interval between two looks at ports that are not ready.
const CONNECT_INTERVAL: Duration = Duration::from_millis(2);

/// Sleep when there is nothing to do (`linerate_options.polling`).
pub const LINERATE_ADAPTIVE: u32 = 0;
/// Never sleep: the lowest latency, at the price of a CPU.
pub const LINERATE_BUSY: u32 = 1;

/// The host that the hash of its flow selects has a connection or datagram (`linerate_workers_new`). For every port.
pub const LINERATE_HASH: u32 = 0;
/// The host at whose queue its packets arrive has a connection or datagram. For network cards with receive-side
/// scaling, which keep a flow on one queue.
pub const LINERATE_ARRIVAL: u32 = 1;

/// Maximum number of hosts that share ports.
pub const LINERATE_MAX_WORKERS: usize = 32;

const _: () = assert!(LINERATE_MAX_WORKERS == host::MAX_WORKERS);

/// Settings of a host. Zero selects the default of a field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linerate_options {
    /// LINERATE_ADAPTIVE or LINERATE_BUSY.
    pub polling: u32,
    /// Time without work before an adaptive host sleeps, in nanoseconds; 50 microseconds by default.
    pub idle_ns: u32,
    /// Maximum number of connections; 65536 by default.
    pub connections: u32,
    /// Receive buffer of a connection in bytes; 1 MiB by default.
    pub receive_buffer: u32,
    /// Send buffer of a connection in bytes; 4 MiB by default.
    pub send_buffer: u32,
    /// If 1, received data is never copied: data that a peer of the port can still change is delivered without a
    /// pointer (`linerate_completion.data`) and read by linerate_buffer_read. By default, such data is copied once.
    pub keep_foreign: u32,
}

/// A host: ports, a TCP/IP stack and its completions. It must be used by one thread at a time, usually one for each
/// core. Hosts of linerate_host_new share nothing.
pub struct linerate_host {
    pub(crate) state: Cell<State>,
    pub(crate) inner: UnsafeCell<Inner>,
}

/// Context of a call.
pub(crate) struct Inner {
    pub(crate) queue: Queue,
    /// The batch that the program reads, and the data that it refers to. Neither grows beyond its capacity, so both
    /// keep their addresses.
    pub(crate) batch: Vec<linerate_completion>,
    pub(crate) data: Vec<linerate_buffer>,
    pub(crate) pool: BufferPool,
    pub(crate) keep_foreign: bool,
    /// Present if its ports are shared with other hosts. Dropped after the queue, which uses them.
    pub(crate) worker: Option<Worker>,
    /// Maximum length of data in one call.
    pub(crate) send_buffer: u32,
}

fn settings(options: &linerate_options) -> Result<Options, Failure> {
    let mut settings = Options::new()
        .map_err(|error| Failure::new(code::NO_DEVICE, format_args!("no random bytes: {error}"), "retry"))?;
    settings.polling = match options.polling {
        LINERATE_ADAPTIVE => Polling::Adaptive,
        LINERATE_BUSY => Polling::Busy,
        other => {
            let reason = format_args!("options.polling is {other}");
            return Err(invalid(reason, "pass LINERATE_ADAPTIVE or LINERATE_BUSY"));
        }
    };
    if options.keep_foreign > 1 {
        return Err(invalid(format_args!("options.keep_foreign is {}", options.keep_foreign), "pass 0 or 1"));
    }
    if options.idle_ns > 0 {
        settings.idle = Duration::from_nanos(options.idle_ns.into());
    }
    let limits = &mut settings.stack.limits;
    for (limit, value) in [
        (&mut limits.connections, options.connections),
        (&mut limits.receive_buffer, options.receive_buffer),
        (&mut limits.send_buffer, options.send_buffer),
    ] {
        *limit = if value == 0 { *limit } else { value };
    }
    Ok(settings)
}

/// Creates a host without ports, which takes a tenth of a second. `options` may be NULL for the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_host_new(
    options: *const linerate_options,
    host: *mut *mut linerate_host,
) -> c_int {
    call(|| {
        wanted(host, "host")?;
        // SAFETY: null or valid, by the contract of the interface.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let made = Host::new(settings(&options)?)
            .map_err(|error| Failure::new(code::NO_MEMORY, error, "free memory"))?;
        // SAFETY: not null, so memory for a pointer by the contract of the interface.
        unsafe { store(host, boxed(made, &options, None)) };
        Ok(0)
    })
}

/// Creates `count` hosts, 1 to LINERATE_MAX_WORKERS, for as many threads, and stores them at `hosts`. They have the
/// same addresses and share their ports. Each must call the same functions linerate_open_... in the same order: the
/// first call opens the port, the others join it, and the settings of the first call hold. Addresses, routes, listeners
/// and UDP sockets are those of one host and are added to each; DHCP gives its lease to all if it is started on the
/// first. `steering` is LINERATE_HASH or LINERATE_ARRIVAL. Once a port is open, all hosts must be used: each serves its
/// own connections, and packets for a host whose thread does not wait are lost after some time. The port is closed with
/// the last host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_workers_new(
    options: *const linerate_options,
    count: usize,
    steering: u32,
    hosts: *mut *mut linerate_host,
) -> c_int {
    call(|| {
        wanted(hosts, "hosts")?;
        if !(1..=LINERATE_MAX_WORKERS).contains(&count) {
            return Err(invalid(format_args!("count is {count}"), "pass 1 to LINERATE_MAX_WORKERS"));
        }
        let rule = match steering {
            LINERATE_HASH => FlowSteering::Hash,
            LINERATE_ARRIVAL => FlowSteering::Arrival,
            other => {
                let reason = format_args!("steering is {other}");
                return Err(invalid(reason, "pass LINERATE_HASH or LINERATE_ARRIVAL"));
            }
        };
        // SAFETY: null or valid, by the contract of the interface.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let steering = SteeringOptions { rule, ..SteeringOptions::default() };
        let made = host::hosts(count, &settings(&options)?, &steering)
            .map_err(|error| Failure::new(code::NO_MEMORY, error, "free memory"))?;
        for (index, (host, worker)) in made.into_iter().zip(Worker::all(count, rule)).enumerate() {
            // SAFETY: not null, so memory for `count` pointers by the contract of the interface.
            unsafe { store(hosts.add(index), boxed(host, &options, Some(worker))) };
        }
        Ok(0)
    })
}

/// A host as the program gets it.
fn boxed(host: Host, options: &linerate_options, worker: Option<Worker>) -> *mut linerate_host {
    let mut queue = Queue::new(host);
    let send_buffer = queue.stack().config().limits.send_buffer;
    let inner = Inner {
        queue,
        batch: Vec::with_capacity(MAX_BATCH),
        data: Vec::with_capacity(MAX_BATCH),
        pool: BufferPool::new(PoolLimits::default()),
        keep_foreign: options.keep_foreign == 1,
        worker,
        send_buffer,
    };
    let host = linerate_host { state: Cell::new(State::Idle), inner: UnsafeCell::new(inner) };
    Box::into_raw(Box::new(host))
}

/// Closes the ports of a host and frees it. Connections that are open end without a FIN. Does nothing for NULL. Must
/// not be called by a release function. Buffers that the program keeps stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_host_free(host: *mut linerate_host) -> c_int {
    call(|| {
        if host.is_null() {
            return Ok(0);
        }
        // SAFETY: not null, so a host by the contract of the interface.
        let state = unsafe { reference(host.cast_const(), "host") }?.state.get();
        if state == State::Busy {
            return Err(Failure::fixed(
                code::BUSY,
                c"the host is in use: a release function frees it; free it after the call",
            ));
        }
        // SAFETY: made by `Box::into_raw`, not in use, and not used again.
        let host = unsafe { Box::from_raw(host) };
        let Inner { queue, data, worker, .. } = host.inner.into_inner();
        drop(data);
        queue.into_host().close();
        drop(worker);
        Ok(0)
    })
}

/// Waits until all ports carry packets, at most `timeout_ms` milliseconds. Not required: a host serves the ports that
/// carry packets, and others once they do. Returns -ETIMEDOUT if a port does not; the text of the error has its state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_wait_ready(host: *mut linerate_host, timeout_ms: u32) -> c_int {
    let limit = Duration::from_millis(timeout_ms.into());
    // SAFETY: by the contract of the interface.
    unsafe { call_host(host, |inner| wait_ready(inner.queue.host(), limit)) }
}

fn wait_ready(host: &mut Host, limit: Duration) -> Result<c_int, Failure> {
    let began = Instant::now();
    loop {
        let now = host.now();
        host.control(now);
        let Some((name, state)) = host.not_ready() else { return Ok(0) };
        if began.elapsed() >= limit {
            let reason = format_args!("port {name} carries no packets: {state}");
            return Err(Failure::new(code::TIMED_OUT, reason, "start its peer, or wait longer"));
        }
        std::thread::sleep(CONNECT_INTERVAL);
    }
}
