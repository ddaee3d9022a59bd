//! `linerate lab report`: converts files of results to a page, figures or data. All files are validated before one is
//! written.

use super::args::LabReportArgs;
use super::{stack, usage};
use console::Diagnostic;
use console::written::{Format, OutFiles};
use figure::text::plain;
use measure::store::StoreError;
use report::{Report, ResultFile, page, summary};
use std::fs;
use std::path::Path;

/// Writes the requested outputs.
pub(super) fn run(args: &LabReportArgs) -> anyhow::Result<()> {
    let files = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let outputs = OutFiles::validate(&args.result.out, &[Format::Html, Format::Svg, Format::Json])?;
    let report = Report::of(files);
    outputs.write(Format::Html, || page(&report))?;
    outputs.figures(|| report.figures())?;
    outputs.json(&report.findings())?;
    console::print(&report.findings(), args.result.show.output, |_| text(&report))
}

fn read(file: &Path) -> Result<ResultFile, Diagnostic> {
    let remedy = "name a file that `linerate lab run`, `copies`, `paths`, `usage` or `stack` wrote with `--out` or `--keep`";
    let bytes = fs::read(file).map_err(StoreError::Unreadable);
    let validated = bytes.and_then(|bytes| ResultFile::parse(&bytes));
    validated.map_err(|error| Diagnostic::bad(file.display(), error, remedy))
}

/// A summary of each set of results, and the tables of usage and stack studies.
fn text(report: &Report) -> String {
    let summary = Some(summary(report)).filter(|text| !text.is_empty());
    let stack = report.stack().iter().map(stack::text);
    let parts = summary.into_iter().chain(report.usage().iter().map(usage::text)).chain(stack);
    plain(&parts.collect::<Vec<_>>().join("\n\n"))
}
