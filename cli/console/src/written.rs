//! Pages and figures that are written when all is measured. Whether they can be is found out before anything is, and leaves nothing
//! behind.

use crate::Diagnostic;
use figure::Figure;
use std::fs::{self, File};
use std::io;
use std::path::Path;

const REMEDY: &str = "name a place that you may write to";

/// Refuses places of a page (`--html`) and of figures (`--svg`) that cannot be written to.
pub fn validate(html: Option<&Path>, svg: Option<&Path>) -> Result<(), Diagnostic> {
    if let Some(file) = html {
        let bad = |error| Diagnostic::bad(format!("--html {}", file.display()), error, REMEDY);
        try_file(file).map_err(bad)?;
    }
    if let Some(folder) = svg {
        let bad = |error| Diagnostic::bad(format!("--svg {}", folder.display()), error, REMEDY);
        // Of a directory that is not there, the nearest one above it that is.
        let there = folder.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
        let there = there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        try_file(&there.join(format!(".linerate-{}.svg", std::process::id()))).map_err(bad)?;
    }
    Ok(())
}

/// Whether a file can be written; one that was not there is not there afterwards.
fn try_file(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            File::options().append(true).open(file).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Writes a page and says so.
pub fn page(file: &Path, text: &str) -> Result<(), Diagnostic> {
    put(file, text)?;
    crate::aside(&format!("wrote {}", file.display()));
    Ok(())
}

/// Writes each figure into a directory, which is made if need be.
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
