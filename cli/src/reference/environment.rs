//! `environment.md`: environment variables that the programs and the preload library read.

use crate::{args, host, log};
use console::markdown;

/// Variables with the programs that read them, and their meaning.
const VARIABLES: [(&str, &str, &str); 10] = [
    (
        args::CONTROL_VARIABLE,
        "`linerate`",
        "Control socket that commands connect to and `run` opens, as `--control`, which overrides it. `serve` and `load` \
         do not read it.",
    ),
    (
        args::CREDENTIAL_VARIABLES[0],
        "`linerate`",
        "Certificates that the one of a switch at `https://HOST:PORT` is signed with, as `--control-ca`.",
    ),
    (args::CREDENTIAL_VARIABLES[1], "`linerate`", "Certificate of the client, as `--control-certificate`."),
    (args::CREDENTIAL_VARIABLES[2], "`linerate`", "Private key of the client, as `--control-key`."),
    (
        args::CREDENTIAL_VARIABLES[3],
        "`linerate`",
        "File with the token of the client, as `--control-token-file`.",
    ),
    (
        service::SOCKET_VARIABLE,
        "`liblinerate_preload.so`",
        "Unix socket of `linerate serve sockets` (`--listen`). Without it, all sockets stay with the kernel.",
    ),
    (
        console::manual::COMPLETE_VARIABLE,
        "`linerate`, `linerate-lab`",
        "Name of the shell in a request of a completion script. Set by the script only.",
    ),
    (
        host::RUNTIME_DIRECTORY_VARIABLE,
        "`linerate`",
        "Directory of the default control socket of a user other than root; an absolute path.",
    ),
    (
        log::JOURNAL_VARIABLE,
        "`linerate run`",
        "Set by systemd: with `--log auto` the log goes to the journal, unless standard error is a terminal.",
    ),
    (
        console::TERMINAL_VARIABLE,
        "`linerate`, `linerate-lab`",
        "Kind of the terminal. Progress and `top` are printed as lines if it is empty or `dumb`.",
    ),
];

/// The page.
pub(super) fn page() -> String {
    let about = "Environment variables that the programs and the preload library read when they start. Those of the tests \
        and of the build are in [testing](../develop/testing.md).";
    let mut page = super::page("Environment variables", about);
    let rows = VARIABLES
        .map(|(name, readers, meaning)| [format!("`{name}`"), readers.to_owned(), meaning.to_owned()]);
    markdown::table(&mut page, ["variable", "read by", "meaning"], rows);
    markdown::finish(&page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Names of variables in the string literals of a folder's sources.
    fn names(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                names(&entry, found);
            } else if entry.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(entry).unwrap();
                let literals = text.split("\"LINERATE_").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(literals.map(|name| format!("LINERATE_{name}")));
            }
        }
    }

    #[test]
    fn the_page_has_every_variable_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        for folder in ["cli/src", "cli/console/src", "lab/cli/src", "stack/service/src", "stack/preload/src"]
        {
            names(&root.join(folder), &mut found);
        }
        // Not the literals of this test.
        found.retain(|name| {
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && !name.ends_with('_')
        });
        assert!(found.len() >= 3, "{found:?}");
        let page = page();
        for name in found {
            assert!(page.contains(&format!("| `{name}` |")), "{name} is missing");
        }
    }
}
