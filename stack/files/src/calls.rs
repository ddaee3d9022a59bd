//! The same requests by blocking system calls.

use crate::{Block, Done, OPEN, Op, RESOLVE};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::{Errno, pread, retry_on_intr};
use std::path::Path;

pub(crate) fn perform<T>(root: &OwnedFd, op: Op<T>) -> Done<T> {
    match op {
        Op::Open { token, path } => {
            let open = || rustix::fs::openat2(root, path.as_c_str(), OPEN, Mode::empty(), RESOLVE);
            Done::Opened(token, retry_on_intr(open))
        }
        Op::Read { token, file, offset, len, mut block } => {
            let read = read(&file, offset, len as usize, &mut block);
            Done::Read(token, block, read)
        }
    }
}

fn read(file: &OwnedFd, offset: u64, len: usize, block: &mut Block) -> Result<usize, Errno> {
    let bytes = block.bytes_mut().and_then(|bytes| bytes.get_mut(..len)).ok_or(Errno::INVAL)?;
    let mut done = 0;
    while done < len {
        match retry_on_intr(|| pread(file, &mut bytes[done..], offset + done as u64))? {
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
