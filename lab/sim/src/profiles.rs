//! Bundled processor profiles by name.

use crate::Profile;

/// Names and TOML texts.
const KNOWN: [(&str, &str); 2] = [
    ("i9-7940x", include_str!("../profiles/i9-7940x.toml")),
    ("two-sockets", include_str!("../profiles/two-sockets.toml")),
];

/// Default profile: the published study's processor.
pub const DEFAULT: &str = "i9-7940x";

/// Profile for copies between host and guest, which need a second socket.
pub const TWO_SOCKETS: &str = "two-sockets";

/// Unknown profile name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{name}`: the nearest is `{nearest}`")]
pub struct UnknownProfile {
    /// Requested name
    pub name: String,
    /// Nearest known name
    pub nearest: String,
}

/// Returns all profile names.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// Returns the profile with this name.
pub fn find(name: &str) -> Result<Profile, UnknownProfile> {
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    let profile = known.and_then(|(_, text)| Profile::parse(text).ok());
    profile.ok_or_else(|| UnknownProfile { name: name.to_owned(), nearest: nearest(name) })
}

fn nearest(name: &str) -> String {
    let far = |other: &str| (strsim::jaro_winkler(name, other) * 1e6) as u64;
    names().max_by_key(|other| far(other)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_valid() {
        for (name, text) in KNOWN {
            assert!(Profile::parse(text).is_ok() && find(name).is_ok(), "{name}");
        }
        assert!(names().any(|name| name == DEFAULT));
    }

    #[test]
    fn unknown_name_is_reported_with_the_nearest_known_name() {
        assert_eq!(find("i9-7940").unwrap_err().nearest, "i9-7940x");
    }
}
