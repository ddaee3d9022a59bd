//! `commands.md`: every command with its arguments.

use super::markdown;
use clap::{Arg, Command};

const INTRODUCTION: &str = "`linerate COMMAND --help` prints the same texts, and `linerate man --out DIR` writes man \
    pages. Every command accepts `--help`, `--version` and the options of `linerate` itself.";

/// The page.
pub(super) fn page() -> String {
    let mut command = crate::args::command();
    command.build();
    let mut page = markdown::page("Commands", INTRODUCTION);
    add(&mut page, &command, "linerate", true);
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
