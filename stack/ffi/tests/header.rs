//! The header is generated from the functions, and the committed one must not be stale.
//!
//! `LINERATE_UPDATE=1 cargo test -p linerate-ffi --features header --test header` writes it.

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, Language, Style};
use std::path::Path;

const HEADER: &str = "/* linerate: the TCP/IP stack of one core over packet ports, for programs in C.
 *
 * Generated from stack/ffi/src; do not edit.
 *
 * Functions return 0 or a positive result, or a negative error number of errno.h; linerate_last_error has the reason
 * then. A host is used by one thread at a time. Pointers to arguments are not kept after a call, except by
 * linerate_buffer_wrap. Text is UTF-8 and ends with zero. Objects that were freed must not be used.
 */";

/// Source files in the order of the header.
const SOURCES: [&str; 11] = [
    "call",
    "host",
    "open",
    "address",
    "configure",
    "buffer",
    "tcp_options",
    "tcp",
    "udp",
    "queue",
    "counters",
];

fn generated() -> String {
    let config = Config {
        language: Language::C,
        header: Some(HEADER.to_owned()),
        include_guard: Some("LINERATE_H".to_owned()),
        cpp_compat: true,
        usize_is_size_t: true,
        style: Style::Both,
        documentation_style: DocumentationStyle::C,
        line_length: 110,
        enumeration: EnumConfig { enum_class: false, ..EnumConfig::default() },
        ..Config::default()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = SOURCES.iter().map(|name| folder.join(name).with_extension("rs"));
    let builder = sources.fold(Builder::new().with_config(config), Builder::with_src);
    let mut bytes = Vec::new();
    builder.generate().expect("the sources parse").write(&mut bytes);
    String::from_utf8(bytes).expect("the header is text")
}

#[test]
fn committed_header_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/linerate.h");
    let new = generated();
    if std::env::var_os("LINERATE_UPDATE").is_some() {
        std::fs::write(&path, &new).expect("the header is written");
    }
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(old == new, "{} is stale; LINERATE_UPDATE=1 with this test writes it", path.display());
}
