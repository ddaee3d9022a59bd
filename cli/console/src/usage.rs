//! Errors of a command line.

use clap::error::{ContextKind, ContextValue};
use std::io::Write;

/// Exits with a page of help, or with an error that begins as those of commands do.
pub fn refuse(program: &str, mut error: clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    // Fails if standard error is closed.
    let _ = write!(std::io::stderr(), "{}", text(program, &mut error));
    std::process::exit(error.exit_code());
}

fn text(program: &str, error: &mut clap::Error) -> String {
    // Words after `--` are never what was meant.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    let text = error.render().to_string();
    text.strip_prefix("error").map(|rest| format!("{program}{rest}")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn an_error_begins_with_the_program_and_advises_no_dashes() {
        let command = Command::new("p").arg(Arg::new("name"));
        let mut error = command.try_get_matches_from(["p", "--what"]).unwrap_err();
        assert!(error.to_string().contains("'-- --what'"), "{error}");
        let text = text("linerate", &mut error);
        assert!(text.starts_with("linerate: unexpected argument '--what' found"), "{text}");
        assert!(!text.contains("'-- "), "{text}");
    }
}
