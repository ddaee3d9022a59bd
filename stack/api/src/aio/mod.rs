//! Asynchronous Rust over a host: TCP streams, UDP sockets and timers for tasks on the host's thread.
//!
//! A [`Runtime`] owns a host and an executor. [`Runtime::block_on`] alternates between tasks that are ready and rounds
//! of the host, and sleeps when there is neither. Tasks are not sent to other threads, but a waker may be used on any:
//! it ends the sleep. [`TcpStream`] implements `futures_io::{AsyncRead, AsyncWrite}`, and with the feature `hyper` also
//! `hyper::rt::{Read, Write}`.
//!
//! Dropping a future or an object cancels it: a dropped connection attempt ends, a dropped stream is closed, or reset
//! if received data was not read, as a socket of the kernel is. At most one task waits for each direction of a stream,
//! for a listener, and for a socket: a second one replaces the first, which is not woken any more.
//!
//! ```no_run
//! use api::aio::{Handle, Runtime, TcpListener};
//!
//! async fn echo(net: Handle) -> std::io::Result<()> {
//!     let listener = TcpListener::bind(&net, "0.0.0.0:7".parse().map_err(std::io::Error::other)?)?;
//!     loop {
//!         let (stream, _) = listener.accept().await?;
//!         let connection = async move {
//!             while let Ok(Some(data)) = stream.read_slice().await {
//!                 stream.write_slice(data).await?;
//!             }
//!             std::io::Result::Ok(())
//!         };
//!         net.spawn(connection).detach();
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = host::Host::new(host::Options::new()?)?; // with ports and addresses
//! let runtime = Runtime::new(host)?;
//! runtime.block_on(echo(runtime.handle()))?;
//! # Ok(())
//! # }
//! ```

mod doorbell;
#[cfg(feature = "hyper")]
mod hyper;
mod runtime;
mod tcp;
mod timer;
mod udp;

pub use async_executor::Task;
pub use runtime::{Handle, Runtime};
pub use tcp::{TcpListener, TcpStream};
pub use timer::{Sleep, TimedOut};
pub use udp::UdpSocket;
