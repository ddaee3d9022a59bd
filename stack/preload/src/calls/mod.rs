//! The exported functions.
//!
//! Each looks its descriptor up and passes those of the kernel on. Arguments are the program's and as valid as the C
//! library requires of them.
#![allow(unreachable_pub, reason = "the linker exports these functions by their names")]

mod batches;
mod descriptors;
mod dprintf;
mod names;
mod receive;
mod send;
mod sockets;
mod stdio;
