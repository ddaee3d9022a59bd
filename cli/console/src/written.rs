//! Writes pages and figures after the measurement. Their paths are validated before it, without leaving files behind.

use crate::Diagnostic;
use figure::Figure;
use std::fs::{self, File};
use std::io;
use std::path::Path;

const REMEDY: &str = "name a place that you may write to";

/// Rejects paths of a page (`--html`) and of figures (`--svg`) that are not writable.
pub fn validate(html: Option<&Path>, svg: Option<&Path>) -> Result<(), Diagnostic> {
    if let Some(file) = html {
        let bad = |error| Diagnostic::bad(format!("--html {}", file.display()), error, REMEDY);
        try_file(file).map_err(bad)?;
    }
    if let Some(folder) = svg {
        let bad = |error| Diagnostic::bad(format!("--svg {}", folder.display()), error, REMEDY);
        // If the directory does not exist, its nearest existing ancestor is checked.
        let there = folder.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
        let there = there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        try_file(&there.join(format!(".linerate-{}.svg", std::process::id()))).map_err(bad)?;
    }
    Ok(())
}

/// Checks that a file is writable. A file that did not exist is removed again.
fn try_file(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            File::options().append(true).open(file).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Writes a page and prints its path.
pub fn page(file: &Path, text: &str) -> Result<(), Diagnostic> {
    put(file, text)?;
    crate::aside(&format!("wrote {}", file.display()));
    Ok(())
}

/// Writes each figure into a directory, which is created if it does not exist.
pub fn figures(folder: &Path, figures: &[Figure]) -> Result<(), Diagnostic> {
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    for figure in figures {
        put(&folder.join(format!("{}.svg", figure.id)), &figure.file())?;
    }
    crate::aside(&format!("wrote {} figures into {}", figures.len(), folder.display()));
    Ok(())
}

fn put(file: &Path, text: &str) -> Result<(), Diagnostic> {
    fs::write(file, text).map_err(|error| unwritten(file, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::failed(path.display(), error, REMEDY)
}
