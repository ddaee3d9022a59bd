//! The TCP/IP stack as a service for other threads and processes.
