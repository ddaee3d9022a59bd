//! The TCP/IP stack for unmodified programs.
