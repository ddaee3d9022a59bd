//! Interfaces of the TCP/IP stack for programs on the same thread.
