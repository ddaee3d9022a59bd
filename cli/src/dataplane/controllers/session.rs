//! One connection: bytes between a socket and the agent.

use super::bridge::Bridge;
use agent::SessionId;
use std::cell::RefCell;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Bytes that are received at once.
const READ: usize = 16 << 10;
/// Longest time in which a peer may read nothing of a part of the output.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A byte stream to a peer.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// What other tasks tell the task of a connection.
pub(super) struct Session {
    pub(super) id: SessionId,
    wake: Notify,
    end: RefCell<Option<String>>,
}

impl Session {
    pub(super) fn new(id: SessionId) -> Self {
        Self { id, wake: Notify::new(), end: RefCell::default() }
    }

    /// Output may wait.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The connection must be closed, for `reason`.
    pub(super) fn end(&self, reason: &str) {
        self.end.replace(Some(reason.to_owned()));
        self.wake();
    }

    /// Returns when the connection must be closed, with the reason.
    async fn ended(&self) -> String {
        loop {
            self.wake.notified().await;
            if let Some(reason) = self.end.take() {
                return reason;
            }
        }
    }
}

/// Exchanges messages until the connection ends. Returns the reason.
pub(super) async fn converse(mut stream: Box<dyn Stream>, bridge: &Bridge, session: &Session) -> String {
    let mut buffer = vec![0; READ];
    loop {
        if let Err(reason) = send(stream.as_mut(), bridge, session).await {
            return reason;
        }
        let read = tokio::select! {
            () = session.wake.notified() => match session.end.take() {
                Some(reason) => return reason,
                None => continue,
            },
            read = stream.read(&mut buffer) => read,
        };
        let len = match read {
            Ok(0) => return "the peer closed the connection".to_owned(),
            Ok(len) => len,
            Err(error) => return error.to_string(),
        };
        if let Err(error) = bridge.receive(session.id, &buffer[..len]) {
            // Contains the reason for the peer. The connection ends with or without it.
            let _ = send(stream.as_mut(), bridge, session).await;
            return error.to_string();
        }
    }
}

/// Sends all output. Nothing is received meanwhile, so that a peer that does not read cannot make more of it.
async fn send(stream: &mut dyn Stream, bridge: &Bridge, session: &Session) -> Result<(), String> {
    loop {
        let was_full = bridge.is_full(session.id);
        let output = bridge.output(session.id);
        if output.is_empty() && !was_full {
            return Ok(());
        }
        let write = async {
            stream.write_all(&output).await?;
            stream.flush().await
        };
        let written = tokio::select! {
            written = timeout(WRITE_TIMEOUT, write) => written,
            reason = session.ended() => return Err(reason),
        };
        let written = written.map_err(|_| "the peer does not read its messages".to_owned())?;
        written.map_err(|error| error.to_string())?;
        if was_full {
            // Other sessions have their turn before messages that waited.
            tokio::task::yield_now().await;
            bridge.receive(session.id, &[]).map_err(|error| error.to_string())?;
        }
    }
}
