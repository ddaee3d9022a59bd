//! Directions of the dependencies between the modules of `cli/src`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules with those that they may use. A module may only use modules of earlier lines.
const PERMITTED: [(&str, &[&str]); 16] = [
    ("remedy", &[]),
    ("socket_file", &[]),
    ("host", &[]),
    ("event_log", &[]),
    ("log", &["event_log"]),
    ("grant", &["remedy"]),
    ("tls", &[]),
    ("web", &[]),
    ("settings", &["grant", "host", "remedy", "web"]),
    ("dataplane", &["remedy", "settings", "socket_file", "tls"]),
    ("causes", &["dataplane", "host", "settings"]),
    ("takeover", &["dataplane", "settings"]),
    (
        "api",
        &[
            "causes",
            "dataplane",
            "event_log",
            "grant",
            "host",
            "settings",
            "socket_file",
            "takeover",
            "tls",
            "web",
        ],
    ),
    ("args", &["log", "settings"]),
    (
        "commands",
        &[
            "api",
            "args",
            "causes",
            "dataplane",
            "event_log",
            "host",
            "log",
            "remedy",
            "settings",
            "socket_file",
            "takeover",
        ],
    ),
    ("reference", &["api", "args", "commands", "host", "log", "settings"]),
];

type Graph = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Files of a module: `name.rs` and those of the folder `name`.
fn files(dir: &Path, module: &str) -> Vec<PathBuf> {
    let (file, folder) = (dir.join(format!("{module}.rs")), dir.join(module));
    let mut found = Vec::new();
    found.extend(file.exists().then_some(file));
    collect(&folder, &mut found);
    found
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Names of the modules in a folder.
fn modules(dir: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let names = names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    names.filter(|name| !["main", "mod", "tests"].contains(&name.as_str())).collect()
}

/// The code of a file, without comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names that follow `prefix`, alone or in a list with braces.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let first = |text: &str| text.split(|c| !is_word(c)).next().unwrap_or_default().to_owned();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with([':', '_'])) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{').and_then(|list| list.split_once('}')) {
            Some((list, _)) => found.extend(list.split(',').map(|entry| first(entry.trim()))),
            None => _ = found.insert(first(rest)),
        }
    }
    found
}

/// Modules that a module of `cli/src` uses.
fn used(module: &str) -> BTreeSet<String> {
    let all = modules(&root());
    let files = files(&root(), module);
    let names =
        files.iter().filter(|path| !is_test(path)).flat_map(|path| names_after(&code(path), "crate::"));
    names.filter(|name| name != module && all.contains(name)).collect()
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Folders of modules, by their paths.
fn folders(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !is_test(&path) {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            found.extend(folders(&path));
        }
    }
    found
}

/// Modules of the folder `top` with those that they use, by paths from the crate or relative ones.
fn within(top: &str) -> Graph {
    let dir = root().join(top);
    let all = modules(&dir);
    let of = |module: &String| {
        let files = files(&dir, module).into_iter().filter(|path| !is_test(path));
        let names = files.flat_map(|path| {
            let parts = path.strip_prefix(&dir).unwrap().iter().count();
            let depth = if path.ends_with("mod.rs") { parts - 1 } else { parts };
            let code = code(&path);
            let relative = names_after(&code, &"super::".repeat(depth));
            relative.into_iter().chain(names_after(&code, &format!("crate::{}::", top.replace('/', "::"))))
        });
        names.filter(|name| name != module && all.contains(name)).collect()
    };
    all.iter().map(|module| (module.clone(), of(module))).collect()
}

/// The modules of a cycle, or none.
fn cycle(mut graph: Graph) -> Vec<String> {
    while let Some(leaf) = graph.iter().find(|(_, used)| used.is_empty()).map(|(name, _)| name.clone()) {
        graph.remove(&leaf);
        for used in graph.values_mut() {
            used.remove(&leaf);
        }
    }
    graph.into_keys().collect()
}

#[test]
fn modules_use_only_those_of_permitted_directions() {
    let known: BTreeSet<String> = PERMITTED.iter().map(|(module, _)| (*module).to_owned()).collect();
    assert_eq!(known, modules(&root()), "the table has another set of modules");
    let mut earlier = BTreeSet::new();
    for (module, permitted) in PERMITTED {
        assert!(permitted.iter().all(|name| earlier.contains(name)), "the line of {module} is no order");
        earlier.insert(module);
        let unexpected: Vec<_> =
            used(module).into_iter().filter(|name| !permitted.contains(&name.as_str())).collect();
        assert!(unexpected.is_empty(), "{module} uses {unexpected:?}");
    }
    assert!(used("commands").contains("settings"), "no dependency was found");
}

#[test]
fn modules_of_a_folder_have_no_cycles() {
    for (module, _) in PERMITTED.iter().filter(|(module, _)| root().join(module).is_dir()) {
        let graph = within(module);
        assert!(graph.values().any(|used| !used.is_empty()), "no dependency was found in {module}");
    }
    // The rest also has the modules that use those of the cycle.
    let cycles = folders(&root()).into_iter().map(|top| (cycle(within(&top)), top));
    let cycles: Vec<_> = cycles.filter(|(cycle, _)| !cycle.is_empty()).collect();
    assert!(cycles.is_empty(), "cycles, and their folders: {cycles:?}");
}

#[test]
fn names_are_found_alone_and_in_lists() {
    let code =
        "use crate::api::x;\nuse crate::{host, log::y};\nfn a() { crate::settings::b() }\nuse $crate::no";
    let expected = ["api", "host", "log", "no", "settings"].map(str::to_owned);
    assert_eq!(names_after(code, "crate::"), expected.into());
    assert_eq!(names_after("super::super::a super::b", "super::super::"), ["a".to_owned()].into());
    assert_eq!(
        names_after("super::super::a super::b", "super::"),
        ["b".to_owned(), "super".to_owned()].into()
    );
}
