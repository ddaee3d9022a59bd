//! Files of packages, below `target/release/package` in their metadata: those that programs and scripts of this
//! repository generate (man pages, completions, files of the C library), and copies of others with the date of the commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::{build, layout};
use crate::command;

const LIMIT: Duration = Duration::from_mins(1);
/// Shells, and the names of their files for `linerate`.
const SHELLS: [(&str, &str, &str); 3] = [("bash", "", ""), ("fish", "", ".fish"), ("zsh", "_", "")];
/// Files and folders of the repository, and built files, that packages of RPM systems have.
pub(super) const COPIED: [&str; 7] = [
    "contrib",
    "examples",
    "stack/ffi/include",
    "CHANGELOG.md",
    "README.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];
const PROGRAMS: [&str; 4] = ["linerate", "linerate-lab", "liblinerate.so", "liblinerate_preload.so"];
/// A linker script, because the packages of RPM systems are made without symbolic links.
const LINKER_SCRIPT: &str = "/* Read by linkers as if it were the library. */\nINPUT(liblinerate.so.0)\n";

/// Writes all files.
pub(super) fn write() -> Result<()> {
    let folder = build::results().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    for program in ["linerate", "linerate-lab"] {
        let path = build::results().join(program);
        let mut pages = Command::new(&path);
        command::run(pages.args(["man", "--out"]).arg(folder.join("man")), LIMIT)?;
        for (shell, before, after) in SHELLS {
            let script = command::output(Command::new(&path).args(["completions", shell]))?;
            save(&folder.join(shell).join(format!("{before}{program}{after}")), script.as_bytes())?;
        }
    }
    sections(&folder.join("man"))?;
    library(&folder.join("lib"))?;
    copies(&folder)?;
    let date = UNIX_EPOCH + Duration::from_secs(build::date()?);
    set_dates(&folder, date)
}

/// Copies programs and the files of the repository.
fn copies(folder: &Path) -> Result<()> {
    let (tree, programs) = (folder.join("tree"), folder.join("programs"));
    for folder in [&tree, &programs] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut copy = Command::new("cp");
    copy.args(["--recursive", "--parents"]).args(COPIED).arg(&tree).current_dir(command::root());
    command::run(&copy, LIMIT)?;
    for name in PROGRAMS {
        let from = build::results().join(name);
        fs::copy(&from, programs.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// Gives all files below `folder` this date.
fn set_dates(folder: &Path, date: SystemTime) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            set_dates(&path, date)?;
        } else {
            let file = fs::File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            file.set_modified(date).with_context(|| format!("cannot date {}", path.display()))?;
        }
    }
    Ok(())
}

/// Compresses each page into a directory with the number of its section.
fn sections(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for page in pages {
        let section = page.extension().unwrap_or_default();
        let name = format!("{}.gz", page.file_name().unwrap_or_default().to_string_lossy());
        let text = fs::read(&page).with_context(|| format!("cannot read {}", page.display()))?;
        save(&folder.join("sections").join(section).join(name), &layout::zipped(&text)?)?;
    }
    Ok(())
}

/// Files for compiling programs with the C library.
fn library(folder: &Path) -> Result<()> {
    let template = command::root().join("stack/ffi/linerate.pc.in");
    let text =
        fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
    let tuple = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    for (system, libraries) in [("deb", tuple.as_str()), ("rpm", "lib64")] {
        save(&folder.join(system).join("linerate.pc"), described(&text, libraries).as_bytes())?;
    }
    save(&folder.join("rpm/liblinerate.so"), LINKER_SCRIPT.as_bytes())?;
    let (from, to) = (build::results().join("liblinerate.a"), folder.join("liblinerate.a"));
    fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    command::run(Command::new("strip").arg("--strip-debug").arg(&to), LIMIT)
}

/// The description for pkg-config of a library in the directory `libraries` of `/usr`.
pub(super) fn described(template: &str, libraries: &str) -> String {
    let text = template.replace("@PREFIX@", "/usr").replace("@VERSION@", super::VERSION);
    text.replace("${prefix}/lib\n", &format!("${{prefix}}/{libraries}\n"))
}

fn save(path: &Path, content: &[u8]) -> Result<()> {
    create_parent(path)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}
