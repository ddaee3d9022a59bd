//! Implementation of the fuzz targets.
//!
//! Each module decodes arbitrary bytes as a script and runs it against one crate; `driver` is shared by the modules for
//! rings. A module depends only on its crate, because ordinary tests include the same files to replay the corpora on a
//! stable toolchain (`replay_corpus.rs` in `dataplane/ring/tests`, `dataplane/port/tests`, `dataplane/wire/tests` and
//! `net/flow/tests`).

pub mod device;
pub mod driver;
pub mod frame_actions;
pub mod frames;
pub mod neighbors;
pub mod queues;
pub mod race;
pub mod stack_pair;
pub mod stack_segments;

/// The simulated network and application of the stack's tests.
macro_rules! shared {
    ($($name:ident: $path:literal,)+) => {
        $(#[allow(dead_code, unused_imports, reason = "tests of the stack use the rest")]
        #[path = $path]
        mod $name;)+
    };
}

shared! {
    app: "../../stack/proto/tests/integration/app.rs",
    link: "../../stack/proto/tests/integration/link.rs",
    net: "../../stack/proto/tests/integration/net.rs",
    offload: "../../stack/proto/tests/integration/offload.rs",
    packet: "../../stack/proto/tests/integration/packet.rs",
    rng: "../../stack/proto/tests/integration/rng.rs",
    router: "../../stack/proto/tests/integration/router.rs",
    segment: "../../stack/proto/tests/integration/segment.rs",
}
