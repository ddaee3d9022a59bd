//! Sends one frame out of an interface repeatedly, as fast as the kernel can. Sending takes less CPU time than any
//! switch takes to forward.
//!
//! The kernel sends by itself (`BPF_PROG_TEST_RUN` with live frames, Linux 5.18): a program of four instructions
//! redirects batches of frames to the interface. No socket buffer is allocated and no process is woken. Runs until
//! killed. Needs root.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use clap::Parser;
use wire::MacAddress;

/// Frame and interface.
#[derive(Debug, Parser)]
struct Arguments {
    /// Interface in the current network namespace
    interface: String,
    /// Destination MAC address
    to: MacAddress,
    /// Frame size in bytes, without checksum
    #[arg(long, default_value_t = 64)]
    size: usize,
}

/// Frames per system call; a signal ends the call. Each call starts and ends with milliseconds in which the kernel
/// patches its own code and sends nothing.
const REPEAT: u32 = u32::MAX;
/// Batch size in the kernel.
const BATCH: u32 = 64;
/// Bytes of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;

const PROGRAM_LOAD: i32 = 5;
const PROGRAM_TEST_RUN: i32 = 10;
const XDP_PROGRAM: u32 = 6;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE: u32 = 1 << 1;
/// `bpf_redirect`
const REDIRECT: u64 = 23;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let interface = rustix::net::netdevice::name_to_index(&socket, &arguments.interface)
        .with_context(|| format!("there is no interface {} here", arguments.interface))?;
    let frame = frame(arguments.to, arguments.size)?;
    let program = load(interface)?;
    loop {
        send(&program, &frame)?;
    }
}

/// A UDP datagram without checksum, with addresses reserved for benchmarks (RFC 2544).
fn frame(to: MacAddress, size: usize) -> Result<Vec<u8>> {
    if !(HEADERS..=1514).contains(&size) {
        bail!("frames of {size} bytes were asked for; {HEADERS} to 1514 are possible");
    }
    let (packet, datagram) = ((size - 14) as u16, (size - 34) as u16);
    let mut frame = [&to.octets()[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
    let mut header = [&[0x45, 0][..], &packet.to_be_bytes(), &[0, 0, 0x40, 0, 64, 17, 0, 0]].concat();
    header.extend([198, 18, 0, 1, 198, 18, 0, 2]);
    let sum = wire::checksum::Sum::of(&header).finish();
    header[10..12].copy_from_slice(&sum);
    frame.extend(header);
    frame.extend([0, 9, 0, 9]);
    frame.extend(datagram.to_be_bytes());
    frame.resize(size, 0);
    Ok(frame)
}

/// Loads an XDP program that redirects every frame to `interface`.
fn load(interface: u32) -> Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log: [u32; 4],
        rest: [u32; 8],
    }
    // r1 = interface; r2 = 0; call bpf_redirect; exit
    let code = [0x01b7 | u64::from(interface) << 32, 0x02b7, 0x85 | REDIRECT << 32, 0x95];
    let license = c"Apache-2.0 OR MIT";
    let (instructions, license) = (code.as_ptr() as u64, license.as_ptr() as u64);
    let count = code.len() as u32;
    let mut attributes = Load { kind: XDP_PROGRAM, count, instructions, license, log: [0; 4], rest: [0; 8] };
    // SAFETY: the struct has the layout of a prefix of BPF_PROG_LOAD; the pointers in it outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_LOAD, &raw mut attributes, size_of::<Load>()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()).context("the kernel does not take the program");
    }
    // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Makes the kernel send `REPEAT` frames.
fn send(program: &OwnedFd, frame: &[u8]) -> Result<()> {
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
        context: [u64; 3],
        flags: u32,
        cpu: u32,
        batch: u32,
        padding: u32,
    }
    let mut attributes = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        answer: 0,
        size_in: frame.len() as u32,
        size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: REPEAT,
        duration: 0,
        context: [0; 3],
        flags: LIVE,
        cpu: 0,
        batch: BATCH,
        padding: 0,
    };
    // SAFETY: the struct has the layout of BPF_PROG_TEST_RUN; the frame outlives the call; the kernel writes back only
    // fields of the struct.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_TEST_RUN, &raw mut attributes, size_of::<TestRun>()) };
    if done < 0 {
        return Err(std::io::Error::last_os_error()).context("the kernel does not send");
    }
    Ok(())
}
