//! Names the contents of each ring line, so that counts by line show the fields that share it.

use super::Layout;
use super::layout::Ring;
use sim::memory::{Address, LINE};

impl Layout {
    /// Address of the first byte after both rings.
    pub fn rings_end(&self) -> Address {
        self.tx.end
    }

    /// Returns the contents of each line of the rings, from the arena's start, such as
    /// `rx.last_avail rx.last_used rx.desc[0..3]`. Empty for a line of padding.
    pub fn line_names(&self) -> Vec<String> {
        let lines = self.rings_end().div_ceil(LINE);
        (0..lines).map(|line| self.line_name(line * LINE)).collect()
    }

    fn line_name(&self, from: Address) -> String {
        let rings = [("rx", &self.rx), ("tx", &self.tx)];
        let parts: Vec<String> = rings.iter().flat_map(|(name, ring)| self.parts(name, ring, from)).collect();
        parts.join(" ")
    }

    fn parts(&self, name: &str, ring: &Ring, from: Address) -> Vec<String> {
        let indices =
            [("last_avail", ring.last_avail), ("last_used", ring.last_used), ("last_pool", ring.last_pool)];
        let within = |at: Address| (from..from + LINE).contains(&at);
        let found = indices.iter().filter(|(_, at)| within(*at)).map(|(field, _)| format!("{name}.{field}"));
        found.chain(self.descriptors_in(name, ring, from)).collect()
    }

    /// Returns the descriptors that overlap the line.
    fn descriptors_in(&self, name: &str, ring: &Ring, from: Address) -> Option<String> {
        let (size, count) = (self.config.descriptor, self.config.ring);
        let first = from.saturating_sub(ring.descriptors) / size;
        let end = (from + LINE).saturating_sub(ring.descriptors).div_ceil(size).min(count);
        match end.checked_sub(first) {
            None | Some(0) => None,
            Some(1) => Some(format!("{name}.desc[{first}]")),
            Some(_) => Some(format!("{name}.desc[{first}..{end}]")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors;
    use crate::model::Config;

    #[test]
    fn the_base_shares_its_first_line_and_the_border_between_the_rings() {
        let names = Layout::new(&Config::default()).line_names();
        assert_eq!(names[0], "rx.last_avail rx.last_used rx.last_pool rx.desc[0..3]");
        assert_eq!(names[1], "rx.desc[3..7]");
        let border = names.iter().find(|name| name.contains("tx.last_avail")).expect("there is one");
        assert!(border.starts_with("rx.desc["), "{border}");
    }

    #[test]
    fn indices_on_separate_lines_share_no_line() {
        let a = factors::find("a").expect("it is listed");
        for name in Layout::new(&a.config).line_names() {
            assert!(!name.contains("last_") || !name.contains(' '), "{name}");
        }
    }

    #[test]
    fn every_descriptor_and_index_of_every_configuration_is_named() {
        for named in factors::everything() {
            let names = Layout::new(&named.config).line_names();
            let all = names.join(" ");
            for ring in ["rx", "tx"] {
                let ends = [format!("{ring}.last_avail"), format!("{ring}.last_used")];
                assert!(ends.iter().all(|end| all.contains(end)), "{}: {all}", named.name);
                let last = format!("..{}]", named.config.ring);
                let alone = format!("{ring}.desc[{}]", named.config.ring - 1);
                assert!(all.contains(&last) || all.contains(&alone), "{}", named.name);
            }
        }
    }
}
