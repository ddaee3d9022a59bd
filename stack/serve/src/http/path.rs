//! From the target of a request to a path below the directory. The kernel refuses paths that leave the directory; the
//! checks here give a clear status before.

use super::status::Status;
use percent_encoding::percent_decode_str;

/// File that is sent for a directory.
const INDEX: &[u8] = b"index.html";

/// Writes the path of a target into `path`: relative, decoded, without `..`. A directory is replaced by its index.
pub(super) fn resolve(target: &str, path: &mut Vec<u8>) -> Result<(), Status> {
    let encoded = target.split(['?', '#']).next().unwrap_or_default();
    if !is_encoding_valid(encoded.as_bytes()) {
        return Err(Status::BAD_REQUEST);
    }
    path.clear();
    path.extend(percent_decode_str(encoded).skip_while(|byte| *byte == b'/'));
    if path.contains(&0) || path.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return Err(Status::BAD_REQUEST);
    }
    if path.last().is_none_or(|last| *last == b'/') {
        path.extend(INDEX);
    }
    Ok(())
}

/// Whether each `%` is followed by two hexadecimal digits.
fn is_encoding_valid(mut rest: &[u8]) -> bool {
    while let Some(at) = memchr::memchr(b'%', rest) {
        match rest.get(at + 1..at + 3) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => rest = &rest[at + 3..],
            _ => return false,
        }
    }
    true
}

/// Location of the directory that a target without a trailing slash names: a path of this host, not of another one
/// (`//host`).
pub(super) fn directory(target: &str) -> impl std::fmt::Display {
    let (path, query) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
    std::fmt::from_fn(move |f| write!(f, "/{}/{query}", path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_relative_paths() {
        for (target, expected) in [
            ("/", Ok("index.html")),
            ("/a/b.txt?c=%zz", Ok("a/b.txt")),
            ("//a//", Ok("a//index.html")),
            ("/%61%20b%2Fc", Ok("a b/c")),
            ("/..a/b..", Ok("..a/b..")),
            ("/../a", Err(400)),
            ("/a/%2e%2E/b", Err(400)),
            ("/a%2f..%2fb", Err(400)),
            ("/a%00", Err(400)),
            ("/%", Err(400)),
            ("/%4", Err(400)),
            ("/%g0", Err(400)),
        ] {
            let mut path = b"old".to_vec();
            let result = resolve(target, &mut path).map(|()| String::from_utf8(path).unwrap_or_default());
            assert_eq!(result.map_err(|status| status.code), expected.map(str::to_owned), "{target}");
        }
    }

    #[test]
    fn redirects_stay_on_this_host() {
        assert_eq!(directory("/a%20b?x=/").to_string(), "/a%20b/?x=/");
        assert_eq!(directory("//evil.example/a").to_string(), "/evil.example/a/");
    }
}
