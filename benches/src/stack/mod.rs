//! Measurements of the TCP/IP stack. A function takes one reading; programs of this crate and `linerate lab stack`
//! repeat and print them.

pub mod accept;
pub mod bulk;
pub mod control;
pub mod cores;
pub mod echo;
pub mod grants;
pub mod http;
pub mod interfaces;
pub mod proxy;
pub mod queue;
pub mod reads;
pub mod sockets;
pub mod storage;
pub mod transports;
