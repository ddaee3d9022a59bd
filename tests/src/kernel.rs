//! Finds a Debian kernel and its virtio modules, in a folder with the unpacked package or as installed. They only run
//! in guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::need;

/// Environment variable with the folder of an unpacked kernel package.
pub const VARIABLE: &str = "LINERATE_KERNEL";

const WANTED: [&str; 2] = ["virtio_pci", "virtio_net"];

/// A kernel, and modules in load order.
pub struct Kernel {
    /// The compressed kernel image.
    pub image: PathBuf,
    /// Name and uncompressed content of each module, dependencies first.
    pub modules: Vec<(String, Vec<u8>)>,
}

/// The kernel in [`VARIABLE`], otherwise the installed one, with `more` modules beside those of virtio. Panics if there
/// is neither.
pub fn find(more: &[&str]) -> Kernel {
    let root = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let image = newest(&root.join("boot"), "vmlinuz-");
    let image = image.unwrap_or_else(|| need::skip(format_args!("no kernel below {}", root.display())));
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let release = name.trim_start_matches("vmlinuz-");
    let modules = [root.join("lib/modules"), root.join("usr/lib/modules")]
        .into_iter()
        .map(|folder| folder.join(release).join("kernel"))
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| {
            need::skip(format_args!("no modules of kernel {release} below {}", root.display()))
        });
    Kernel { image, modules: Modules::below(&modules).closure(&[&WANTED[..], more].concat()) }
}

fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))).max()
}

/// All module files of one kernel.
struct Modules(Vec<PathBuf>);

impl Modules {
    fn below(folder: &Path) -> Modules {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        Modules(found)
    }

    /// The named modules and their dependencies, dependencies first. A module without a file is built in.
    fn closure(&self, names: &[&str]) -> Vec<(String, Vec<u8>)> {
        let mut loaded = Vec::new();
        for name in names {
            self.visit(name, &mut loaded);
        }
        loaded
    }

    fn visit(&self, name: &str, loaded: &mut Vec<(String, Vec<u8>)>) {
        if loaded.iter().any(|(known, _)| known == name) {
            return;
        }
        let Some(path) = self.0.iter().find(|path| stem(path) == name) else { return };
        let content = uncompressed(path);
        for dependency in dependencies(&content) {
            self.visit(&dependency, loaded);
        }
        loaded.push((name.to_owned(), content));
    }
}

/// File names may have dashes where module names have underscores.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

fn uncompressed(path: &Path) -> Vec<u8> {
    let tool = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display())),
    };
    need::program(tool);
    let output = Command::new(tool).args(["-dc"]).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {tool}: {error}"));
    assert!(output.status.success(), "{tool} cannot unpack {}", path.display());
    output.stdout
}

/// A module's dependencies, `depends=a,b` in its information section.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let list = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_dependencies_are_read_from_modinfo() {
        let module = b"\x7fELF...\0license=GPL\0depends=virtio_ring,virtio-pci\0name=x\0";
        assert_eq!(dependencies(module), ["virtio_ring", "virtio_pci"]);
        assert!(dependencies(b"license=GPL\0depends=\0").is_empty());
    }

    #[test]
    fn module_name_is_derived_from_a_compressed_file() {
        assert_eq!(stem(Path::new("/x/virtio-rng.ko.xz")), "virtio_rng");
    }
}
