//! Validates files that a port reads or writes.

use super::validation::Validation;
use ::port::Remedy;
use ::port::pcap::{CreateError, Output};
use std::path::Path;

/// Validates that `file` can be created. Does not create it.
pub(crate) fn output(validation: &mut Validation<'_>, key: &'static str, file: &Path, overwrite: bool) {
    if !is_file_path(validation, key, file) {
        return;
    }
    let output = Output { path: file.to_owned(), overwrite };
    match output.check() {
        Ok(()) => {}
        Err(CreateError::Exists(path)) => {
            let reason = format!("`{key}` {} already exists and would be overwritten", path.display());
            validation.wrong(key, reason, "move it away, name another path, or write overwrite = true");
        }
        Err(other) => {
            let remedy = other.remedy().unwrap_or("name another path".into());
            validation.wrong(key, format!("`{key}` {other}"), remedy);
        }
    }
}

/// Whether `file` is an absolute path in an existing directory.
pub(crate) fn is_file_path(validation: &mut Validation<'_>, key: &'static str, file: &Path) -> bool {
    let shown = file.display();
    let (reason, remedy) = if !file.is_absolute() {
        let remedy = "begin it with /, so that it does not depend on the working directory";
        (format!("`{key}` {shown}: the path is not absolute"), remedy.to_owned())
    } else if file.file_name().is_none() || file.is_dir() {
        (format!("`{key}` {shown} is a directory"), "add the file's own name".to_owned())
    } else if let Some(folder) = file.parent().filter(|folder| !folder.is_dir()) {
        (format!("`{key}` {shown}: its directory does not exist"), format!("mkdir -p {}", folder.display()))
    } else {
        return true;
    };
    validation.wrong(key, reason, remedy);
    false
}
