//! Servers and clients between hosts in one process, and the corpora of the fuzz targets.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod grant;
mod http;
mod inspect;
mod kv_workers;
mod lease;
mod load;
mod pair;
mod proxy;
mod replay_corpus;
mod workers;

use host::{App, Host, Remote, Threads, run_split};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// All thread models.
pub(crate) const MODELS: [Threads; 3] = [Threads::Unified, Threads::Split, Threads::Merge];

/// Waits for the host's ports, and runs a program on it in a thread model until `stop` is set.
pub(crate) fn drive<A: App + App<Remote> + Send>(
    host: &mut Host,
    app: &mut A,
    threads: Threads,
    stop: &Arc<AtomicBool>,
) {
    assert!(host.connect(stop));
    match threads {
        Threads::Unified => host.run(app, stop),
        other => run_split(host, app, other == Threads::Merge, &|_| (), stop).unwrap(),
    }
}
