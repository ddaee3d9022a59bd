//! Requests on connected sockets of the kernel: answered by one system call each, by `io_uring`, and by `io_uring` with
//! a kernel thread that takes requests from the ring.
//!
//! Server and client run on one thread. Both are timed, because `io_uring` finishes a receive in the next system call
//! of the thread, also in one of the client.

use anyhow::{Context, Result, bail};
use files::{Block, Done, Files, Mode, Submission, directory};
use measure::pinning::pin;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for all replies of a round.
const LIMIT: Duration = Duration::from_mins(1);
/// Time without requests after which the kernel thread sleeps: longer than a round, also on a busy machine.
const IDLE: Duration = Duration::from_secs(1);

/// How the server receives and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `epoll_wait`, and one system call for each message.
    Calls,
    /// `io_uring`, entered by the server.
    Ring,
    /// `io_uring` with a kernel thread on the second CPU.
    Thread,
}

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// CPU of server and client, and CPU of the kernel thread.
    pub cpus: [usize; 2],
    /// Number of connections, each with one request in a round.
    pub connections: usize,
    /// Bytes of a request and of a reply.
    pub bytes: u32,
    /// Requests after the first round.
    pub requests: u64,
}

/// The server's ends of all connections.
struct Server {
    files: Files<usize>,
    sockets: Vec<Arc<OwnedFd>>,
    /// Memory of connections that have no request in the queue.
    blocks: Vec<Option<Block>>,
    /// Bytes of the current request that have arrived.
    received: Vec<usize>,
    bytes: u32,
    /// Sockets that can be read, for [`Way::Calls`].
    epoll: Option<OwnedFd>,
    /// Calls of `epoll_wait`.
    waits: u64,
}

impl Server {
    fn new(way: Way, plan: &Plan, folder: &Path, streams: Vec<TcpStream>) -> Result<Self> {
        let cpu = Some(u32::try_from(plan.cpus[1])?);
        let (mode, submission) = match way {
            Way::Calls => (Mode::Copy, Submission::Calls),
            Way::Ring => (Mode::Cached, Submission::Calls),
            Way::Thread => (Mode::Cached, Submission::Thread { idle: IDLE, cpu }),
        };
        let files = Files::new(directory(folder)?, mode, submission)?;
        if let Some(error) = files.refused() {
            bail!("the kernel refuses a thread for submissions: {error}");
        }
        let sockets: Vec<Arc<OwnedFd>> = streams.into_iter().map(|stream| Arc::new(stream.into())).collect();
        let (blocks, received) = (sockets.iter().map(|_| None).collect(), vec![0; sockets.len()]);
        let mut server = Self { files, sockets, blocks, received, bytes: plan.bytes, epoll: None, waits: 0 };
        if way == Way::Calls {
            server.epoll = Some(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        }
        for number in 0..server.sockets.len() {
            if let Some(epoll) = &server.epoll {
                let (data, flags) = (epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN);
                epoll::add(epoll, &server.sockets[number], data, flags)?;
            }
            server.idle(number, Block::new(plan.bytes as usize));
        }
        Ok(server)
    }

    /// System calls so far.
    fn calls(&self) -> u64 {
        self.files.calls() + self.waits
    }

    /// A connection waits for a request: in the ring, or until epoll reports it.
    fn idle(&mut self, number: usize, block: Block) {
        self.received[number] = 0;
        if self.epoll.is_some() {
            self.blocks[number] = Some(block);
        } else {
            self.files.receive(&self.sockets[number], self.bytes, block, number);
        }
    }

    /// Receives from the sockets that epoll reports.
    fn receive_ready(&mut self) -> Result<()> {
        let Some(epoll) = &self.epoll else { return Ok(()) };
        let mut events = Vec::with_capacity(self.sockets.len());
        self.waits += 1;
        epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()))?;
        for event in events {
            let number = event.data.u64() as usize;
            let block = self.blocks[number].take().context("a connection without memory")?;
            self.files.receive(&self.sockets[number], self.bytes, block, number);
        }
        Ok(())
    }

    /// Handles a result. Returns the number of replies that it completes.
    fn done(&mut self, done: Done<usize>) -> Result<usize> {
        match done {
            Done::Read(number, block, len) => {
                let (len, socket) = (len?, &self.sockets[number]);
                self.received[number] += len;
                match self.bytes - self.received[number] as u32 {
                    _ if len == 0 => bail!("the client closed a connection"),
                    0 => self.files.send(socket, self.bytes, block, number),
                    rest => self.files.receive(socket, rest, block, number),
                }
                Ok(0)
            }
            Done::Sent(number, block, len) => {
                if len? != self.bytes as usize {
                    bail!("a reply was sent in part");
                }
                self.idle(number, block);
                Ok(1)
            }
            Done::Opened(..) => bail!("a file was opened"),
        }
    }

    /// Answers one request of each connection.
    fn serve(&mut self) -> Result<()> {
        let (mut replies, begin) = (0, Instant::now());
        while replies < self.sockets.len() {
            self.receive_ready()?;
            self.files.submit();
            while let Some(done) = self.files.next_done() {
                replies += self.done(done)?;
            }
            if begin.elapsed() > LIMIT {
                bail!("only {replies} replies in {LIMIT:?}");
            }
        }
        // The receives of the next round.
        self.files.submit();
        Ok(())
    }
}

/// Connected sockets: those of the client, and those of the server.
fn connect(count: usize) -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let pair = |_| -> Result<_> {
        let client = TcpStream::connect(address)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok((client, server))
    };
    (0..count).map(pair).collect()
}

/// Nanoseconds per request of server and client, and the server's system calls per request.
///
/// # Errors
/// If the kernel does not permit `io_uring` or its thread, or does not answer.
pub fn measure(way: Way, plan: &Plan) -> Result<(f64, f64)> {
    pin(plan.cpus[0])?;
    let folder = tempfile::tempdir()?;
    let (mut clients, streams) = connect(plan.connections)?;
    let mut server = Server::new(way, plan, folder.path(), streams)?;
    let (message, mut reply) = (vec![7; plan.bytes as usize], vec![0; plan.bytes as usize]);
    let mut round = |server: &mut Server| -> Result<()> {
        for client in &mut clients {
            client.write_all(&message)?;
        }
        server.serve()?;
        for client in &mut clients {
            client.read_exact(&mut reply)?;
        }
        Ok(())
    };
    round(&mut server)?;
    let (begin, before) = (Instant::now(), server.calls());
    let rounds = plan.requests.div_ceil(plan.connections as u64);
    for _ in 0..rounds {
        round(&mut server)?;
    }
    let requests = (rounds * plan.connections as u64) as f64;
    Ok((begin.elapsed().as_nanos() as f64 / requests, (server.calls() - before) as f64 / requests))
}
