//! `linerate lab report`: files of results in, a page, figures or data out. Every file is judged before one is written.

use super::args::LabReportArgs;
use crate::show;
use crate::trouble::Trouble;
use lab::cache::batch::keep;
use lab::cache::paths::study::PathResults;
use lab::cache::results::Results;
use lab::report::{Report, page, summary};
use std::fs;
use std::path::Path;

/// Writes what was asked for.
pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    let (mut sets, mut paths) = (Vec::new(), Vec::new());
    for file in &args.files {
        match read_paths(file) {
            Some(results) => paths.push(results),
            None => sets.push(read(file)?),
        }
    }
    let report = Report::new(sets).with_paths(paths);
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

/// What `lab paths` kept; nothing where the file is something else, or cannot be read.
fn read_paths(file: &Path) -> Option<PathResults> {
    PathResults::parse(&fs::read(file).ok()?)
}

fn read(file: &Path) -> Result<Results, Trouble> {
    let remedy = "name a file that `linerate lab run --out` or `lab paths --out` wrote";
    keep::read(file).map_err(|error| Trouble::bad(file.display(), error, remedy))
}

fn write(file: &Path, text: &str) -> Result<(), Trouble> {
    fs::write(file, text).map_err(|error| unwritten(file, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::failed(path.display(), error, "name a place that you may write to")
}
