//! `liblinerate_preload.so`: sockets of the linerate stack for unmodified programs.
//!
//! Loaded by `LD_PRELOAD`, it replaces the socket calls of the C library. A TCP or UDP socket whose address is not a
//! loopback address becomes one of the service at `LINERATE_SERVICE`; every other descriptor passes to the C library.
//!
//! The program's descriptor is one end of a socket pair of the kernel whose readiness follows the socket of the service
//! ([`mirror`]). So poll, select, epoll, dup and close-on-exec need no replacement, and descriptors of both kinds can
//! be waited for together.
//!
//! Unsafe code: `real` (functions of the C library), `memory` and `address` (the program's pointers), and the exported
//! functions in `calls`. Must not call the program, and must not panic across the boundary to C.

mod address;
mod calls;
mod error;
mod groups;
mod memory;
mod mirror;
mod options;
mod real;
mod socket;
mod table;
mod world;
