//! The same requests by blocking system calls.

use crate::{Block, Done, OPEN, Op, RESOLVE};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::{Errno, pread, retry_on_intr};
use rustix::net::SendFlags;
use std::path::Path;

/// Performs a request and adds the number of its system calls to `calls`.
pub(crate) fn perform<T>(root: &OwnedFd, op: Op<T>, calls: &mut u64) -> Done<T> {
    match op {
        Op::Open { token, path } => {
            let open = || {
                *calls += 1;
                rustix::fs::openat2(root, path.as_c_str(), OPEN, Mode::empty(), RESOLVE)
            };
            Done::Opened(token, retry_on_intr(open))
        }
        Op::Read { token, file, offset, len, mut block } => {
            let read = bytes(&mut block, len).and_then(|bytes| read(&file, offset, bytes, calls));
            Done::Read(token, block, read)
        }
        Op::Receive { token, socket, len, mut block } => {
            let received = bytes(&mut block, len).and_then(|bytes| {
                retry_on_intr(|| {
                    *calls += 1;
                    rustix::io::read(&socket, &mut *bytes)
                })
            });
            Done::Read(token, block, received)
        }
        Op::Send { token, socket, len, mut block } => {
            let sent = bytes(&mut block, len).and_then(|bytes| {
                retry_on_intr(|| {
                    *calls += 1;
                    rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL)
                })
            });
            Done::Sent(token, block, sent)
        }
    }
}

/// The first `len` bytes of a block.
fn bytes(block: &mut Block, len: u32) -> Result<&mut [u8], Errno> {
    block.bytes_mut().and_then(|bytes| bytes.get_mut(..len as usize)).ok_or(Errno::INVAL)
}

fn read(file: &OwnedFd, offset: u64, bytes: &mut [u8], calls: &mut u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let read = retry_on_intr(|| {
            *calls += 1;
            pread(file, &mut bytes[done..], offset + done as u64)
        });
        match read? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Opens a directory, to serve what is below it.
///
/// # Errors
/// If it does not exist, is not a directory, or may not be read.
pub fn directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}
