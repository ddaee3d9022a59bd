//! Tasks that connect to controllers, and those that accept connections.

use super::bridge::{Bridge, kind};
use super::session::{Stream, converse};
use super::status::Controller;
use super::tls::TlsError;
use crate::settings::openflow::Target;
use crate::socket_file;
use agent::Auxiliary;
use openflow::Version;
use rustix::net::sockopt::{set_socket_keepalive, set_socket_send_buffer_size};
use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// Maximum number of connections to one socket that listens; others wait.
pub(super) const MAX_SESSIONS: usize = 32;
/// Bytes that the kernel keeps for a peer. With more, it would report rarely that a slow peer reads.
const SEND_BUFFER: usize = 128 << 10;
/// Timeout for connecting, including the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// First pause between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two looks whether a main connection has agreed on a version.
const GREETING: Duration = Duration::from_millis(100);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that listens.
pub(super) enum Listener {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("no answer within {} s", CONNECT_TIMEOUT.as_secs())]
    Timeout,
}

/// Pauses between attempts: doubled up to a maximum, and short again once a connection has lasted longer than the
/// pause.
struct Backoff {
    pause: Duration,
    most: Duration,
}

impl Backoff {
    fn new(most: Duration) -> Self {
        Self { pause: FIRST_PAUSE.min(most), most }
    }

    fn next(&mut self, lasted: Duration) -> Duration {
        if lasted > self.pause {
            *self = Self::new(self.most);
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(self.most);
        pause
    }
}

/// Connects to a controller, again and again.
pub(super) async fn active(bridge: Rc<Bridge>, controller: Rc<Controller>) {
    let mut backoff = Backoff::new(bridge.settings().max_backoff.0);
    loop {
        controller.connecting();
        let connected = timeout(CONNECT_TIMEOUT, connect(&bridge, &controller.target)).await;
        let began = Instant::now();
        match connected.unwrap_or(Err(ConnectError::Timeout)) {
            Ok(stream) => run(&bridge, Some(&controller), &controller.target.to_string(), stream).await,
            Err(error) => controller.failed(&error.to_string()),
        }
        let pause = backoff.next(began.elapsed());
        controller.pausing(pause);
        sleep(pause).await;
    }
}

/// Runs the session of a connection to `peer`, and auxiliary ones if it is one to a controller.
async fn run(bridge: &Rc<Bridge>, controller: Option<&Rc<Controller>>, peer: &str, stream: Box<dyn Stream>) {
    let session = bridge.open(kind(controller.map(|controller| &controller.target)), peer);
    if let Some(controller) = controller {
        controller.opened(session.id);
    }
    if let Some(controller) = controller.filter(|controller| controller.target.is_active()) {
        for number in 1..=bridge.settings().auxiliary {
            let place = Auxiliary { main: session.id, number };
            spawn_local(auxiliary(bridge.clone(), controller.clone(), place));
        }
    }
    let reason = converse(stream, bridge, &session).await;
    let last = bridge.close(session.id);
    if let Some(controller) = controller {
        controller.closed(session.id, last.as_ref(), &reason);
    }
}

/// Connects to a controller once more, again and again, as long as its main connection is open. OpenFlow 1.0 has no
/// auxiliary connections.
async fn auxiliary(bridge: Rc<Bridge>, controller: Rc<Controller>, place: Auxiliary) {
    let mut backoff = Backoff::new(bridge.settings().max_backoff.0);
    while let Some(main) = bridge.session(place.main) {
        match main.version {
            Some(Version::V10) => return,
            Some(_) => {}
            None => {
                sleep(GREETING).await;
                continue;
            }
        }
        let began = Instant::now();
        // Without it, the main connection has all messages.
        if let Ok(Ok(stream)) = timeout(CONNECT_TIMEOUT, connect(&bridge, &controller.target)).await {
            let session = bridge.open_auxiliary(place, &controller.target.to_string());
            converse(stream, &bridge, &session).await;
            bridge.close(session.id);
        }
        sleep(backoff.next(began.elapsed())).await;
    }
}

async fn connect(bridge: &Bridge, target: &Target) -> Result<Box<dyn Stream>, ConnectError> {
    match target {
        Target::Host { host, port, tls } => {
            let stream = prepared(TcpStream::connect((host.as_str(), *port)).await?)?;
            if !tls {
                return Ok(Box::new(stream));
            }
            Ok(Box::new(bridge.tls()?.connect(host, stream).await?))
        }
        Target::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Target::Listen { .. } | Target::ListenSocket(_) => {
            Err(io::Error::from(io::ErrorKind::Unsupported).into())
        }
    }
}

/// Small messages are sent at once, and a peer that has gone or reads nothing is noticed.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    set_socket_keepalive(&stream, true)?;
    set_socket_send_buffer_size(&stream, SEND_BUFFER)?;
    Ok(stream)
}

/// Accepts connections, each of which is one session. `controller` is that of the configuration; `None` for the
/// management socket.
pub(super) async fn passive(bridge: Rc<Bridge>, controller: Option<Rc<Controller>>, listener: Listener) {
    let listener = match Accepting::new(listener) {
        Ok(listener) => listener,
        Err(error) => return controller.iter().for_each(|controller| controller.failed(&error.to_string())),
    };
    let room = Arc::new(Semaphore::new(MAX_SESSIONS));
    loop {
        let place = room.clone().acquire_owned().await;
        let Ok((stream, peer)) = listener.accept().await else {
            // Usually no descriptor is available.
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (bridge, controller) = (bridge.clone(), controller.clone());
        spawn_local(async move {
            let needs_tls = controller.as_ref().is_some_and(|controller| controller.target.uses_tls());
            match timeout(CONNECT_TIMEOUT, greeted(&bridge, stream, needs_tls)).await {
                Ok(Ok(stream)) => run(&bridge, controller.as_ref(), &peer, stream).await,
                Ok(Err(error)) => controller.iter().for_each(|c| c.failed(&error.to_string())),
                Err(_) => controller.iter().for_each(|c| c.failed("no TLS handshake")),
            }
            drop(place);
        });
    }
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Unix)
            }
        }
    }

    /// The next connection, with the address or the user and process of its other end.
    async fn accept(&self) -> io::Result<(Accepted, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Accepted::Tcp(prepared(stream)?), address.to_string()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = socket_file::peer(stream.peer_cred().ok().as_ref());
                Ok((Accepted::Unix(stream), peer))
            }
        }
    }
}

/// The stream of an accepted connection, after the handshake of TLS if it needs one.
async fn greeted(bridge: &Bridge, stream: Accepted, needs_tls: bool) -> Result<Box<dyn Stream>, TlsError> {
    match stream {
        Accepted::Tcp(stream) if needs_tls => Ok(Box::new(bridge.tls()?.accept(stream).await?)),
        Accepted::Tcp(stream) => Ok(Box::new(stream)),
        Accepted::Unix(stream) => Ok(Box::new(stream)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_doubled_up_to_the_maximum_and_begin_again_after_a_connection() {
        let seconds = |n| Duration::from_secs(n);
        let mut backoff = Backoff::new(seconds(8));
        let pauses: Vec<_> = (0..6).map(|_| backoff.next(Duration::ZERO).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8]);
        assert_eq!(backoff.next(seconds(8)), seconds(8), "it did not last longer than the pause");
        assert_eq!(backoff.next(seconds(9)), seconds(1));
        assert_eq!(Backoff::new(Duration::from_millis(1)).next(Duration::ZERO), Duration::from_millis(1));
    }

    #[test]
    fn clients_of_a_socket_file_are_their_user_and_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("br0.mgmt");
        let (_file, listener) = socket_file::listen(&path, "", "").unwrap();
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let accepted = runtime
            .block_on(async { Accepting::new(Listener::Unix(listener)).unwrap().accept().await.unwrap() });
        let (user, process) = (rustix::process::geteuid().as_raw(), std::process::id());
        assert_eq!(accepted.1, format!("user {user}, process {process}"));
    }
}
