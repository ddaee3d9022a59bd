//! The rounds of a client and a server of echo on one thread.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use host::Host;
use serve::load::{EchoLoad, Load};

/// Runs a client and a server until the client has this many replies. `serve` runs the rounds of the server. Returns an
/// error `limit` after `begin`.
pub fn until(
    (server, client): (&mut Host, &mut Host),
    load: &mut Load<EchoLoad>,
    replies: u64,
    (begin, limit): (Instant, Duration),
    mut serve: impl FnMut(&mut Host),
) -> Result<()> {
    while load.answered() < replies {
        while client.poll(load) {}
        serve(server);
        if begin.elapsed() > limit || load.error().is_some() {
            bail!("only {} replies in {:?}", load.answered(), begin.elapsed());
        }
    }
    Ok(())
}
