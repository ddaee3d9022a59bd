//! The TCP/IP stack for programs in C.
