//! The processor of this machine: its name and the feature flags that the kernel reports.

/// A processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Model name, with family and model number
    pub name: String,
    skylake_x: bool,
    flags: Vec<String>,
}

impl Processor {
    /// The processor that this process runs on.
    pub fn here() -> Processor {
        Processor::read(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// Parses the text of `/proc/cpuinfo`.
    pub fn read(text: &str) -> Processor {
        let field = |wanted: &str| {
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .find_map(|(key, value)| (key.trim() == wanted).then(|| value.trim().to_owned()))
        };
        let family = field("cpu family").zip(field("model"));
        let suffix =
            family.map_or(String::new(), |(family, model)| format!(" (family {family}, model {model})"));
        let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        // Model 85 with a later stepping is Cascade Lake or newer.
        let early = field("stepping").and_then(|number| number.parse::<u8>().ok()).is_some_and(|n| n <= 4);
        let intel = field("vendor_id").as_deref() == Some("GenuineIntel");
        let skylake_x =
            intel && early && field("cpu family").zip(field("model")) == Some(("6".into(), "85".into()));
        let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
        Processor {
            name: name + &suffix,
            skylake_x,
            flags: flags.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Whether the kernel reports this flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    /// Whether the processor has the performance events of Skylake-X.
    pub fn is_skylake_x(&self) -> bool {
        self.skylake_x
    }

    /// Whether CLDEMOTE is implemented. If so, it cannot serve as a null control.
    pub fn demotes(&self) -> bool {
        self.has("cldemote")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu clwb\n\n\
                        processor\t: 1\nmodel name\t: other\n";

    #[test]
    fn a_processor_is_named_with_its_model() {
        let processor = Processor::read(INFO);
        assert_eq!(processor.name, "AMD EPYC (family 25, model 17)");
        assert!(processor.has("clwb") && !processor.has("cl"));
    }

    #[test]
    fn cascade_lake_is_not_skylake_x() {
        let read = |stepping: u8| {
            let text = format!("vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\nstepping: {stepping}\n");
            Processor::read(&text).is_skylake_x()
        };
        assert!(read(4) && !read(7) && !Processor::read(INFO).is_skylake_x());
    }
}
