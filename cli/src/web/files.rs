//! The files of the page, which are part of the binary: it needs no other host and no folder.

/// A file with its path and media type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageFile {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Declares [`FILES`]: each file has the path of its name in `page`.
macro_rules! files {
    ($($name:literal: $media_type:ident,)*) => {
        /// All files except the document itself, which is [`DOCUMENT`].
        pub(crate) const FILES: &[PageFile] = &[$(PageFile {
            path: concat!("/", $name),
            media_type: $media_type,
            text: include_str!(concat!("page/", $name)),
        },)*];
    };
}

/// The document, at `/`.
pub(crate) const DOCUMENT: PageFile =
    PageFile { path: "/", media_type: HTML, text: include_str!("page/index.html") };

files! {
    "icon.svg": SVG,
    "base.css": CSS,
    "panels.css": CSS,
    "app.js": SCRIPT,
    "bridges.js": SCRIPT,
    "capture.js": SCRIPT,
    "chart.js": SCRIPT,
    "connection.js": SCRIPT,
    "detail.js": SCRIPT,
    "dom.js": SCRIPT,
    "events.js": SCRIPT,
    "fdb.js": SCRIPT,
    "findings.js": SCRIPT,
    "history.js": SCRIPT,
    "latency.js": SCRIPT,
    "ports.js": SCRIPT,
    "rates.js": SCRIPT,
    "table.js": SCRIPT,
    "theme.js": SCRIPT,
    "totals.js": SCRIPT,
    "units.js": SCRIPT,
    "workers.js": SCRIPT,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names of the files in `page`.
    fn folder() -> BTreeSet<String> {
        let entries = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/page")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn all_files_of_the_folder_are_served() {
        let served = FILES.iter().map(|file| file.path[1..].to_owned());
        assert_eq!(served.chain(["index.html".to_owned()]).collect::<BTreeSet<_>>(), folder());
    }

    #[test]
    fn no_file_names_another_host_or_writes_markup() {
        for file in FILES.iter().chain([&DOCUMENT]) {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for forbidden in ["http:", "https:", "@import", "url(", "innerHTML", "outerHTML", "eval("] {
                assert!(!text.contains(forbidden), "{} contains {forbidden}", file.path);
            }
        }
    }

    #[test]
    fn the_document_has_no_scripts_or_styles_of_its_own() {
        assert!(!DOCUMENT.text.contains("style=") && !DOCUMENT.text.contains("<style"));
        let scripts = DOCUMENT.text.matches("<script").count();
        assert_eq!(scripts, DOCUMENT.text.matches("<script type=\"module\" src=\"/").count());
        assert!(!DOCUMENT.text.contains(" onclick=") && !DOCUMENT.text.contains("javascript:"));
    }
}
