//! An application with a stack of its own over a granted port. At the end of a reading the port is revoked, and the
//! application must end with the reason.

use super::control::load;
use anyhow::{Context, Result, bail};
use counted::pair;
use host::Host;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::VirtioUser;
use serve::{Echo, Server};
use stack::{Address, Endpoint};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENT: Address = Address::v4([10, 100, 0, 2]);
/// Time in which the application must end after its grant.
const LIMIT: Duration = Duration::from_secs(10);

/// One reading.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Replies per second.
    pub requests: f64,
    /// Time from the revocation to the end of the application.
    pub stop: Duration,
    /// Reason with which the application ended.
    pub reason: String,
}

/// The side of the switch, which is also the client, and the application, connected.
fn ends() -> Result<(Host, Host)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let now = Instant::now();
    let back = VhostUser::over(ours.into(), "application".into(), vhost_user::Options::default(), now)?;
    let front = VirtioUser::over(theirs.into(), "switch".into(), pair::options(), now)?;
    let mut client = pair::host(&[CLIENT], pair::CONNECTIONS, Box::new(back))?;
    let mut application = pair::host(&[pair::SERVER], pair::CONNECTIONS, Box::new(front))?;
    pair::settle(&mut [&mut client, &mut application]);
    Ok((client, application))
}

/// Sends requests to an echo server in the application, and revokes its port.
///
/// # Errors
/// If there are too few replies, or if the application does not end with its grant.
pub fn measure(requests: u64) -> Result<Reading> {
    let (mut client, mut application) = ends()?;
    let mut echo = Echo::default();
    echo.listen(application.stack(), Endpoint::new(pair::SERVER, 7))?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            application.run(&mut echo, &stop);
            (application.ended(), Instant::now())
        });
        let requests = load(&mut client, requests);
        let revoked = Instant::now();
        client.close();
        while !serving.is_finished() {
            if requests.is_err() || revoked.elapsed() > LIMIT {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let (reason, ended) = serving.join().map_err(|_| anyhow::anyhow!("the application panicked"))?;
        let requests = requests?;
        let reason = reason.context("the application did not notice the end of its grant")?;
        if !reason.contains("revoked") {
            bail!("the application ended, but not because of its grant: {reason}");
        }
        Ok(Reading { requests, stop: ended.saturating_duration_since(revoked), reason })
    })
}
