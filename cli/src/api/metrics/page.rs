//! Writes metrics in the text format of Prometheus or of `OpenMetrics`. They differ in the names of counters in `HELP`
//! and `TYPE`, in units, and in the end.

use std::fmt::{Display, Write};

/// Words that are units at the end of a name.
const UNITS: [&str; 4] = ["bytes", "cycles", "packets", "seconds"];

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Format {
    /// Exposition format 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that the values of `Accept` prefer; that of Prometheus if they prefer neither.
    pub(in crate::api) fn accepted<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for range in values.flat_map(|value| value.split(',')) {
            let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
            let parameters = parameters.split(';').filter_map(|part| part.trim().split_once('='));
            let find = |key: &str| parameters.clone().find(|(own, _)| *own == key).map(|(_, value)| value);
            let quality = find("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
            let is_known = find("version").is_none_or(|version| version == "1.0.0");
            match kind.trim().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" if is_known => open = open.max(quality),
                "text/plain" => text = text.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(in crate::api) fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One sample of a distribution of a port.
pub(super) struct Sample {
    pub(super) port: String,
    pub(super) suffix: &'static str,
    /// End of the bucket.
    pub(super) le: Option<String>,
    pub(super) value: String,
}

/// Metrics in the making.
pub(super) struct Page {
    format: Format,
    text: String,
    /// Name, type and meaning of all metrics, also of those without samples.
    pub(super) metrics: Vec<[String; 3]>,
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new(), metrics: Vec::new() }
    }

    /// The text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Adds a metric with its samples: labels and value. A metric without samples is left out.
    pub(super) fn add<'a, L: IntoIterator<Item = (&'static str, &'a dyn Display)>>(
        &mut self,
        metric @ (name, ..): (&str, &str, &str),
        samples: impl IntoIterator<Item = (L, u64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        self.begin(metric, samples.peek().is_some());
        for (labels, value) in samples {
            let labels: Vec<_> =
                labels.into_iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            self.write(format_args!("linerate_{name}{{{}}} {value}\n", labels.join(",")));
        }
    }

    /// Adds a histogram or summary whose samples have the suffixes and further labels that they need.
    pub(super) fn add_distribution(
        &mut self,
        metric @ (name, ..): (&str, &str, &str),
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let mut samples = samples.into_iter().peekable();
        self.begin(metric, samples.peek().is_some());
        for Sample { port, suffix, le, value } in samples {
            let le = le.map(|le| format!(",le=\"{le}\"")).unwrap_or_default();
            self.write(format_args!("linerate_{name}{suffix}{{port=\"{}\"{le}}} {value}\n", escaped(&port)));
        }
    }

    /// Records a metric, and writes its description if it has samples.
    fn begin(&mut self, (name, kind, help): (&str, &str, &str), has_samples: bool) {
        self.metrics.push([format!("linerate_{name}"), kind.to_owned(), help.to_owned()]);
        if !has_samples {
            return;
        }
        let is_open = self.format == Format::OpenMetrics;
        let family = if is_open { name.trim_end_matches("_total") } else { name };
        self.write(format_args!("# HELP linerate_{family} {help}\n# TYPE linerate_{family} {kind}\n"));
        let unit = family.rsplit('_').next().filter(|word| is_open && UNITS.contains(word));
        if let Some(unit) = unit {
            self.write(format_args!("# UNIT linerate_{family} {unit}\n"));
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

fn escaped(value: &dyn Display) -> String {
    value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_accept_chooses_the_format() {
        let open = |text: &str| Format::accepted([text].into_iter()) == Format::OpenMetrics;
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert!(open(prometheus));
        assert!(open("application/openmetrics-text; version=1.0.0"));
        assert!(open("text/plain;q=0.5, Application/OpenMetrics-Text"));
        for other in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
            "application/openmetrics-text;version=9.9.9",
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
        ] {
            assert!(!open(other), "{other}");
        }
    }

    #[test]
    fn openmetrics_names_families_without_total_and_has_units_and_an_end() {
        let text = |format| {
            let mut page = Page::new(format);
            let port: &dyn Display = &"a";
            page.add(("port_bytes_total", "counter", "Bytes."), [([("port", port)], 7)]);
            page.add(("flows", "gauge", "Flows."), [([("port", port)], 1)]);
            page.add::<[(&str, &dyn Display); 0]>(("none_total", "counter", "None."), []);
            page.finish()
        };
        let open = "# HELP linerate_port_bytes Bytes.\n# TYPE linerate_port_bytes counter\n\
            # UNIT linerate_port_bytes bytes\nlinerate_port_bytes_total{port=\"a\"} 7\n\
            # HELP linerate_flows Flows.\n# TYPE linerate_flows gauge\nlinerate_flows{port=\"a\"} 1\n# EOF\n";
        assert_eq!(text(Format::OpenMetrics), open);
        let plain = "# HELP linerate_port_bytes_total Bytes.\n# TYPE linerate_port_bytes_total counter\n\
            linerate_port_bytes_total{port=\"a\"} 7\n\
            # HELP linerate_flows Flows.\n# TYPE linerate_flows gauge\nlinerate_flows{port=\"a\"} 1\n";
        assert_eq!(text(Format::Prometheus), plain);
    }
}
