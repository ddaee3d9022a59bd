//! What another process cannot continue of a running switch.

/// A part of the switch that another process cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The port with this name is opened again, for this reason.
    Port(String, String),
    /// A state of the bridge with this name is lost.
    Bridge(String, String),
}

impl Lost {
    /// Name of the object, and the reason.
    pub(crate) fn parts(&self) -> (String, &str) {
        match self {
            Self::Port(name, why) => (format!("port \"{name}\""), why),
            Self::Bridge(name, why) => (format!("bridge \"{name}\""), why),
        }
    }
}
