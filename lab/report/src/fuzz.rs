//! What the fuzz target of the reports plays, and ordinary tests replay: any file as one of results.

use super::{Report, ResultFile, page, summary, usage_page};
use figure::text::plain;
use rfc2544::checkpoint;
use rfc2544::page::bench_page;

/// Reads `file` as every command that draws results would, and draws what it holds.
///
/// # Panics
/// When something of the file becomes markup, a drawing has a place that is no number, or findings are no JSON.
pub fn fuzz_report(file: &[u8]) {
    if let Ok(kept) = checkpoint::Checkpoint::read(file) {
        sound(&bench_page(&kept.results()));
    }
    let Ok(kept) = ResultFile::parse(file) else { return };
    if let ResultFile::Usage(results) = &kept {
        sound(&usage_page(results));
    }
    let report = Report::of([kept]);
    sound(&page(&report));
    assert!(!plain(&summary(&report)).contains('\u{1b}'));
    for figure in report.figures() {
        let drawing = figure.file();
        assert_eq!(drawing.matches("<svg").count(), 1, "{}", figure.id);
    }
    assert!(serde_json::to_vec(&report.findings()).is_ok());
}

/// One script, which is ours, and places that are numbers.
pub(super) fn sound(page: &str) {
    assert_eq!(page.matches("<script").count(), 1);
    for bad in ["=\"NaN", "=\"inf", "=\"-inf", "points=\"NaN"] {
        assert!(!page.contains(bad), "{bad}");
    }
}
