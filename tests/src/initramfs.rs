//! Writes the root file system of a guest as a `newc` archive (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst): busybox, the virtio modules, and an init program that
//! ends in a shell on the serial line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kernel::Kernel;
use crate::need;

/// Loads the modules, brings up eth0 with the address from the kernel's command line, and reads commands. The serial
/// line neither echoes nor waits for a terminal, so that it carries only output.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin HOME=/
mount -t proc none /proc
mount -t sysfs none /sys
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
for word in $(cat /proc/cmdline); do
  case $word in address=*) address=${word#address=} ;; esac
done
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
stty -F /dev/ttyS0 -echo -onlcr
echo "guest $address is up"
exec sh </dev/ttyS0 >/dev/ttyS0 2>&1
"#;

/// Writes the archive for guests that run `kernel` to `path`, with `programs` of this machine in addition to busybox.
/// Panics if one is missing.
pub fn write(path: &Path, kernel: &Kernel, programs: &[&str]) {
    let mut archive = Archive::default();
    let files: BTreeSet<PathBuf> = programs.iter().flat_map(|program| with_libraries(program)).collect();
    let folders = ["bin", "dev", "proc", "sys", "tmp", "modules"].map(PathBuf::from).into_iter();
    let homes = files.iter().flat_map(|file| file.ancestors().skip(1).map(inside));
    for folder in folders.chain(homes).filter(|folder| folder != Path::new("")).collect::<BTreeSet<_>>() {
        archive.entry(&folder.display().to_string(), 0o040_755, &[]);
    }
    for file in &files {
        let content = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        archive.entry(&inside(file).display().to_string(), 0o100_755, &content);
    }
    archive.device("dev/console", 5, 1);
    archive.device("dev/ttyS0", 4, 64);
    archive.device("dev/null", 1, 3);
    archive.device("dev/urandom", 1, 9);
    archive.entry("bin/busybox", 0o100_755, &busybox());
    archive.entry("init", 0o100_755, INIT.as_bytes());
    let order: Vec<&str> = kernel.modules.iter().map(|(name, _)| name.as_str()).collect();
    archive.entry("modules/order", 0o100_644, order.join("\n").as_bytes());
    for (name, content) in &kernel.modules {
        archive.entry(&format!("modules/{name}.ko"), 0o100_644, content);
    }
    let bytes = archive.finish();
    fs::write(path, bytes).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// The path relative to the root.
fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// A program of this machine and the libraries it is linked with, at the paths where the loader searches them.
fn with_libraries(program: &str) -> Vec<PathBuf> {
    let path = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(program));
    let path = path.into_iter().find(|path| path.exists());
    let path = path.unwrap_or_else(|| need::skip(format_args!("{program} is not installed")));
    let listed = Command::new("ldd").arg(&path).output();
    let listed = listed.unwrap_or_else(|error| panic!("cannot run ldd: {error}"));
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    std::iter::once(path).chain(libraries).collect()
}

/// The statically linked busybox; guests have no libraries for a dynamic one.
fn busybox() -> Vec<u8> {
    let places = ["/usr/bin/busybox", "/bin/busybox"].map(PathBuf::from);
    let content = places.iter().find_map(|place| fs::read(place).ok());
    content.unwrap_or_else(|| need::skip("busybox-static is not installed"))
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: usize,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.write(name, mode, (0, 0), content);
    }

    /// Adds a character device.
    fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.write(name, 0o020_600, (major, minor), &[]);
    }

    fn write(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries as u32,
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Pads to a multiple of four bytes, as required for names and contents.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.write("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpio_entry_has_header_padded_name_and_content() {
        let mut archive = Archive::default();
        archive.entry("abc", 0o100_644, b"hello");
        // 110 + "abc\0" is 114, padded to 116; "hello" is padded to 8.
        assert_eq!(archive.bytes.len(), 116 + 8);
        assert_eq!(&archive.bytes[..14], b"07070100000001");
        assert_eq!(&archive.bytes[54..62], b"00000005");
        assert_eq!(&archive.bytes[94..102], b"00000004");
        assert_eq!(&archive.bytes[110..124], b"abc\0\0\0hello\0\0\0");
    }

    #[test]
    fn the_archive_ends_with_its_trailer() {
        let bytes = Archive::default().finish();
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
        assert_eq!(bytes.len() % 4, 0);
    }
}
