//! A switch between guests, and two TCP/IP stacks, on one thread: what the program of this package forwards while
//! callgrind counts instructions, and what benches measure.

pub mod answers;
pub mod guest;
mod memory;
pub mod pair;
pub mod rig;
pub mod stations;
pub mod uplink;
