//! Reads a machine from sysfs (Documentation/admin-guide/cputopology.rst and ABI/stable/sysfs-devices-node).
//!
//! A missing optional file is not an inconsistency: kernels without NUMA have no nodes, and virtual machines may have
//! no caches. An existing file with invalid content is an inconsistency.

use super::{Cache, CacheKind, Cpu, Inconsistency, Machine, Node, list};
use std::io::Read;
use std::path::Path;

/// Maximum number of bytes read, far more than any of these files has.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of caches read per CPU.
const CACHES: usize = 16;

/// Reads files below a root and collects inconsistencies.
struct Reader<'a> {
    root: &'a Path,
    inconsistencies: Vec<Inconsistency>,
}

pub(super) fn machine(root: &Path, allowed: &[usize]) -> Machine {
    let mut reader = Reader { root, inconsistencies: Vec::new() };
    let online = reader.online(allowed);
    let isolated = reader.optional_list("devices/system/cpu/isolated");
    let offline = reader.optional_list("devices/system/cpu/offline");
    let nodes = reader.nodes(&online);
    let cpus: Vec<Cpu> = online.iter().map(|&number| reader.cpu(number, &online, &nodes)).collect();
    let cpus = cpus.into_iter().map(|cpu| Cpu {
        isolated: isolated.contains(&cpu.number),
        allowed: allowed.contains(&cpu.number),
        ..cpu
    });
    let cpus = cpus.collect();
    let caches = reader.caches(&online);
    Machine { cpus, offline, nodes, caches, inconsistencies: reader.inconsistencies }
}

impl Reader<'_> {
    fn inconsistency(&mut self, file: &str, reason: impl Into<String>, instead: impl Into<String>) {
        self.inconsistencies.push(Inconsistency {
            file: file.to_owned(),
            reason: reason.into(),
            instead: instead.into(),
        });
    }

    /// Content of a file; `None` if it does not exist.
    fn text(&self, file: &str) -> Result<Option<String>, String> {
        text(&self.root.join(file))
    }

    /// Online CPUs: the kernel's list, otherwise the affinity mask, otherwise CPU 0.
    fn online(&mut self, allowed: &[usize]) -> Vec<usize> {
        let file = "devices/system/cpu/online";
        let reason = match self.list(file) {
            Ok(Some(cpus)) if !cpus.is_empty() => return cpus,
            Ok(Some(_)) => "it is empty".to_owned(),
            Ok(None) => "it does not exist".to_owned(),
            Err(reason) => reason,
        };
        if allowed.is_empty() {
            self.inconsistency(file, reason, "assuming that CPU 0 is the only one");
            return vec![0];
        }
        self.inconsistency(file, reason, "using the CPUs of the affinity mask");
        allowed.to_vec()
    }

    fn list(&self, file: &str) -> Result<Option<Vec<usize>>, String> {
        self.text(file)?.map(|text| list::parse(&text)).transpose()
    }

    /// An optional list.
    fn optional_list(&mut self, file: &str) -> Vec<usize> {
        match self.list(file) {
            Ok(list) => list.unwrap_or_default(),
            Err(reason) => {
                self.inconsistency(file, reason, "assumed to be empty");
                Vec::new()
            }
        }
    }

    fn nodes(&mut self, online: &[usize]) -> Vec<Node> {
        let numbers = self.optional_list("devices/system/node/online");
        if numbers.is_empty() {
            return vec![Node { number: 0, cpus: online.to_vec(), distances: Vec::new() }];
        }
        let node = |&number: &usize| Node {
            number,
            cpus: self.optional_list(&format!("devices/system/node/node{number}/cpulist")),
            distances: self.distances(number, &numbers),
        };
        numbers.iter().map(node).collect()
    }

    /// One distance per node, in the order of nodes.
    fn distances(&mut self, node: usize, all: &[usize]) -> Vec<(usize, u32)> {
        let file = format!("devices/system/node/node{node}/distance");
        let Ok(Some(text)) = self.text(&file) else { return Vec::new() };
        let values: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        match values {
            Some(values) if values.len() == all.len() => all.iter().copied().zip(values).collect(),
            _ => {
                let reason = format!("it is not one number for each of {} nodes", all.len());
                self.inconsistency(&file, reason, "assuming equal distances to all other nodes");
                Vec::new()
            }
        }
    }

    fn cpu(&mut self, number: usize, online: &[usize], nodes: &[Node]) -> Cpu {
        let siblings = self.siblings(number, online);
        let core = siblings.first().copied().unwrap_or(number);
        let package = self.package(number);
        let node = self.node(number, nodes);
        Cpu { number, core, package, node, ..Cpu::default() }
    }

    /// CPUs of the same core, including this one.
    fn siblings(&mut self, number: usize, online: &[usize]) -> Vec<usize> {
        let file = format!("devices/system/cpu/cpu{number}/topology/thread_siblings_list");
        let reason = match self.list(&file) {
            Ok(Some(siblings)) if siblings.contains(&number) => {
                return siblings.into_iter().filter(|cpu| online.contains(cpu)).collect();
            }
            Ok(Some(_)) => format!("it does not list CPU {number} itself"),
            Ok(None) => "it does not exist".to_owned(),
            Err(reason) => reason,
        };
        self.inconsistency(&file, reason, format!("assuming that CPU {number} is a separate core"));
        vec![number]
    }

    /// Firmware reports -1 if unknown.
    fn package(&mut self, number: usize) -> usize {
        let file = format!("devices/system/cpu/cpu{number}/topology/physical_package_id");
        match self::number(&self.root.join(&file)) {
            Ok(package) => package.unwrap_or_default(),
            Err(reason) => {
                self.inconsistency(&file, reason, "assuming package 0");
                0
            }
        }
    }

    fn node(&mut self, number: usize, nodes: &[Node]) -> usize {
        let mut own = nodes.iter().filter(|node| node.cpus.contains(&number));
        let first = own.next().map(|node| node.number);
        if let Some(second) = own.next() {
            let reason = format!("it lists CPU {number}, which another node has as well");
            let file = format!("devices/system/node/node{}/cpulist", second.number);
            self.inconsistency(&file, reason, "using the first node");
        }
        first.unwrap_or_else(|| {
            let nearest = nodes.first().map_or(0, |node| node.number);
            let reason = format!("no node has CPU {number}");
            self.inconsistency("devices/system/node", reason, format!("using node {nearest}"));
            nearest
        })
    }

    /// Every cache once, although each of its CPUs reports it.
    fn caches(&mut self, online: &[usize]) -> Vec<Cache> {
        let mut found: Vec<Cache> = Vec::new();
        for cpu in online {
            for index in 0..CACHES {
                let folder = format!("devices/system/cpu/cpu{cpu}/cache/index{index}");
                match self.cache(&folder) {
                    Ok(Some(cache)) => found.push(cache),
                    Ok(None) => break,
                    Err((file, reason)) => self.inconsistency(&file, reason, "this cache is left out"),
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Returns `None` if there is no such cache.
    fn cache(&self, folder: &str) -> Result<Option<Cache>, (String, String)> {
        let read = |name: &str| {
            let file = format!("{folder}/{name}");
            self.text(&file).map_err(|reason| (file, reason))
        };
        let Some(level) = read("level")? else { return Ok(None) };
        let wrong = |name: &str, reason: &str| (format!("{folder}/{name}"), reason.to_owned());
        let level = level.trim().parse().map_err(|_| wrong("level", "it is not a cache level"))?;
        let kind = match read("type")?.unwrap_or_default().trim() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return Err(wrong("type", "it is not a cache type")),
        };
        let size = read("size")?.unwrap_or_default();
        let bytes = bytes(size.trim()).ok_or_else(|| wrong("size", "it is not a size"))?;
        let shared = read("shared_cpu_list")?.unwrap_or_default();
        let cpus = list::parse(&shared).map_err(|reason| wrong("shared_cpu_list", &reason))?;
        Ok(Some(Cache { level, kind, bytes, cpus }))
    }
}

/// Parses `32K`, `2048K` or `16M`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The number in a file. Returns `None` if the file does not exist or the number is negative (-1: unknown).
pub(super) fn number(path: &Path) -> Result<Option<usize>, String> {
    let Some(text) = text(path)? else { return Ok(None) };
    match text.trim().parse::<i64>() {
        Ok(number) => Ok(usize::try_from(number).ok()),
        Err(_) => Err(format!("\"{}\" is not a number", text.trim().escape_default())),
    }
}

/// Content of a file; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|e| e.to_string())?;
    Ok(Some(text))
}
