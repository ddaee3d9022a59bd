//! Settings of the HTTP server, and every limit of what clients can make it hold.

use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of header fields of a request.
pub(super) const MAX_FIELDS: usize = 64;
/// Receive window of a connection in bytes, which bounds its pipelined requests. Must exceed [`HttpLimits::head`].
pub const RECEIVE_BUFFER: u32 = 64 << 10;

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Directory of the files.
    pub directory: PathBuf,
    /// How files are read.
    pub files: files::Mode,
    /// How requests for files reach the kernel.
    pub submission: files::Submission,
    /// How the bodies of small files are kept.
    pub bodies: Bodies,
    /// Limits of requests and connections.
    pub limits: HttpLimits,
    /// Time limits.
    pub times: HttpTimes,
    /// Limits of memory for files.
    pub memory: FileLimits,
}

impl HttpOptions {
    /// Default settings for the files of a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            files: files::Mode::default(),
            submission: files::Submission::default(),
            bodies: Bodies::default(),
            limits: HttpLimits::default(),
            times: HttpTimes::default(),
            memory: FileLimits::default(),
        }
    }
}

/// How the bodies of small files are kept and sent. The alternatives to the default exist to be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bodies {
    /// Sent from the cache, with stored sums.
    #[default]
    Summed,
    /// Sent from the cache; sums are computed for each packet if the link does not.
    Plain,
    /// Copied for each response.
    Copied,
}

/// Limits of requests and connections.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Open connections. More are reset.
    pub connections: u32,
    /// Bytes of a request line.
    pub line: usize,
    /// Bytes of a request head.
    pub head: usize,
    /// Bytes of the content of a request, which are discarded.
    pub content: u64,
    /// Unacknowledged bytes of responses at which further requests of a connection wait.
    pub queued: u32,
    /// Requests of a connection that are answered before others have their turn.
    pub turn: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { connections: 16_384, line: 8_192, head: 16_384, content: 65_536, queued: 512 << 10, turn: 16 }
    }
}

/// Time limits of a connection, checked once per second.
#[derive(Clone, Debug)]
pub struct HttpTimes {
    /// From the first byte of a request to the end of its head or content.
    pub request: Duration,
    /// Without a request.
    pub idle: Duration,
    /// For the acknowledgement of at least [`HttpTimes::PROGRESS`] bytes.
    pub send: Duration,
    /// From the end of the last response to the client's end of the connection.
    pub linger: Duration,
}

impl HttpTimes {
    /// Bytes that a client must acknowledge within the time of `send`.
    pub const PROGRESS: u64 = 8_192;
}

impl Default for HttpTimes {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { request: seconds(10), idle: seconds(60), send: seconds(30), linger: seconds(5) }
    }
}

/// Limits of memory for files.
#[derive(Clone, Debug)]
pub struct FileLimits {
    /// Maximum length in bytes of a file that is kept in memory; at most [`FileLimits::MAX_SMALL`].
    pub small: u64,
    /// Bytes of all files that are kept, and of those evicted while packets refer to them.
    pub cache: u64,
    /// Number of files that are kept or open.
    pub entries: usize,
    /// Bytes of one read of a larger file: a multiple of 4096.
    pub block: usize,
    /// Blocks of all connections.
    pub blocks: usize,
    /// Blocks of one connection: being read, sent or unacknowledged.
    pub blocks_per_connection: usize,
}

impl FileLimits {
    /// Upper bound of `small`, so that a response fits into the send buffer behind others.
    pub const MAX_SMALL: u64 = 2 << 20;
}

impl Default for FileLimits {
    /// 256 MiB of files, and 64 MiB of blocks.
    fn default() -> Self {
        Self {
            small: 1 << 20,
            cache: 256 << 20,
            entries: 4_096,
            block: 128 << 10,
            blocks: 512,
            blocks_per_connection: 8,
        }
    }
}
