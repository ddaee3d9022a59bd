//! Fuzz target of the reports, also replayed by ordinary tests: any bytes as a result file.

use super::{Report, ResultFile, page, stack_page, summary, usage_page};
use figure::text::plain;
use measure::store::parse;
use rfc2544::checkpoint::Checkpoint;
use rfc2544::page::bench_page;

/// Reads `file` as the commands that draw results do, and draws its contents.
///
/// # Panics
/// If file contents become markup, a drawing has a coordinate that is not a number, or findings are not valid JSON.
pub fn fuzz_report(file: &[u8]) {
    if let Ok(checkpoint) = parse::<Checkpoint>(file) {
        sound(&bench_page(&checkpoint.results()));
    }
    let Ok(found) = ResultFile::parse(file) else { return };
    match &found {
        ResultFile::Usage(results) => sound(&usage_page(results)),
        ResultFile::Stack(results) => sound(&stack_page(results)),
        _ => {}
    }
    let report = Report::of([found]);
    sound(&page(&report));
    assert!(!plain(&summary(&report)).contains('\u{1b}'));
    for figure in report.figures() {
        let drawing = figure.file();
        assert_eq!(drawing.matches("<svg").count(), 1, "{}", figure.id);
    }
    assert!(serde_json::to_vec(&report.findings()).is_ok());
}

/// Checks that the page has only its own script and no invalid coordinates.
pub(super) fn sound(page: &str) {
    assert_eq!(page.matches("<script").count(), 1);
    for bad in ["=\"NaN", "=\"inf", "=\"-inf", "points=\"NaN"] {
        assert!(!page.contains(bad), "{bad}");
    }
}
