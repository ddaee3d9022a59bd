//! The file of trials: begun, gone on with, and written a whole line at a time.

use crate::trouble::Trouble;
use lab::bench::keep::{Header, KeepError, Kept};
use lab::bench::{Course, Environment, Trial};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An open file of trials.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    file: File,
}

/// Begins the file, or goes on with it: then the trials that it has, and where they were made.
pub(super) fn open(
    path: &Path,
    resume: bool,
    header: &Header,
) -> Result<(Keeper, Course, Environment), Trouble> {
    let place = || format!("--keep {}", path.display());
    let unusable = |error: io::Error| Trouble::bad(place(), error, "name a file that you may read and write");
    let exists = path.exists();
    if exists && !resume {
        let remedy = "add --resume to go on with it, or name another file";
        return Err(Trouble::bad(place(), "the file exists already, and would be lost", remedy));
    }
    if !exists {
        let file = File::create_new(path).map_err(unusable)?;
        let mut keeper = Keeper { path: path.to_owned(), file };
        keeper.write(header)?;
        return Ok((keeper, Course::new(header.plan.clone()), header.environment.clone()));
    }
    let bytes = fs::read(path).map_err(unusable)?;
    let kept = Kept::read(&bytes).and_then(|kept| kept.judge(header).map(|()| kept));
    let kept = kept.map_err(|error| refused(place(), &error))?;
    if kept.header.plan.rounds < header.plan.rounds {
        let kept = kept.extended(header);
        let keeper = rewritten(path, &kept)?;
        return Ok((keeper, kept.course, kept.header.environment));
    }
    let file = File::options().append(true).open(path).map_err(unusable)?;
    // A line that was not finished is not gone on with.
    file.set_len(kept.whole as u64).map_err(unusable)?;
    Ok((Keeper { path: path.to_owned(), file }, kept.course, kept.header.environment))
}

/// The file with another first line. The old one stays whole until the new one is.
fn rewritten(path: &Path, kept: &Kept) -> Result<Keeper, Trouble> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    let failed = |error: io::Error| {
        let remedy = "make room there; what was kept is whole";
        Trouble::failed(format!("--keep {}", next.display()), error, remedy)
    };
    let mut keeper = Keeper { path: next.clone(), file: File::create(&next).map_err(failed)? };
    keeper.write(&kept.header)?;
    kept.course.trials().iter().try_for_each(|trial| keeper.write(trial))?;
    fs::rename(&next, path).map_err(failed)?;
    Ok(Keeper { path: path.to_owned(), ..keeper })
}

fn refused(place: String, error: &KeepError) -> Trouble {
    let remedy = match error {
        KeepError::MadeOtherwise(_) => "name another file, or repeat what this one was made with",
        _ => "name another file",
    };
    Trouble::bad(place, error, remedy)
}

impl Keeper {
    /// Appends a trial.
    pub(super) fn add(&mut self, trial: &Trial) -> Result<(), Trouble> {
        self.write(trial)
    }

    fn write<T: Serialize>(&mut self, value: &T) -> Result<(), Trouble> {
        let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        let place = || format!("--keep {}", self.path.display());
        written.map_err(|error| Trouble::failed(place(), error, "make room there; what was kept is whole"))
    }
}
