//! Grants: ports that applications request over a separate socket, which a separate thread serves.
//!
//! Every user may connect. The kernel names the user of a connection (`SO_PEERCRED`), and `policy` decides. A
//! connection has one request and one answer ([`crate::grant`]); if the answer grants a port, the same connection
//! carries the vhost-user protocol of the port, and the port is removed when it is closed: by the application, at its
//! death, or by the switch. At most [`MAX_PENDING`] applications that have no port wait for an answer, each for at most
//! the two timeouts. The control API has another socket and another thread, so applications cannot delay it otherwise
//! than by the ports that the policy allows.

use super::error::ApiError;
use super::server::{self, Role, Server};
use super::service::ApiService;
use crate::grant::{self, GrantAnswer, GrantRequest};
use crate::settings::access::Access;
use crate::settings::kinds::granted::{Granted, Holder};
use crate::socket_file::{self, SocketFile};
use console::Diagnostic;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Maximum number of connections without a port.
const MAX_PENDING: usize = 64;
/// Timeout for reading a request.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for writing an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two attempts to remove a port while an upgrade is prepared.
const END_PAUSE: Duration = Duration::from_millis(100);

/// Listens at `path`. Every user may connect.
pub(crate) fn listen(path: &Path) -> Result<(SocketFile, UnixListener), Diagnostic> {
    let place = format!("socket for grants {}", path.display());
    let remedy = "choose another path with `grants` in [switch]";
    let listening = socket_file::listen(path, &place, remedy)?;
    open_to_all(path, &place, remedy)?;
    Ok(listening)
}

/// Lets every user connect to the socket at `path`, which may be in a directory that other users can write to.
pub(super) fn open_to_all(path: &Path, place: &str, remedy: &str) -> Result<(), Diagnostic> {
    Access::new(Some("0666".to_owned()), None, None).apply(path, place, remedy)
}

/// Answers applications that connect to `listener`.
pub(crate) fn start(listener: UnixListener, service: Arc<ApiService>) -> Result<Server, Diagnostic> {
    Server::run(("grants", Role::Changes), listener, |listener, closed| serve(listener, service, closed))
}

async fn serve(
    listener: tokio::net::UnixListener,
    service: Arc<ApiService>,
    mut closed: oneshot::Receiver<()>,
) {
    let room = Arc::new(Semaphore::new(MAX_PENDING));
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (server::accept(&listener).await, place)
        };
        let (accepted, place) = tokio::select! {
            _ = &mut closed => return,
            next = next => next,
        };
        let Ok((stream, _)) = accepted else {
            // Usually no descriptor is available.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = service.clone();
        tokio::spawn(async move {
            let Ok((stream, granted)) = converse(stream, &service).await else { return };
            drop(place);
            if let Some(granted) = granted {
                closed_by_either(&stream).await;
                end(&service, &granted).await;
            }
        });
    }
}

/// Answers one request. Returns the connection, and the grant.
async fn converse(mut stream: UnixStream, service: &ApiService) -> io::Result<(UnixStream, Option<Granted>)> {
    let holder = holder(&stream)?;
    let request = timeout(READ_TIMEOUT, read(&mut stream)).await??;
    let granted = decide(&request, holder, &stream, service);
    let answer = match &granted {
        Ok(_) => GrantAnswer { status: 201, error: None },
        Err(error) => {
            let (status, error) = error.clone().status();
            GrantAnswer { status, error: Some(error) }
        }
    };
    match (&granted, &answer.error) {
        (Ok(granted), _) => info!(grant = granted.grant, %holder, "granted"),
        (_, error) => warn!(%holder, reason = error.as_ref().map(Diagnostic::in_one_line), "refused a port"),
    }
    let written = timeout(WRITE_TIMEOUT, stream.write_all(&grant::encode(&answer)?)).await;
    if !matches!(written, Ok(Ok(()))) {
        // The application has gone, or does not read.
        if let Ok(granted) = &granted {
            end(service, granted).await;
        }
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok((stream, granted.ok()))
}

fn holder(stream: &UnixStream) -> io::Result<Holder> {
    let peer = stream.peer_cred()?;
    Ok(Holder { pid: peer.pid().unwrap_or_default(), uid: peer.uid(), gid: peer.gid() })
}

async fn read(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).await?;
    let mut json = vec![0; grant::length(prefix)?];
    stream.read_exact(&mut json).await?;
    Ok(json)
}

/// Adds the port, on another descriptor of the connection. The front end of the application sends nothing before the
/// answer, so the port and this thread do not read at the same time.
fn decide(
    request: &[u8],
    holder: Holder,
    stream: &UnixStream,
    service: &ApiService,
) -> Result<Granted, ApiError> {
    let request: GrantRequest = serde_json::from_slice(request)
        .map_err(|error| ApiError::invalid("request", error, "send name, queue_pairs and memory"))?;
    let socket = stream.as_fd().try_clone_to_owned().map_err(|error| {
        ApiError::Failed(Diagnostic::failed("the switch", error, "raise its limit of open files"))
    })?;
    service.grant(&request, holder, socket)
}

/// Returns when the application or the port has closed the connection. The port reads the data of the application.
async fn closed_by_either(stream: &UnixStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // Waits for the next change.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

/// Removes the port of a grant whose connection is closed.
async fn end(service: &ApiService, granted: &Granted) {
    let ended = loop {
        match service.end_grant(granted) {
            // An upgrade refuses changes, until it fails or this process ends.
            Err(ApiError::Conflict(_)) => sleep(END_PAUSE).await,
            ended => break ended,
        }
    };
    match ended {
        Ok(()) => info!(grant = granted.grant, holder = %granted.holder, "ended"),
        Err(error) => {
            let (_, error) = error.status();
            warn!(grant = granted.grant, holder = %granted.holder, reason = error.in_one_line(), "ended with an error");
        }
    }
}
