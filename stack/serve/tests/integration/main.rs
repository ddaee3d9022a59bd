//! Servers and clients between hosts in one process, and the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod grant;
mod http;
mod inspect;
mod kv_workers;
mod load;
mod pair;
mod proxy;
mod replay_corpus;
mod workers;
