//! Programs on completion queues, tokens and futures, between two hosts in one process and over sockets of the kernel.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod aio;
mod datagrams;
mod hosts;
mod queue;
mod tokens;
mod web;
