//! Generated pages of `docs/reference`: their files, and the page of a program's commands.

use crate::{Diagnostic, markdown};
use clap::{Arg, Command};
use std::path::Path;

/// Name of a page's file, and the page.
pub type Page = (&'static str, String);

/// Writes pages to `dir`.
pub fn write(dir: &Path, pages: impl IntoIterator<Item = Page>) -> anyhow::Result<()> {
    for (name, text) in pages {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|e| {
            Diagnostic::failed(path.display(), e, "name an existing directory that you may write to")
        })?;
    }
    Ok(())
}

/// Returns an error if a page differs from its file in `dir`, which `generator` writes.
pub fn check(dir: &Path, pages: impl IntoIterator<Item = Page>, generator: &str) -> Result<(), Diagnostic> {
    for (name, text) in pages {
        let path = dir.join(name);
        let is_current = std::fs::read_to_string(&path).is_ok_and(|committed| committed == text);
        if !is_current {
            return Err(Diagnostic::failed(path.display(), "stale page", format!("run `{generator}`")));
        }
    }
    Ok(())
}

/// The page of every command of a program, which `generator` writes.
pub fn commands(title: &str, mut command: Command, generator: &str) -> String {
    command.build();
    let name = command.get_name();
    let about = format!(
        "`{name} COMMAND --help` prints the same texts, and `{name} man --out DIR` writes man pages. Every command \
         accepts `--help`, `--version` and the options of `{name}` itself."
    );
    let mut page = markdown::page(title, &about, generator);
    add(&mut page, &command, name, true);
    markdown::finish(&page)
}

fn add(page: &mut String, command: &Command, name: &str, is_root: bool) {
    let about = command.get_about().map(|text| format!("{text}.")).unwrap_or_default();
    markdown::section(page, &format!("## `{name}`"), &about);
    if !command.has_subcommands() {
        let usage = command.clone().render_usage().to_string();
        markdown::code(page, "", usage.trim_start_matches("Usage: "));
    }
    let is_own = |arg: &&Arg| {
        let is_help = ["help", "version"].contains(&arg.get_id().as_str());
        !arg.is_hide_set() && !is_help && (is_root || !arg.is_global_set())
    };
    let rows: Vec<_> = command.get_arguments().filter(is_own).map(row).collect();
    if !rows.is_empty() {
        markdown::table(page, ["argument", "default", "values", "meaning"], rows);
    }
    if let Some(text) = command.get_after_help() {
        markdown::paragraph(page, &text.to_string());
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        add(page, sub, &format!("{name} {}", sub.get_name()), false);
    }
}

fn row(arg: &Arg) -> [String; 4] {
    let list = |values: Vec<String>| values.join(", ");
    let takes_value = arg.get_action().takes_values();
    let defaults = arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy()));
    let values = arg.get_possible_values().into_iter().filter(|value| takes_value && !value.is_hide_set());
    let about = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    [
        format!("`{}`", names(arg)),
        if takes_value { list(defaults.collect()) } else { String::new() },
        list(values.map(|value| format!("`{}`", value.get_name())).collect()),
        about,
    ]
}

/// `-o, --output <FORMAT>`
fn names(arg: &Arg) -> String {
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).and_then(<[_]>::first);
    let value = value.map(|name| format!("<{name}>")).unwrap_or_default();
    if arg.is_positional() {
        return value;
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    format!("{} {value}", names.join(", ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_argument_that_is_not_hidden() {
        let sub = |name: &'static str| Command::new(name).arg(Arg::new("size").long("size").value_name("N"));
        let command = Command::new("tool").subcommands([sub("shown"), sub("hidden").hide(true)]);
        let page = commands("Commands", command, "tool reference");
        assert!(page.contains("## `tool shown`") && page.contains("| `--size <N>` |"), "{page}");
        assert!(!page.contains("hidden") && !page.contains("--help` |"), "{page}");
    }
}
