//! A file as responses need it: validators, fields, and the body or a descriptor to read it from.

use super::limits::Bodies;
use super::status::Status;
use files::Block;
use host::Buffer;
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use rustix::io::Errno;
use stack::Slice;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Identity of a version of a file: device, inode, length, and times of modification and change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity([i128; 5]);

impl Identity {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: i128| i128::from(seconds) * 1_000_000_000 + nanos;
        // Its type is not the same in both back ends of rustix.
        let modified = nanos(stat.st_mtime, stat.st_mtime_nsec as i128);
        let changed = nanos(stat.st_ctime, stat.st_ctime_nsec as i128);
        Self([stat.st_dev.into(), stat.st_ino.into(), stat.st_size.into(), modified, changed])
    }
}

/// Validators that conditions are evaluated against.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Length in bytes.
    pub(super) len: u64,
    /// Time of modification in whole seconds.
    pub(super) modified: SystemTime,
    /// Entity tag, strong.
    pub(super) tag: String,
}

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Body {
    /// In memory, of which `owner` is a further handle.
    Memory { data: Slice<Buffer>, owner: Arc<[u8]> },
    /// Read in blocks.
    Blocks(Arc<OwnedFd>),
}

/// A file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) identity: Identity,
    pub(super) facts: Facts,
    /// Fields of its type.
    pub(super) fields: String,
    /// Fields of its validators.
    pub(super) validators: String,
    pub(super) body: Body,
}

/// Result of a lookup.
#[derive(Clone, Debug)]
pub(super) enum Found {
    File(Arc<Entry>),
    Directory,
    Missing(Status),
}

impl Entry {
    /// The file at `path`.
    pub(super) fn new(path: &[u8], stat: &Stat, body: Body) -> Self {
        let seconds = Duration::from_secs(stat.st_mtime.try_into().unwrap_or(0));
        let modified = SystemTime::UNIX_EPOCH + seconds;
        let (len, nanos) = (stat.st_size.cast_unsigned(), stat.st_mtime_nsec);
        let tag = format!("\"{:x}-{:x}-{:x}.{nanos:x}\"", stat.st_ino, len, seconds.as_secs());
        let date = httpdate::fmt_http_date(modified);
        Self {
            identity: Identity::of(stat),
            fields: format!("Content-Type: {}\r\nAccept-Ranges: bytes\r\n", content_type(path)),
            validators: format!("Last-Modified: {date}\r\nETag: {tag}\r\n"),
            facts: Facts { len, modified, tag },
            body,
        }
    }
}

impl Body {
    /// The first `len` bytes of a block.
    pub(super) fn memory(block: &Block, len: usize, bodies: Bodies) -> Self {
        let (owner, range) = block.share(0..len);
        let data = match bodies {
            Bodies::Summed => Slice::new(Buffer::summed(owner.clone(), range)).summed(),
            Bodies::Plain | Bodies::Copied => Slice::of(owner.clone().into(), range),
        };
        Self::Memory { data, owner }
    }
}

/// Media type of a file by the extension of its name. Text is UTF-8.
fn content_type(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let mime = mime_guess::from_path(Path::new(&*path)).first_or_octet_stream();
    let charset = if mime.type_() == mime_guess::mime::TEXT { "; charset=utf-8" } else { "" };
    format!("{}{charset}", mime.essence_str())
}

/// Status of a file that cannot be opened. A path out of the directory does not exist for a client.
pub(super) fn status_of(error: Errno) -> Status {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV | Errno::NXIO => {
            Status::NOT_FOUND
        }
        Errno::ACCESS | Errno::PERM => Status::FORBIDDEN,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::UNAVAILABLE,
        _ => Status::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_extension() {
        for (path, expected) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("a.CSS", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.png", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a", "application/octet-stream"),
            ("a.unknown-extension", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path.as_bytes()), expected, "{path}");
        }
    }
}
