//! Places in a configuration file, for errors and recorded keys.

/// A section of the file, by its position among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Section {
    File,
    Switch,
    Worker(usize),
    /// `[worker]`
    Workers,
    Placement,
    Conntrack,
    Bridge(usize),
    Static(usize, usize),
    Port(usize),
    Grant(usize),
    Bond(usize),
    Flow(usize),
    /// A text of `[[flow]]`.
    FlowText(usize, usize),
    Acl(usize),
    Mirror(usize),
    Underlay(usize),
}

/// One value: its section and its key. An empty key is the section itself.
pub(crate) type Place = (Section, &'static str);
