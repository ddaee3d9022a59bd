//! A TCP server that returns what it receives, and its client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use counted::{answers, pair};
use host::Host;
use port::virtio_user::RingKind;
use serve::Echo;
use serve::load::{EchoLoad, Load, LoadOptions};
use stack::Endpoint;

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 7);
const CONNECTIONS: u32 = 16;
const REQUESTS: u64 = 20_000;

/// Sends requests of this many bytes, one at a time on each connection. Returns the number of replies.
pub(crate) fn answer(ring: RingKind, bytes: usize) -> Result<u64> {
    let mut hosts = pair::connected(ring)?;
    let [server, client] = hosts.as_mut_slice() else { bail!("two hosts are needed") };
    server.stack().listen(SERVER, stack::tcp::Options::default())?;
    let options = LoadOptions::closed(SERVER, CONNECTIONS, Duration::from_hours(1));
    let (workload, now) = (EchoLoad::new(u32::try_from(bytes)?, false), client.now());
    let mut load = Load::new(workload, options, Arc::default(), client.stack(), now)?;
    let (limit, mut echo) = ((Instant::now(), Duration::from_mins(1)), Echo::default());
    answers::until((server, client), &mut load, REQUESTS, limit, |server| serve_part(server, &mut echo))?;
    Ok(load.answered())
}

/// Counted by callgrind: the server's rounds until it has answered all requests that arrived.
#[inline(never)]
fn serve_part(server: &mut Host, app: &mut Echo) {
    while server.poll(app) {}
}
