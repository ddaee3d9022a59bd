//! System calls of `AF_XDP` without a wrapper crate: five bpf(2) commands and the mapping of rings.
//!
//! Each command passes the address of an attribute block, laid out as the prefix of the kernel's `union bpf_attr`
//! that the command reads, and addresses of buffers that outlive the call. Returned descriptors are new and
//! close-on-exec.

use super::assembler::Instruction;
use crate::interface::sys::last_error;
use core::ptr::NonNull;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;

/// `BPF_MAP_TYPE_XSKMAP`
const MAP_OF_SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`
const XDP_PROGRAM: u32 = 6;
/// `BPF_XDP`: attach type.
const AT_XDP: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`
const HAS_FRAGMENTS: u32 = 1 << 5;

/// Attach mode (`XDP_FLAGS_*_MODE` of `linux/if_link.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// Generic: by the kernel, for any driver.
    Generic = 1 << 1,
    /// Native: in the driver.
    Native = 1 << 2,
}

const NAME: [u8; 16] = *b"linerate\0\0\0\0\0\0\0\0";

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Executes a command that returns zero or a new descriptor.
///
/// # Safety
/// `T` must have the layout that the kernel expects for `command`, and the memory at the addresses in it must outlive
/// the call.
unsafe fn bpf<T>(command: i32, attributes: &mut T) -> Result<i64, Errno> {
    let at = std::ptr::from_mut(attributes);
    // SAFETY: the block has the length that is passed; the rest holds by the contract of this function.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    if answer < 0 { Err(last_error()) } else { Ok(answer) }
}

/// [`bpf`] for commands that return a descriptor.
///
/// # Safety
/// As for [`bpf`], and `command` must return a new descriptor.
unsafe fn bpf_open<T>(command: i32, attributes: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the contract of this function includes that of `bpf`.
    let answer = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just created the descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as i32) })
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Creates a map for the sockets of `queues` queues.
pub(super) fn create_map(queues: u32) -> Result<OwnedFd, Errno> {
    let mut attributes = MapCreate {
        kind: MAP_OF_SOCKETS,
        key_size: 4,
        value_size: 4,
        entries: queues,
        flags: 0,
        inner: 0,
        numa_node: 0,
        name: NAME,
    };
    // SAFETY: the layout is that of BPF_MAP_CREATE; it contains no address.
    unsafe { bpf_open(MAP_CREATE, &mut attributes) }
}

/// Stores `socket` in the map under its queue number.
pub(super) fn put_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let value = raw(socket);
    let mut attributes = MapUpdate {
        map: raw(map),
        padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: the layout is that of BPF_MAP_UPDATE_ELEM; key and value are on the stack and have four bytes each.
    unsafe { bpf(MAP_UPDATE, &mut attributes).map(drop) }
}

/// Loads a program; the kernel verifies it. `fragments` declares multi-buffer support.
pub(super) fn load(code: &[Instruction], fragments: bool) -> Result<OwnedFd, Errno> {
    let license = c"Apache-2.0 OR MIT";
    let mut attributes = ProgramLoad {
        kind: XDP_PROGRAM,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if fragments { HAS_FRAGMENTS } else { 0 },
        name: NAME,
        interface: 0,
        attach_type: AT_XDP,
    };
    // SAFETY: the layout is that of BPF_PROG_LOAD; instructions and license outlive the call.
    unsafe { bpf_open(PROGRAM_LOAD, &mut attributes) }
}

/// Attaches a program to an interface of this thread's network namespace while the returned link is open. The kernel
/// detaches the program when the process ends for any reason.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> Result<OwnedFd, Errno> {
    let mut attributes =
        LinkCreate { program: raw(program), interface, attach_type: AT_XDP, flags: hook as u32 };
    // SAFETY: the layout is that of BPF_LINK_CREATE for XDP; it contains no address.
    unsafe { bpf_open(LINK_CREATE, &mut attributes) }
}

/// Runs the program on a frame and returns its result.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> Result<u32, Errno> {
    #[repr(C)]
    struct TestRun {
        program: u32,
        answer: u32,
        size_in: u32,
        size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }
    let (program, size_in, data_in) = (raw(program), frame.len() as u32, frame.as_ptr() as u64);
    let mut attributes =
        TestRun { program, answer: 0, size_in, size_out: 0, data_in, data_out: 0, repeat: 1, duration: 0 };
    // SAFETY: the layout is that of BPF_PROG_TEST_RUN; the frame outlives the call, and the kernel writes only the
    // result.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes)? };
    Ok(attributes.answer)
}

/// Mapping of a ring's kernel memory; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is process-wide memory and is accessed only through atomics and raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes at `offset` of `socket`.
    pub(super) fn new(socket: impl AsFd, offset: u64, len: usize) -> Result<Self, Errno> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a fresh mapping at an address chosen by the kernel replaces nothing.
        let start =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, flags, socket, offset)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len })
    }

    /// Address of byte `offset`. Returns an error if fewer than `len` bytes follow it.
    pub(super) fn at(&self, offset: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Errno::RANGE);
        }
        // SAFETY: the offset was just checked to be inside the mapping.
        Ok(unsafe { self.start.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self`, and rings hold it while they use it. An error means that the range
        // was not mapped; there is nothing to undo.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
