//! Cost of the interfaces of the TCP/IP stack: an echo server on events, on tokens and on futures over a vhost-user
//! port, and on tokens over sockets of the kernel. Server and client run on one thread.

use anyhow::{Result, bail};
use api::aio::{Handle, Runtime, TcpListener};
use api::token::{Device, Kernel, Outcome, Ports, Queue, Queues};
use counted::pair;
use host::Host;
use serve::Echo;
use serve::load::{EchoLoad, Load, LoadOptions};
use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

const PORT: u16 = 7;
pub(super) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 100, 0, 1)), PORT);
/// Time after which a run fails.
const LIMIT: Duration = Duration::from_mins(1);

/// Searches for a free port.
const TRIES: u32 = 10;

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of connections.
    pub connections: u32,
    /// Bytes of a request and of a reply.
    pub bytes: usize,
    /// Requests, after a tenth of them.
    pub requests: u64,
}

/// One side: runs until it has nothing to do. Returns the number of replies so far; the server's is not used.
pub(super) type Side<'a> = &'a mut dyn FnMut() -> u64;

/// Nanoseconds per request in the server, after a tenth of the requests.
pub(super) fn measure(plan: Plan, client: Side, server: Side) -> Result<f64> {
    let begin = Instant::now();
    let (mut replies, mut before, mut served) = (0, None, Duration::ZERO);
    while replies < plan.requests + plan.requests / 10 {
        replies = client();
        if before.is_none() && replies >= plan.requests / 10 {
            (before, served) = (Some(replies), Duration::ZERO);
        }
        let start = Instant::now();
        server();
        served += start.elapsed();
        if begin.elapsed() > LIMIT {
            bail!("only {replies} replies in {LIMIT:?}");
        }
    }
    Ok(served.as_nanos() as f64 / (replies - before.unwrap_or_default()) as f64)
}

/// A closed loop of requests.
pub(super) fn load(client: &mut Host, plan: Plan) -> Result<Load<EchoLoad>> {
    let options = LoadOptions::closed(SERVER.into(), plan.connections, Duration::from_hours(1));
    let (workload, now) = (EchoLoad::new(u32::try_from(plan.bytes)?, false), client.now());
    Ok(Load::new(workload, options, Arc::default(), client.stack(), now)?)
}

/// Measures a server with a client on events.
fn beside(plan: Plan, client: &mut Host, server: Side) -> Result<f64> {
    let mut requests = load(client, plan)?;
    let mut client = || {
        while client.poll(&mut requests) {}
        requests.answered()
    };
    measure(plan, &mut client, server)
}

fn events(plan: Plan) -> Result<f64> {
    let (mut server, mut client) = pair::ends()?;
    server.stack().listen(SERVER.into(), stack::tcp::Options::default())?;
    let mut echo = Echo::default();
    let mut serve = || {
        while server.poll(&mut echo) {}
        0
    };
    beside(plan, &mut client, &mut serve)
}

/// Answers all requests that arrived.
pub(super) fn answer<D: Device>(queues: &mut Queues<D>, listener: Queue) -> u64 {
    while let Ok((_, queue, outcome)) = queues.wait_next(Some(Duration::ZERO)) {
        match outcome {
            Outcome::Accepted(accepted, _) => {
                queues.pop(accepted);
                queues.accept(listener);
            }
            Outcome::Popped(data) => {
                let pushed = queues.push(queue, data);
                queues.detach(pushed);
                queues.pop(queue);
            }
            Outcome::Finished | Outcome::Failed(_) => drop(queues.close(queue)),
            _ => {}
        }
    }
    0
}

fn tokens(plan: Plan) -> Result<f64> {
    let (server, mut client) = pair::ends()?;
    let mut queues = Queues::new(Ports::new(server));
    let listener = queues.listen(SERVER).map_err(std::io::Error::from)?;
    queues.accept(listener);
    beside(plan, &mut client, &mut || answer(&mut queues, listener))
}

async fn accept(net: Handle, served: Rc<Cell<u64>>) -> std::io::Result<()> {
    let listener = TcpListener::bind(&net, SERVER)?;
    loop {
        let (stream, served) = (listener.accept().await?.0, served.clone());
        let task = async move {
            while let Ok(Some(data)) = stream.read_slice().await {
                stream.write_slice(data).await?;
                served.set(served.get() + 1);
            }
            std::io::Result::Ok(())
        };
        net.spawn(task).detach();
    }
}

/// Completes when it is polled for the second time: after one round.
async fn one_round() {
    let mut is_second = false;
    let round = poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    round.await;
}

fn futures(plan: Plan) -> Result<f64> {
    let (server, mut client) = pair::ends()?;
    let (runtime, served) = (Runtime::new(server)?, Rc::new(Cell::new(0)));
    runtime.handle().spawn(accept(runtime.handle(), served.clone())).detach();
    let mut serve = || {
        let mut last = u64::MAX;
        while std::mem::replace(&mut last, served.get()) != served.get() {
            runtime.block_on(one_round());
        }
        0
    };
    beside(plan, &mut client, &mut serve)
}

/// Sends the next request on each connection whose reply is complete. Returns the number of complete replies.
pub(super) fn request(
    queues: &mut Queues<Kernel>,
    missing: &mut Vec<usize>,
    replies: &mut u64,
    plan: Plan,
) -> u64 {
    let message = vec![7; plan.bytes];
    while let Ok((_, queue, outcome)) = queues.wait_next(Some(Duration::ZERO)) {
        let at = queue.index();
        missing.resize(missing.len().max(at + 1), 0);
        match outcome {
            Outcome::Connected => {}
            Outcome::Popped(data) => {
                missing[at] -= data.len().min(missing[at]);
                *replies += u64::from(missing[at] == 0);
            }
            _ => continue,
        }
        if missing[at] == 0 {
            let data = queues.device().copy(&message);
            let pushed = queues.push(queue, data);
            queues.detach(pushed);
            missing[at] = plan.bytes;
        }
        queues.pop(queue);
    }
    *replies
}

/// Another program may take the port between the search and the call.
fn listen_at_free_port(queues: &mut Queues<Kernel>) -> Result<(SocketAddr, Queue)> {
    for _ in 0..TRIES {
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        if let Ok(listener) = queues.listen(free) {
            return Ok((free, listener));
        }
    }
    bail!("no port of 127.0.0.1 stays free in {TRIES} tries")
}

pub(super) fn kernel(plan: Plan) -> Result<f64> {
    let mut queues = Queues::new(Kernel::new()?);
    let (free, listener) = listen_at_free_port(&mut queues)?;
    queues.accept(listener);
    let (mut clients, mut missing, mut replies) = (Queues::new(Kernel::new()?), Vec::new(), 0);
    for _ in 0..plan.connections {
        clients.connect(free).map_err(std::io::Error::from)?;
    }
    let mut client = || request(&mut clients, &mut missing, &mut replies, plan);
    measure(plan, &mut client, &mut || answer(&mut queues, listener))
}

/// Nanoseconds per request of one interface.
pub type Measure = fn(Plan) -> Result<f64>;

/// All interfaces.
pub const INTERFACES: [(&str, Measure); 4] = [
    ("events, vhost-user", events),
    ("tokens, vhost-user", tokens),
    ("futures, vhost-user", futures),
    ("tokens, kernel sockets", kernel),
];
