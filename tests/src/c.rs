//! Programs in C over the installed library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{binary, need};

/// The library, installed in a folder as the guide says.
#[derive(Debug)]
pub struct Library {
    prefix: PathBuf,
}

impl Library {
    /// Installs header, library and the file of pkg-config in `folder`.
    pub fn install(folder: &Path) -> Library {
        let prefix = folder.join("prefix");
        let script = root().join("stack/ffi/install.sh");
        run(Command::new("sh").arg(script).arg(&prefix).arg(binary::libraries()));
        Library { prefix }
    }

    /// Compiles one of the examples in `examples/c` with all warnings as errors. Returns the program.
    pub fn compile(&self, example: &str) -> PathBuf {
        need::program("cc");
        need::program("pkg-config");
        let folder = self.prefix.join("lib");
        let flags = run(Command::new("pkg-config")
            .args(["--cflags", "--libs", "linerate"])
            .env("PKG_CONFIG_PATH", folder.join("pkgconfig")));
        let program = self.prefix.join(example);
        run(Command::new("cc")
            .args(["-std=c11", "-pthread", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
            .arg(&program)
            .arg(root().join("examples/c").join(example).with_extension("c"))
            .args(flags.split_whitespace())
            .arg(format!("-Wl,-rpath,{}", folder.display())));
        program
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Output of a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
