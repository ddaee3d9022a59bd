//! Validates socket paths.

use super::notes::{Findings, Place};
use std::fmt::Display;
use std::path::Path;

/// Maximum length of the path of a Unix socket: `sun_path` has 108 bytes including the terminating zero (unix(7)).
const MAX_PATH: usize = 107;

/// Validates that a socket can be created or found at the path.
pub(crate) fn socket(place: Place, path: &Path, notes: &mut Findings) {
    if let Some((reason, remedy)) = path_error(path) {
        notes.wrong(place, format!("`{}` {}: {reason}", place.1, path.display()), remedy);
    }
}

fn path_error(path: &Path) -> Option<(String, String)> {
    let length = path.as_os_str().len();
    let parent = path.parent().unwrap_or(path);
    let said = |reason: &dyn Display, remedy: String| Some((reason.to_string(), remedy));
    if !path.is_absolute() {
        return said(
            &"the path is not absolute",
            "begin it with /, so that guests use the same file".to_owned(),
        );
    }
    if length > MAX_PATH {
        let reason = format!("the path has {length} bytes, and a Unix socket's has room for {MAX_PATH}");
        return said(&reason, "choose a shorter one".to_owned());
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return said(&"the path contains a zero byte", "remove it".to_owned());
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return said(&"the path is a directory", "add the socket's own name".to_owned());
    }
    match (std::fs::metadata(path), parent.is_dir()) {
        (_, false) => said(&"its directory does not exist", format!("mkdir -p {}", parent.display())),
        (Ok(found), _) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            said(&"it exists and is not a socket", "choose another path, or remove it".to_owned())
        }
        _ => None,
    }
}
