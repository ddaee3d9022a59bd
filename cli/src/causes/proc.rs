//! Files of `/proc` and `/sys` about the process of the switch and about CPUs: times of threads, sockets, frequencies.
//!
//! Everything is read below a given directory. Files change while they are read and processes end: missing and
//! malformed entries are left out.

use crate::host::thread_stat;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Maximum number of threads that are read.
const MAX_THREADS: usize = 100_000;

/// Times of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) pid: u32,
    /// Names of process and thread.
    pub(crate) process: String,
    pub(crate) name: String,
    /// The CPU on which it ran last.
    pub(crate) cpu: usize,
    /// Nanoseconds for which it ran.
    pub(crate) ran: u64,
}

/// Times of one CPU in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) busy: u64,
    pub(crate) idle: u64,
    pub(crate) stolen: u64,
}

/// Times at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) threads: BTreeMap<u32, ThreadTimes>,
    pub(crate) cpus: BTreeMap<usize, CpuTimes>,
    /// Nanoseconds for which workers could run and did not, by index.
    pub(crate) waited: BTreeMap<usize, u64>,
    /// CPUs of workers, by index.
    pub(crate) workers: BTreeMap<usize, usize>,
}

impl Times {
    /// Reads the times of all threads, of all CPUs and of the workers of process `pid`.
    pub(crate) fn read(root: &Path, pid: u32) -> Self {
        let mut times = Self { cpus: cpus(&root.join("proc/stat")), ..Self::default() };
        let processes = numbers(&root.join("proc"));
        for (process, tid) in processes.iter().flat_map(|process| tasks(root, *process)).take(MAX_THREADS) {
            let folder = root.join(format!("proc/{process}/task/{tid}"));
            let Some(mut thread) = thread(&folder) else { continue };
            (thread.pid, thread.process) = (process, trimmed(&root.join(format!("proc/{process}/comm"))));
            let index = thread.name.strip_prefix("worker-").and_then(|index| index.parse().ok());
            let [ran, waited] = scheduled(&folder).unwrap_or_default();
            thread.ran = ran;
            if let Some(index) = index.filter(|_| process == pid) {
                times.waited.insert(index, waited);
                times.workers.insert(index, thread.cpu);
            }
            times.threads.insert(tid, thread);
        }
        times
    }
}

/// Entries of a directory whose names are numbers.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Threads of a process.
fn tasks(root: &Path, process: u32) -> Vec<(u32, u32)> {
    let tasks = numbers(&root.join(format!("proc/{process}/task")));
    tasks.into_iter().map(|task| (process, task)).collect()
}

fn trimmed(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn thread(folder: &Path) -> Option<ThreadTimes> {
    let (name, fields) = thread_stat(folder)?;
    // The first field here is the third of the file.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ThreadTimes { name, cpu: field(39)? as usize, ..ThreadTimes::default() })
}

/// Nanoseconds for which a thread ran, and for which it waited on run queues: fields of `schedstat`.
fn scheduled(folder: &Path) -> Option<[u64; 2]> {
    let text = fs::read_to_string(folder.join("schedstat")).ok()?;
    let mut fields = text.split_whitespace().map_while(|field| field.parse().ok());
    Some([fields.next()?, fields.next()?])
}

/// Parses `/proc/stat`.
fn cpus(path: &Path) -> BTreeMap<usize, CpuTimes> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let times: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let time = |index: usize| times.get(index).copied().unwrap_or(0);
        let busy = [0, 1, 2, 5, 6].into_iter().map(time).sum();
        Some((number, CpuTimes { busy, idle: time(3) + time(4), stolen: time(7) }))
    };
    text.lines().filter_map(cpu).collect()
}

/// The frequency governor of a CPU.
pub(crate) fn governor(root: &Path, cpu: usize) -> Option<String> {
    let path = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    Some(trimmed(&path)).filter(|governor| !governor.is_empty())
}

/// Number of reserved huge pages.
pub(crate) fn huge_pages(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Total:"))?;
    line.trim().parse().ok()
}

/// A listening Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) path: PathBuf,
    pub(crate) is_own: bool,
}

/// The listening Unix sockets in the network namespace of process `pid`; `None` if they cannot be read, or if it is
/// not known which of them are its own.
pub(crate) fn listeners(root: &Path, pid: u32) -> Option<Vec<Listener>> {
    let own = sockets(&root.join(format!("proc/{pid}/fd")))?;
    let text = fs::read(root.join(format!("proc/{pid}/net/unix"))).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Some(text.lines().filter_map(|line| listener(line, &own)).collect())
}

/// Numbers of the sockets that a process has open.
fn sockets(folder: &Path) -> Option<BTreeSet<u64>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let number = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    Some(links.filter_map(number).collect())
}

/// Parses a line of `/proc/net/unix`: number, references, protocol, flags, type, state, inode and path.
fn listener(line: &str, own: &BTreeSet<u64>) -> Option<Listener> {
    /// The socket listens (`__SO_ACCEPTCON` of the kernel).
    const LISTENS: u32 = 1 << 16;
    let mut words = line.split_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let inode: u64 = words.nth(2)?.parse().ok()?;
    let path = line.split_once(&format!(" {inode} "))?.1;
    (flags & LISTENS != 0).then(|| Listener { path: path.into(), is_own: own.contains(&inode) })
}

/// Access to the file of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketFile {
    pub(crate) owner: u32,
    pub(crate) mode: u32,
}

/// The file of a socket; `None` if there is none.
///
/// # Errors
/// It cannot be known.
pub(crate) fn socket_file(path: &Path) -> std::io::Result<Option<SocketFile>> {
    let file = |found: fs::Metadata| SocketFile { owner: found.uid(), mode: found.mode() };
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found).filter(|found| found.file_type().is_socket()).map(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `stat` of a thread with a name and a CPU, which is field 39.
    fn stat(name: &str, cpu: u32) -> String {
        format!("7 ({name}) R {} {cpu} {}", ["0"; 35].join(" "), ["0"; 10].join(" "))
    }

    #[test]
    fn times_are_read_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/stat", "cpu 1 2\ncpu0 1 2 3 40 5 6 7 8 0 0\ncpu1 x\nintr 1\n");
        write(root, "proc/7/comm", "linerate\n");
        write(root, "proc/7/task/7/stat", &stat("linerate", 0));
        write(root, "proc/7/task/8/stat", &stat("worker-3", 1));
        write(root, "proc/7/task/8/schedstat", "100 250 3\n");
        write(root, "proc/9/comm", "a (b) c\n");
        write(root, "proc/9/task/9/stat", &stat("worker-0) (x", 5));
        write(root, "proc/11/task/11/stat", "11 (broken) R 1\n");
        let times = Times::read(root, 7);
        assert_eq!(times.cpus[&0], CpuTimes { busy: 19, idle: 45, stolen: 8 });
        assert_eq!((times.waited, times.workers), ([(3, 250)].into(), [(3, 1)].into()));
        let named: Vec<_> = times.threads.values().map(|t| (t.name.as_str(), t.cpu, t.ran, t.pid)).collect();
        assert_eq!(named, [("linerate", 0, 0, 7), ("worker-3", 1, 100, 7), ("worker-0) (x", 5, 0, 9)]);
    }

    #[test]
    fn frequencies_and_pages_are_read_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!((governor(root, 1), huge_pages(root), listeners(root, 1)), (None, None, None));
        write(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        write(root, "proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:       4\n");
        assert_eq!((governor(root, 1).as_deref(), huge_pages(root)), (Some("powersave"), Some(4)));
    }

    #[test]
    fn listeners_of_this_process_are_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let found = listeners(Path::new("/"), std::process::id()).unwrap();
        let found: Vec<_> = found.into_iter().filter(|listener| listener.path == path).collect();
        assert_eq!(found, [Listener { path: path.clone(), is_own: true }]);
        let others = BTreeSet::new();
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 12186 /run/x y";
        assert_eq!(listener(line, &others), Some(Listener { path: "/run/x y".into(), is_own: false }));
        assert_eq!(listener(&line.replace("00010000", "00000000"), &others), None);
        assert_eq!(listener("Num RefCount Protocol Flags Type St Inode Path", &others), None);
        let owner = |path: &Path| socket_file(path).unwrap().map(|file| file.owner);
        assert_eq!(owner(&path), Some(rustix::process::getuid().as_raw()));
        assert_eq!((owner(dir.path()), owner(&dir.path().join("x"))), (None, None));
        assert!(socket_file(&path.join("x")).is_err(), "its folder is no folder");
    }
}
