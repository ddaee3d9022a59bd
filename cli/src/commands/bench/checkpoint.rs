//! Checkpoint file of trials: created or resumed, and written in whole lines.

use console::Diagnostic;
use rfc2544::checkpoint::{Checkpoint, CheckpointError, Header};
use rfc2544::{Environment, TestRun, Trial};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An open checkpoint file.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    path: PathBuf,
    file: File,
}

/// Creates the file, or continues an existing one: returns its trials and the environment in which they were measured.
pub(super) fn open(
    path: &Path,
    header: &Header,
) -> Result<(CheckpointWriter, TestRun, Environment), Diagnostic> {
    let place = || format!("--keep {}", path.display());
    let unusable =
        |error: io::Error| Diagnostic::bad(place(), error, "name a file that you may read and write");
    if !path.exists() {
        let file = File::create_new(path).map_err(unusable)?;
        let mut writer = CheckpointWriter { path: path.to_owned(), file };
        writer.write(header)?;
        return Ok((writer, TestRun::new(header.plan.clone()), header.environment.clone()));
    }
    let bytes = fs::read(path).map_err(unusable)?;
    let kept = Checkpoint::read(&bytes).and_then(|kept| kept.validate(header).map(|()| kept));
    let kept = kept.map_err(|error| refused(place(), &error))?;
    if kept.header.plan.rounds < header.plan.rounds {
        let kept = kept.extended(header);
        let writer = rewritten(path, &kept)?;
        return Ok((writer, kept.test_run, kept.header.environment));
    }
    let file = File::options().append(true).open(path).map_err(unusable)?;
    // An incomplete last line is truncated.
    file.set_len(kept.whole as u64).map_err(unusable)?;
    Ok((CheckpointWriter { path: path.to_owned(), file }, kept.test_run, kept.header.environment))
}

/// Rewrites the file with another header. The old file is replaced only once the new one is complete.
fn rewritten(path: &Path, kept: &Checkpoint) -> Result<CheckpointWriter, Diagnostic> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    let failed = |error: io::Error| {
        let remedy = "free disk space; the trials in the file are complete";
        Diagnostic::failed(format!("--keep {}", next.display()), error, remedy)
    };
    let mut writer = CheckpointWriter { path: next.clone(), file: File::create(&next).map_err(failed)? };
    writer.write(&kept.header)?;
    kept.test_run.trials().iter().try_for_each(|trial| writer.write(trial))?;
    fs::rename(&next, path).map_err(failed)?;
    Ok(CheckpointWriter { path: path.to_owned(), ..writer })
}

fn refused(place: String, error: &CheckpointError) -> Diagnostic {
    let remedy = match error {
        CheckpointError::OtherProvenance(_) => "name another file, or use the options of this one",
        _ => "name another file",
    };
    Diagnostic::bad(place, error, remedy)
}

impl CheckpointWriter {
    /// Appends a trial.
    pub(super) fn add(&mut self, trial: &Trial) -> Result<(), Diagnostic> {
        self.write(trial)
    }

    fn write<T: Serialize>(&mut self, value: &T) -> Result<(), Diagnostic> {
        let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        let place = || format!("--keep {}", self.path.display());
        written.map_err(|error| {
            Diagnostic::failed(place(), error, "free disk space; the trials in the file are complete")
        })
    }
}
