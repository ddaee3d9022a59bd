//! System calls of `AF_XDP` without a wrapper crate: the bpf(2) commands, and the mapping of rings and maps.
//!
//! Each command passes the address of an attribute block, laid out as the prefix of the kernel's `union bpf_attr`
//! that the command reads, and addresses of buffers that outlive the call. Returned descriptors are new and
//! close-on-exec.

use super::assembler::Instruction;
use crate::interface::sys::last_error;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

const MAP_CREATE: i32 = 0;
const MAP_LOOK_UP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const MAP_NEXT_KEY: i32 = 4;
const MAP_TAKE: i32 = 21;
const PROGRAM_LOAD: i32 = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;

/// Type of a map (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapKind {
    Array = 2,
    PerCpuHash = 5,
    LruHash = 9,
    Devices = 14,
    Sockets = 17,
}

/// `BPF_F_MMAPABLE`: the map's values can be mapped into memory.
pub(super) const MAPPABLE: u32 = 1 << 10;
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
struct MapElement {
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

/// A map of the kernel, with the sizes that the kernel reads and writes.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    key: usize,
    /// Size of a value in system calls: for maps with a value for each CPU, that of all of them.
    value: usize,
}

impl Map {
    /// Creates a map of `entries` entries with keys of `key` and values of `value` bytes, a value for each of `cpus`
    /// CPUs.
    pub(super) fn new(
        kind: MapKind,
        (key, value): (usize, usize),
        entries: u32,
        (flags, cpus): (u32, usize),
    ) -> Result<Self, Errno> {
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_size: key as u32,
            value_size: value as u32,
            entries,
            flags,
            inner: 0,
            numa_node: 0,
            name: NAME,
        };
        // SAFETY: the layout is that of BPF_MAP_CREATE; it contains no address.
        let fd = unsafe { bpf_open(MAP_CREATE, &mut attributes)? };
        Ok(Self { fd, key, value: if cpus > 1 { value.next_multiple_of(8) * cpus } else { value } })
    }

    /// Executes a command on a key, and a value that the kernel reads or writes.
    fn command(&self, command: i32, key: &[u8], value: *mut u8, flags: u64) -> Result<(), Errno> {
        if key.len() != self.key {
            return Err(Errno::INVAL);
        }
        let key = key.as_ptr() as u64;
        let mut attributes =
            MapElement { map: raw(self.fd.as_fd()), padding: 0, key, value: value as u64, flags };
        // SAFETY: the layout is that of the commands on elements; the key has the size of the map's keys, and each
        // caller passes a value of the size that the command reads or writes.
        unsafe { bpf(command, &mut attributes).map(drop) }
    }

    /// Adds or replaces an entry.
    pub(super) fn update(&self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        if value.len() != self.value {
            return Err(Errno::INVAL);
        }
        self.command(MAP_UPDATE, key, value.as_mut_ptr(), 0)
    }

    /// Reads an entry into `value`.
    pub(super) fn look_up(&self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        if value.len() != self.value {
            return Err(Errno::INVAL);
        }
        self.command(MAP_LOOK_UP, key, value.as_mut_ptr(), 0)
    }

    /// Reads an entry into `value` and removes it.
    pub(super) fn take(&self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        if value.len() != self.value {
            return Err(Errno::INVAL);
        }
        self.command(MAP_TAKE, key, value.as_mut_ptr(), 0)
    }

    /// Removes an entry.
    pub(super) fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        self.command(MAP_DELETE, key, core::ptr::null_mut(), 0)
    }

    /// Writes a key of the map to `key`; returns an error if the map is empty.
    pub(super) fn first_key(&self, key: &mut [u8]) -> Result<(), Errno> {
        if key.len() != self.key {
            return Err(Errno::INVAL);
        }
        let next = key.as_mut_ptr() as u64;
        let mut attributes =
            MapElement { map: raw(self.fd.as_fd()), padding: 0, key: 0, value: next, flags: 0 };
        // SAFETY: the layout is that of BPF_MAP_GET_NEXT_KEY; the kernel writes one key, whose size was just checked.
        unsafe { bpf(MAP_NEXT_KEY, &mut attributes).map(drop) }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Creates a map for the sockets of `queues` queues.
pub(super) fn create_map(queues: u32) -> Result<Map, Errno> {
    Map::new(MapKind::Sockets, (4, 4), queues, (0, 1))
}

/// Stores `socket` in the map under its queue number.
pub(super) fn put_socket(map: &Map, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    map.update(&queue.to_ne_bytes(), &mut raw(socket).to_ne_bytes())
}

/// Loads a program; the kernel verifies it. `fragments` declares multi-buffer support.
pub(super) fn load(code: &[Instruction], fragments: bool) -> Result<OwnedFd, Errno> {
    load_with(code, fragments, &mut [])
}

/// Loads a program that the verifier has rejected again, and returns the last lines of the verifier's log.
pub(super) fn explain(code: &[Instruction], fragments: bool) -> String {
    let mut log = vec![0; 1 << 20];
    // The result is known.
    let _ = load_with(code, fragments, &mut log);
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]).into_owned();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// Loads a program. The verifier writes to `log`, unless it is empty.
fn load_with(code: &[Instruction], fragments: bool, log: &mut [u8]) -> Result<OwnedFd, Errno> {
    let license = c"Apache-2.0 OR MIT";
    let mut attributes = ProgramLoad {
        kind: XDP_PROGRAM,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: if fragments { HAS_FRAGMENTS } else { 0 },
        name: NAME,
        interface: 0,
        attach_type: AT_XDP,
    };
    // SAFETY: the layout is that of BPF_PROG_LOAD; instructions, license and log outlive the call, and the log has the
    // length that is passed.
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

/// Runs the program on a frame and returns its result. The frame becomes what the program made of it.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &mut [u8]) -> Result<u32, Errno> {
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
    let (program, size, data) = (raw(program), frame.len() as u32, frame.as_mut_ptr() as u64);
    let mut attributes = TestRun {
        program,
        answer: 0,
        size_in: size,
        size_out: size,
        data_in: data,
        data_out: data,
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the layout is that of BPF_PROG_TEST_RUN; the frame outlives the call. The kernel copies the input before
    // it runs the program, and writes at most as many bytes.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes)? };
    Ok(attributes.answer)
}

/// Mapping of the kernel's memory of a ring or a map; unmapped on drop.
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

    /// The counter at word `index` of eight bytes; `None` if it is outside the mapping.
    pub(super) fn counter(&self, index: usize) -> Option<&AtomicU64> {
        let at = self.at(index.checked_mul(8)?, 8).ok()?;
        // SAFETY: the word is inside the mapping, which `self` holds and which begins at a page; an atomic may change
        // behind a reference.
        Some(unsafe { at.cast::<AtomicU64>().as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self`, and rings hold it while they use it. An error means that the range
        // was not mapped; there is nothing to undo.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
