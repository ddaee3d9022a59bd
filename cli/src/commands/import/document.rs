//! The configuration file that is written: sections with their keys, and comments about missing settings.

use std::fmt::Write;
use std::net::IpAddr;
use toml::Value;

/// Maximum width of a comment.
const WIDTH: usize = 100;

/// One section of the file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    header: String,
    keys: Vec<(String, Value)>,
    comments: Vec<String>,
    /// Whether it is written as a comment, because it cannot be used as it is.
    pub(super) is_disabled: bool,
}

impl Section {
    /// A section with this header, such as `[[port]]`.
    pub(super) fn new(header: &str) -> Self {
        Self { header: header.to_owned(), keys: Vec::new(), comments: Vec::new(), is_disabled: false }
    }

    /// Adds a key.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.push((key.to_owned(), value.into()));
    }

    /// Adds a key if there is a value.
    pub(super) fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// Whether it has this header and this name.
    fn is(&self, header: &str, name: &str) -> bool {
        let is_name = |(key, value): &(String, Value)| key == "name" && value.as_str() == Some(name);
        self.header == header && self.keys.iter().any(is_name)
    }

    /// Whether nothing else is unsafe without the section: a tunnel, a patch port or a mirror.
    pub(super) fn is_optional(&self) -> bool {
        let kinds = [Value::from("tunnel"), Value::from("patch")];
        self.header == "[[mirror]]"
            || self.keys.iter().any(|(key, value)| key == "kind" && kinds.contains(value))
    }

    /// Adds a comment before the section.
    pub(super) fn comment(&mut self, text: &str) {
        self.comments.push(text.to_owned());
    }

    /// The section as text.
    fn text(&self) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            wrapped(&mut text, comment);
        }
        let prefix = if self.is_disabled { "# " } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{prefix}{}", self.header);
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{prefix}{key} = {value}");
        }
        text
    }
}

/// Writes a comment in lines of at most [`WIDTH`] characters.
fn wrapped(text: &mut String, comment: &str) {
    let mut width = 0;
    for word in comment.split_whitespace() {
        let shown: String = word.chars().filter(|c| !c.is_control()).collect();
        if width == 0 || width + shown.chars().count() >= WIDTH {
            text.push_str(if width == 0 { "#" } else { "\n#" });
            width = 1;
        }
        text.push(' ');
        text.push_str(&shown);
        width += 1 + shown.chars().count();
    }
    text.push('\n');
}

/// A whole file.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Comments at its start.
    pub(super) head: Vec<String>,
    pub(super) sections: Vec<Section>,
}

impl Document {
    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for comment in &self.head {
            wrapped(&mut text, comment);
        }
        for section in &self.sections {
            text.push('\n');
            text.push_str(&section.text());
        }
        text
    }

    /// Whether the section with this header and name exists and is enabled.
    pub(super) fn has(&self, header: &str, name: &str) -> bool {
        self.sections.iter().any(|section| section.is(header, name) && !section.is_disabled)
    }

    /// The section with this header and name.
    pub(super) fn section(&mut self, header: &str, name: &str) -> Option<&mut Section> {
        self.sections.iter_mut().find(|section| section.is(header, name))
    }

    /// The section that has a line of the text, counted from 1.
    pub(super) fn section_at(&mut self, line: u32) -> Option<&mut Section> {
        let mut head = String::new();
        self.head.iter().for_each(|comment| wrapped(&mut head, comment));
        let mut end = head.lines().count();
        self.sections.iter_mut().find(|section| {
            end += 1 + section.text().lines().count();
            end >= line as usize
        })
    }
}

/// An inline table.
pub(super) fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    let entries = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Table(entries.collect())
}

/// A list.
pub(super) fn list<T: Into<Value>>(values: impl IntoIterator<Item = T>) -> Value {
    Value::Array(values.into_iter().map(Into::into).collect())
}

/// Seconds as a time of the file.
pub(super) fn seconds(seconds: i64) -> Value {
    format!("{seconds}s").into()
}

/// Milliseconds as a time of the file.
pub(super) fn milliseconds(milliseconds: i64) -> Value {
    if milliseconds % 1000 == 0 { seconds(milliseconds / 1000) } else { format!("{milliseconds}ms").into() }
}

/// An address of a collector in the form `ip:port`, with an IPv6 address in brackets or not.
pub(super) fn collector(text: &str) -> Option<String> {
    if text.parse::<IpAddr>().is_ok() || text.parse::<std::net::SocketAddr>().is_ok() {
        return Some(text.to_owned());
    }
    let (address, port) = text.rsplit_once(':')?;
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    Some(std::net::SocketAddr::new(address, port.parse().ok()?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_written_with_comments_and_quotes() {
        let mut section = Section::new("[[port]]");
        section.set("name", "a\"b");
        section.set("vlan", table([("trunk", Some(list([10_i64, 20]))), ("native", None)]));
        section.set_some("mtu", None::<i64>);
        section.comment("one\ntwo");
        let mut disabled = Section::new("[[mirror]]");
        disabled.set("age", milliseconds(1500));
        disabled.is_disabled = true;
        let mut document = Document { head: vec!["head".to_owned()], sections: vec![section, disabled] };
        let expected = "# head\n\n# one two\n[[port]]\nname = 'a\"b'\nvlan = { trunk = [10, 20] }\n\n\
            # [[mirror]]\n# age = \"1500ms\"\n";
        assert_eq!(document.text(), expected);
        let headers = [3, 6, 7, 9].map(|line| document.section_at(line).unwrap().header.clone());
        assert_eq!(headers, ["[[port]]", "[[port]]", "[[mirror]]", "[[mirror]]"]);
        assert!(document.section_at(10).is_none());
    }

    #[test]
    fn long_comments_are_wrapped() {
        let mut text = String::new();
        wrapped(&mut text, &"word ".repeat(50));
        assert!(
            text.lines().count() > 1
                && text.lines().all(|line| line.len() <= WIDTH + 2 && line.starts_with("# "))
        );
    }

    #[test]
    fn collectors_are_addresses_with_an_optional_port() {
        for (text, expected) in [
            ("10.0.0.9:6343", Some("10.0.0.9:6343")),
            ("10.0.0.9", Some("10.0.0.9")),
            ("[2001:db8::9]:1", Some("[2001:db8::9]:1")),
            ("host:1", None),
            ("10.0.0.9:x", None),
        ] {
            assert_eq!(collector(text).as_deref(), expected, "{text}");
        }
    }
}
