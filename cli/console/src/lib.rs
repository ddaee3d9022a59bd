//! Terminal output of the linerate programs: tables and JSON, progress, errors with remedies, and result files.

#![forbid(unsafe_code)]

mod checkpoint;
mod diagnostic;
pub mod duration;
pub mod manual;
pub mod markdown;
mod output;
pub mod progress;
pub mod reference;
mod signals;
pub mod units;
mod usage;
pub mod words;
pub mod written;

pub use checkpoint::CheckpointArgs;
pub use diagnostic::{BAD_INPUT, Diagnostic, EXIT_CODES, FAILED, verdict};
pub use duration::Span;
pub use output::{Output, QuietArgs, ResultArgs, ShowArgs};
pub use signals::{SIGNAL_POLL, exit_on_signals, register_signals, sleep, stop_on_signals};
pub use usage::refuse;

use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints `value` as JSON, or as formatted by `table`.
pub fn print<T: Serialize>(
    value: &T,
    output: Output,
    table: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    let text = match output {
        Output::Table => table(value),
        Output::Json => serde_json::to_string_pretty(value)?,
    };
    line(&text)
}

/// Prints text with one trailing newline.
pub fn line(text: &str) -> anyhow::Result<()> {
    raw(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
}

/// Whether `-q` is given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether only warnings and errors are printed to standard error.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a note or progress to standard error, to keep it out of the result on standard output. `-q` suppresses it.
pub fn note(text: &str) {
    if !is_quiet() {
        warn(text);
    }
}

/// Prints a warning to standard error.
pub fn warn(text: &str) {
    // Fails if standard error is closed.
    let _ = writeln!(io::stderr(), "{}", text.trim_end_matches('\n'));
}

/// Environment variable with the kind of the terminal.
pub const TERMINAL_VARIABLE: &str = "TERM";

/// Whether `output` is a terminal that supports cursor control.
pub fn is_screen(output: &impl IsTerminal) -> bool {
    let kind = std::env::var_os(TERMINAL_VARIABLE).unwrap_or_default();
    output.is_terminal() && !kind.is_empty() && kind != "dumb"
}

/// Prints bytes unchanged.
pub fn raw(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // The caller of `main` knows it: the reader has enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let remedy = "free space, or write the output elsewhere; the command itself has succeeded";
            Err(Diagnostic::failed("standard output", error, remedy).into())
        }
        written => Ok(written?),
    }
}

/// Formats a table without borders. Columns whose title begins with `>` are right-aligned.
pub fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(titles.iter().map(|title| title.trim_start_matches('>')));
    for row in rows {
        table.add_row(row);
    }
    for (column, title) in table.column_iter_mut().zip(titles) {
        if title.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_in_one_column_and_words_begin_in_one() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        assert_eq!(table(&["NAME", ">N"], rows), "NAME    N\na       1\nlong  100");
    }
}
