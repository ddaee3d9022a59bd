//! `--out`: files of a result. They are validated before the measurement, without leaving files behind, and written
//! after it.

use crate::Diagnostic;
use figure::Figure;
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const REMEDY: &str = "name a path that you may write to";

/// Format of a file, selected by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `FILE.json`: the result.
    Json,
    /// `FILE.toml`: a profile of a processor.
    Toml,
    /// `FILE.html`: one self-contained page with figures.
    Html,
    /// `DIR/`, or an existing directory: each figure as an SVG file.
    Svg,
}

impl Format {
    /// Format of `path`, or `None` if its ending is unknown.
    fn of(path: &Path) -> Option<Self> {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir() {
            return Some(Self::Svg);
        }
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Json => "FILE.json",
            Self::Toml => "FILE.toml",
            Self::Html => "FILE.html",
            Self::Svg => "DIR/",
        }
    }
}

/// The files of `--out`.
#[derive(Clone, Debug, Default)]
pub struct OutFiles(Vec<(Format, PathBuf)>);

impl OutFiles {
    /// Validates the endings of `paths`, and that each is writable.
    pub fn validate(paths: &[PathBuf], formats: &[Format]) -> Result<Self, Diagnostic> {
        let one = |path: &PathBuf| {
            let place = || format!("--out {}", path.display());
            let Some(format) = Format::of(path).filter(|format| formats.contains(format)) else {
                let examples: Vec<_> = formats.iter().map(|format| format.example()).collect();
                let remedy = format!("name {}", examples.join(" or "));
                return Err(Diagnostic::bad(place(), "the ending is not that of a supported format", remedy));
            };
            let writable = if format == Format::Svg { try_folder(path) } else { try_file(path) };
            writable.map_err(|error| Diagnostic::bad(place(), error, REMEDY))?;
            Ok((format, path.clone()))
        };
        paths.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Whether no file is to be written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the files of this format; existing ones are replaced.
    pub fn write(&self, format: Format, text: impl FnOnce() -> String) -> Result<(), Diagnostic> {
        let mut paths = self.of(format).peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        let text = text();
        paths.try_for_each(|path| {
            put(path, &text)?;
            crate::note(&format!("wrote {}", path.display()));
            Ok(())
        })
    }

    /// Writes the result to the files in JSON.
    pub fn json<T: Serialize>(&self, result: &T) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(result)? + "\n";
        Ok(self.write(Format::Json, || text)?)
    }

    /// Writes each figure into the directories, which are created if missing.
    pub fn figures(&self, figures: impl Fn() -> Vec<Figure>) -> Result<(), Diagnostic> {
        self.of(Format::Svg).try_for_each(|folder| {
            let figures = figures();
            create(folder)?;
            for figure in &figures {
                put(&folder.join(format!("{}.svg", figure.id)), &figure.file())?;
            }
            crate::note(&format!("wrote {} figures into {}", figures.len(), folder.display()));
            Ok(())
        })
    }

    fn of(&self, format: Format) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().filter(move |(of, _)| *of == format).map(|(_, path)| path)
    }
}

/// Creates a directory of `--out` if it is missing.
pub(crate) fn create(folder: &Path) -> Result<(), Diagnostic> {
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))
}

/// Checks that a file is writable. A file that did not exist is removed again.
fn try_file(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            File::options().append(true).open(file).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Checks that a directory is writable, or its nearest existing ancestor if it does not exist.
fn try_folder(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
    let there = there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    try_file(&there.join(format!(".linerate-{}.svg", std::process::id())))
}

fn put(file: &Path, text: &str) -> Result<(), Diagnostic> {
    fs::write(file, text).map_err(|error| unwritten(file, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::failed(format!("--out {}", path.display()), error, REMEDY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_selects_the_format_among_the_supported_ones() {
        for (path, format) in [
            ("a.json", Some(Format::Json)),
            ("a/b.html", Some(Format::Html)),
            ("a.toml", Some(Format::Toml)),
            ("figures/", Some(Format::Svg)),
            ("/", Some(Format::Svg)),
            ("a.txt", None),
            ("a", None),
        ] {
            assert_eq!(Format::of(Path::new(path)), format, "{path}");
        }
        let refused = OutFiles::validate(&["a.toml".into()], &[Format::Json, Format::Svg]).unwrap_err();
        assert_eq!(refused.code, crate::BAD_INPUT);
        assert_eq!(
            (refused.place.as_str(), refused.remedy.as_str()),
            ("--out a.toml", "name FILE.json or DIR/")
        );
    }
}
