//! `--keep` and `--resume`: the checkpoint file of a run of several measurements.

use crate::Diagnostic;
use clap::Args;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// `--keep` and `--resume`.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckpointArgs {
    /// Checkpoint file: save each measurement to this file when it ends
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Continue with the measurements in the file of `--keep` if it exists
    #[arg(long, requires = "keep")]
    resume: bool,
}

impl CheckpointArgs {
    /// The checkpoint file.
    pub fn path(&self) -> Option<&Path> {
        self.keep.as_deref()
    }

    /// Returns an error if the file exists and is not to be continued. Called before anything runs.
    pub fn validate(&self) -> Result<(), Diagnostic> {
        if self.resume || !self.path().is_some_and(Path::exists) {
            return Ok(());
        }
        let reason = "the file already exists and would be overwritten";
        Err(Diagnostic::bad(self.place(), reason, "add --resume to continue it, or name another file"))
    }

    /// `--keep FILE`, for errors.
    pub fn place(&self) -> String {
        self.path().map_or_else(|| "--keep".to_owned(), |path| format!("--keep {}", path.display()))
    }

    /// Error of a run that a signal ended before its last measurement.
    pub fn interrupted(&self, command: &str, done: impl Display) -> Diagnostic {
        let remedy = match self.keep {
            Some(_) => "run the same command with --resume to continue",
            None => "next time use `--keep FILE`, and continue with the same command and --resume",
        };
        Diagnostic::failed(command, format!("ended by a signal after {done}; the result is partial"), remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_needs_resume() {
        let keep = |path: &str, resume| CheckpointArgs { keep: Some(path.into()), resume };
        assert!(keep("/none/f", false).validate().is_ok() && keep("/", true).validate().is_ok());
        let refused = keep("/", false).validate().unwrap_err();
        assert_eq!((refused.code, refused.place.as_str()), (crate::BAD_INPUT, "--keep /"));
        assert!(CheckpointArgs::default().validate().is_ok());
    }
}
