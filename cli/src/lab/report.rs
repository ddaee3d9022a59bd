//! `linerate lab report`: files of results in, a page, figures or data out. Every file is judged before one is written.

use super::args::LabReportArgs;
use crate::show;
use crate::trouble::Trouble;
use lab::cache::batch::keep::{self, KeepError};
use lab::cache::copystudy;
use lab::cache::paths::study::PathResults;
use lab::cache::results::Results;
use lab::report::{Report, page, summary};
use std::fs;
use std::path::Path;

/// Writes what was asked for.
pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    let (mut sets, mut copies, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for file in &args.files {
        match read(file)? {
            Kept::Model(results) => sets.push(*results),
            Kept::Copies(results) => copies.push(results),
            Kept::Paths(results) => paths.push(results),
        }
    }
    let report = Report::new(sets).with_copies(copies).with_paths(paths);
    if let Some(file) = &args.html {
        write(file, &page(&report))?;
        show::aside(&format!("wrote {}", file.display()));
    }
    if let Some(folder) = &args.svg {
        let figures = report.figures();
        fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
        for figure in &figures {
            write(&folder.join(format!("{}.svg", figure.id)), &figure.file())?;
        }
        show::aside(&format!("wrote {} figures into {}", figures.len(), folder.display()));
    }
    show::print(&report.findings(), args.output, |_| summary(&report))
}

/// What a file holds: results of the model, of the study of copies, or of linerate's own path.
enum Kept {
    Model(Box<Results>),
    Copies(copystudy::Results),
    Paths(PathResults),
}

fn read(file: &Path) -> Result<Kept, Trouble> {
    let remedy = "name a file that `linerate lab run`, `lab copies` or `lab paths` wrote with `--out`";
    let judged = || -> Result<Kept, KeepError> {
        let bytes = fs::read(file).map_err(KeepError::Unreadable)?;
        if let Some(results) = PathResults::parse(&bytes) {
            return Ok(Kept::Paths(results));
        }
        match copystudy::Results::parse(&bytes)? {
            Some(results) => Ok(Kept::Copies(results)),
            None => keep::parse(&bytes).map(|results| Kept::Model(Box::new(results))),
        }
    };
    judged().map_err(|error| Trouble::bad(file.display(), error, remedy))
}

fn write(file: &Path, text: &str) -> Result<(), Trouble> {
    fs::write(file, text).map_err(|error| unwritten(file, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::failed(path.display(), error, "name a place that you may write to")
}
