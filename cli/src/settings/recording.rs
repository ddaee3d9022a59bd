//! Files that a port plays: read before the port is made, by a thread that may wait for a disk.

use super::kinds::PortKind;
use super::kinds::kind::Loaded;
use crate::remedy;
use ::port::pcap::Recording;
use console::Diagnostic;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Reads the file that a port of this kind plays, if it plays one. Waits for the disk.
pub(crate) fn load(kind: &PortKind) -> Result<Loaded, Diagnostic> {
    kind.plays().map(|(_, path)| read(path)).transpose()
}

fn read(path: &Path) -> Result<Arc<Recording>, Diagnostic> {
    let invalid = |error| remedy::invalid("", &error, "name another file");
    Recording::read(path).map(Arc::new).map_err(invalid)
}

/// Asynchronous variant for a caller that must not wait: a thread reads the file while the caller polls.
#[derive(Default)]
pub(crate) struct Loading {
    thread: Option<JoinHandle<Result<Loaded, Diagnostic>>>,
    /// Kept, so that a port that fails for another reason does not read its file again.
    loaded: Loaded,
}

impl Loading {
    /// Returns the content, or the reason why it is not available yet. After an error the next call starts again.
    pub(crate) fn poll(&mut self, kind: &PortKind) -> Result<Loaded, String> {
        let Some((_, path)) = kind.plays().filter(|_| self.loaded.is_none()) else {
            return Ok(self.loaded.clone());
        };
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => begin(kind).map_err(|e| format!("cannot start a thread for {}: {e}", path.display()))?,
        };
        if !thread.is_finished() {
            self.thread = Some(thread);
            return Err(format!("{} is being read", path.display()));
        }
        let ended =
            thread.join().map_err(|_| format!("reading {} ended without a result", path.display()))?;
        self.loaded = ended.map_err(|error| error.in_one_line())?;
        Ok(self.loaded.clone())
    }
}

fn begin(kind: &PortKind) -> std::io::Result<JoinHandle<Result<Loaded, Diagnostic>>> {
    let kind = kind.clone();
    std::thread::Builder::new().name("load".to_owned()).spawn(move || load(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config;
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn kind(path: &Path) -> PortKind {
        let body = json!({ "name": "a", "kind": "pcap", "read": path });
        let running = crate::settings::topology::Topology {
            switch: crate::settings::topology::SwitchSettings::default(),
            model: crate::settings::model::ModelSettings::default(),
            workers: vec![crate::settings::topology::WorkerSettings::default()],
            placement: None,
            bonds: Vec::new(),
            grants: Vec::new(),
            flows: crate::settings::flows::FileFlows::default(),
            mirrors: Vec::new(),
            underlays: Vec::new(),
            conntrack: crate::settings::conntrack::ConntrackSettings::default(),
            bridges: vec![crate::settings::topology::BridgeSettings::named("main")],
            ports: Vec::new(),
        };
        config::requests::new_port(&body, &running, Path::new("/nowhere/control")).unwrap().kind
    }

    /// Polls until there is a result; the time limit prevents the test from hanging.
    fn polled(loading: &mut Loading, kind: &PortKind) -> Result<Loaded, String> {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            match loading.poll(kind) {
                Err(why) if why.ends_with(" is being read") => assert!(Instant::now() < until, "{why}"),
                ended => return ended,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_file_is_read_by_another_thread_once_and_after_an_error_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcap");
        let (kind, mut loading) = (kind(&path), Loading::default());
        let why = polled(&mut loading, &kind).unwrap_err();
        assert!(why.contains("x.pcap cannot be read"), "{why}");
        let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 14, 14];
        std::fs::write(&path, [&header.map(u32::to_le_bytes).concat()[..], &[0; 14]].concat()).unwrap();
        let first = polled(&mut loading, &kind).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &loading.poll(&kind).unwrap().unwrap()));
    }

    #[test]
    fn a_kind_that_plays_no_file_is_ready_at_once() {
        assert!(Loading::default().poll(&PortKind::default()).unwrap().is_none());
    }
}
