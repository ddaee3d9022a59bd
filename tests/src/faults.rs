//! Failing system calls of a process, by the library of `tests/faults`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::binary;

/// Places of the file that the library maps (`tests/faults/src/plan.rs`).
const NAME: usize = 16;
const LEFT: u64 = 16;
const ERROR: u64 = 24;
const FAILED: u64 = 32;
const OF_WORKERS: u64 = 40;
const OF_PROCESS: u64 = 48;
const SIZE: u64 = 56;

/// What happens instead of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error.
    Error(i32),
    /// The process ends by SIGKILL.
    Kill,
}

/// Processes whose calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// All that use the plan.
    All,
    /// One process.
    Process(u32),
    /// All but one process.
    AllBut(u32),
}

/// The calls that fail in the processes of one test.
#[derive(Debug)]
pub struct Faults {
    file: File,
    path: PathBuf,
}

impl Faults {
    /// No call fails yet.
    pub fn new(folder: &Path) -> Faults {
        let path = folder.join("faults");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("no file {}: {error}", path.display()));
        file.set_len(SIZE).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Faults { file, path }
    }

    /// Words of a command that runs `linerate` so that its calls can fail.
    pub fn command(&self) -> Vec<OsString> {
        let folder = binary::faults();
        let word = |name: &str, path: &Path| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        let library = word("LD_PRELOAD=", &folder.join("liblinerate_faults.so"));
        let plan = word("LINERATE_FAULTS=", &self.path);
        vec!["env".into(), library, plan, folder.join("linerate").into()]
    }

    /// Makes the `n`-th call of `function` from now on fail, of threads that are not workers. `*` is every function.
    pub fn arm(&self, function: &str, n: u64, fault: Fault) {
        self.arm_threads(function, n, fault, Victims::All, false);
    }

    /// [`Faults::arm`] for calls of some processes.
    pub fn arm_in(&self, victims: Victims, function: &str, n: u64, fault: Fault) {
        self.arm_threads(function, n, fault, victims, false);
    }

    /// [`Faults::arm`] for calls of workers.
    pub fn arm_workers(&self, function: &str, n: u64, fault: Fault) {
        self.arm_threads(function, n, fault, Victims::All, true);
    }

    fn arm_threads(&self, function: &str, n: u64, fault: Fault, victims: Victims, of_workers: bool) {
        self.disarm();
        let error = match fault {
            Fault::Error(error) => u64::from(error.unsigned_abs()),
            Fault::Kill => 1 << 32,
        };
        let process = match victims {
            Victims::All => 0,
            Victims::Process(process) => process.into(),
            Victims::AllBut(process) => u64::from(process) + (1 << 32),
        };
        self.write(OF_WORKERS, &u64::from(of_workers).to_ne_bytes());
        for (place, value) in [(LEFT, n), (ERROR, error), (FAILED, 0), (OF_PROCESS, process)] {
            self.write(place, &value.to_ne_bytes());
        }
        let mut name = [0; NAME];
        name.iter_mut().zip(function.bytes()).for_each(|(to, from)| *to = from);
        self.write(0, &name);
    }

    /// Lets all calls pass. Returns whether one has failed.
    pub fn disarm(&self) -> bool {
        self.write(0, &[0; NAME]);
        let mut failed = [0; 8];
        self.file.read_exact_at(&mut failed, FAILED).unwrap_or_else(|error| panic!("no plan: {error}"));
        u64::from_ne_bytes(failed) > 0
    }

    /// Lets all calls pass until [`Faults::resume`] with the result.
    pub fn pause(&self) -> [u8; NAME] {
        let mut name = [0; NAME];
        self.file.read_exact_at(&mut name, 0).unwrap_or_else(|error| panic!("no plan: {error}"));
        self.write(0, &[0; NAME]);
        name
    }

    /// Continues with the calls that [`Faults::pause`] has stopped.
    pub fn resume(&self, armed: [u8; NAME]) {
        self.write(0, &armed);
    }

    fn write(&self, place: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, place).unwrap_or_else(|error| panic!("no plan: {error}"));
    }
}
