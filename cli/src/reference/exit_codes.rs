//! `exit-codes.md`: exit codes of all commands, and effect of signals.

use console::markdown;

/// Commands that handle signals, with their exit codes after one.
const SIGNALLED: [(&str, &str, &str); 7] = [
    ("`run`", "0", "The switch stops and removes its sockets."),
    ("`serve`", "0", "The server closes its port, removes its sockets and prints the summary."),
    ("`capture`", "0", "The capture ends; its file ends with a complete packet."),
    ("`stack capture`", "0", "The capture ends, and its file is complete."),
    (
        "`stack counters --interval`, `top --once`, `doctor`",
        "0",
        "The differences are those over the time until the signal; causes that `doctor` finds are exit code 1.",
    ),
    ("`guest` without `--duration`, `top`", "0", "They run until a signal; `guest` prints its results."),
    (
        "`guest --duration`, `gen`, `load`, `bench`, `demo`, `linerate-lab`",
        "1",
        "The result is partial; the results so far are printed or kept.",
    ),
];

/// The page.
pub(super) fn page() -> String {
    let mut page = super::page("Exit codes", "Of every command of `linerate` and `linerate-lab`.");
    let rows = console::EXIT_CODES.map(|(code, meaning)| [code.to_string(), meaning.to_owned()]);
    markdown::table(&mut page, ["code", "meaning"], rows);
    let about = "The first signal ends a command in order. A second one ends it at once, with exit code 1. Commands that \
        are not listed are ended by the signal itself; a shell reports 130 for SIGINT and 143 for SIGTERM.";
    let refused = format!(
        "A switch ends with exit code {} if a worker makes a system call that its role does not have \
         ([confinement](../guide/confinement.md#system-calls)).",
        confine::EXIT_CODE
    );
    markdown::section(&mut page, "## One SIGINT or SIGTERM", about);
    let rows = SIGNALLED.map(|(commands, code, meaning)| [commands, code, meaning].map(str::to_owned));
    markdown::table(&mut page, ["command", "code", "meaning"], rows);
    markdown::section(&mut page, "## A refused system call", &refused);
    markdown::finish(&page)
}
