//! Sessions of the page: a cookie with its expiry and their authentication code. The server keeps no list of sessions,
//! so that none can be exhausted, and a session lasts over a restart of the switch if the token does.

use super::token::{Token, hexadecimal};
use crypto::hmac;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time after which a session without requests ends.
const LIFETIME: Duration = Duration::from_hours(12);
/// Attributes of the cookie: scripts cannot read it, and other sites cannot cause that it is sent.
const ATTRIBUTES: &str = "HttpOnly; SameSite=Strict; Path=/";

/// Issues and verifies the cookies of one page.
#[derive(Debug)]
pub(crate) struct Sessions {
    key: hmac::Key,
    /// Code of the token itself: comparing codes takes the same time for every wrong token.
    token: hmac::Tag,
    /// Name of the cookie. Browsers send it to all ports of a host, so pages at other ports have other names.
    cookie: String,
}

/// A valid session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Value of `Set-Cookie` that prolongs the session, if half of its time is over.
    pub(crate) renewal: Option<String>,
}

impl Sessions {
    /// The sessions of the page at `port` that `token` opens.
    pub(crate) fn new(token: &Token, port: u16) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, token.text().as_bytes());
        let code = hmac::sign(&key, token.text().as_bytes());
        Self { key, token: code, cookie: format!("linerate-{port}") }
    }

    /// Value of `Set-Cookie` of a new session. Returns `None` if the token is wrong.
    pub(crate) fn open(&self, token: &str, now: SystemTime) -> Option<String> {
        let is_right = hmac::verify(&self.key, token.as_bytes(), self.token.as_ref()).is_ok();
        is_right.then(|| self.issue(now))
    }

    /// Value of `Set-Cookie` that removes the cookie.
    pub(crate) fn close(&self) -> String {
        format!("{}=; Max-Age=0; {ATTRIBUTES}", self.cookie)
    }

    /// The session of a request with these `Cookie` headers, if it is valid.
    pub(crate) fn find<'a>(
        &self,
        headers: impl IntoIterator<Item = &'a str>,
        now: SystemTime,
    ) -> Option<Session> {
        let pairs = headers.into_iter().flat_map(|header| header.split(';'));
        let mut values =
            pairs.filter_map(|pair| pair.trim().strip_prefix(self.cookie.as_str())?.strip_prefix('='));
        let left = values.find_map(|value| self.left(value, now))?;
        Some(Session { renewal: (left < LIFETIME / 2).then(|| self.issue(now)) })
    }

    /// Remaining time of the session of a cookie. Returns `None` if it is not authentic or over.
    fn left(&self, value: &str, now: SystemTime) -> Option<Duration> {
        let (expiry, code) = value.split_once('.')?;
        hmac::verify(&self.key, signed(expiry).as_bytes(), &bytes(code)?).ok()?;
        let expiry = UNIX_EPOCH.checked_add(Duration::from_secs(expiry.parse().ok()?))?;
        expiry.duration_since(now).ok()
    }

    fn issue(&self, now: SystemTime) -> String {
        let expiry = now.duration_since(UNIX_EPOCH).unwrap_or_default() + LIFETIME;
        let expiry = expiry.as_secs().to_string();
        let code = hexadecimal(hmac::sign(&self.key, signed(&expiry).as_bytes()).as_ref());
        let age = LIFETIME.as_secs();
        format!("{}={expiry}.{code}; Max-Age={age}; {ATTRIBUTES}", self.cookie)
    }
}

/// The text whose code authenticates a session. It contains a character that no token has.
fn signed(expiry: &str) -> String {
    format!("session until {expiry}")
}

/// Bytes of an authentication code in hexadecimal digits.
fn bytes(code: &str) -> Option<Vec<u8>> {
    let is_hexadecimal = code.len() == 64 && code.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&code[at..at + 2], 16).ok();
    if is_hexadecimal { (0..code.len()).step_by(2).map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;

    fn sessions(port: u16) -> (Sessions, Token) {
        let token = Token::random().unwrap();
        (Sessions::new(&token, port), token)
    }

    /// The part of `Set-Cookie` that a browser returns.
    fn returned(set: &str) -> &str {
        set.split(';').next().unwrap()
    }

    #[test]
    fn only_the_token_opens_a_session() {
        let (sessions, token) = sessions(9102);
        let set = sessions.open(token.text(), NOW).unwrap();
        assert!(set.starts_with("linerate-9102=43200."), "{set}");
        assert!(set.ends_with("; Max-Age=43200; HttpOnly; SameSite=Strict; Path=/"), "{set}");
        assert_eq!(sessions.find([returned(&set)], NOW), Some(Session { renewal: None }));
        let wrong = Token::random().unwrap();
        for wrong in ["", wrong.text(), &token.text()[1..], &format!("{} ", token.text())] {
            assert_eq!(sessions.open(wrong, NOW), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others_and_verified() {
        let (sessions, token) = sessions(1);
        let set = sessions.open(token.text(), NOW).unwrap();
        let cookie = returned(&set);
        let (expiry, code) = cookie.strip_prefix("linerate-1=").unwrap().split_once('.').unwrap();
        for good in [format!("a=b; {cookie}"), format!("linerate-1=x.y; {cookie};c=d")] {
            assert!(sessions.find([good.as_str()], NOW).is_some(), "{good}");
        }
        assert!(sessions.find(["a=b", cookie], NOW).is_some());
        let bad = [
            String::new(),
            "linerate-1".to_owned(),
            "linerate-1=".to_owned(),
            format!("linerate-1={expiry}."),
            format!("linerate-1=99999.{code}"),
            format!("linerate-1={expiry}.{}", "0".repeat(64)),
            format!("linerate-1={expiry}.{}", "é".repeat(32)),
            format!("linerate-2={expiry}.{code}"),
            format!("linerate-12={expiry}.{code}"),
        ];
        for bad in bad {
            assert_eq!(sessions.find([bad.as_str()], NOW), None, "{bad}");
        }
        // The token's own code is no session.
        let forged = format!("linerate-1={}.{}", token.text(), hexadecimal(sessions.token.as_ref()));
        assert_eq!(sessions.find([forged.as_str()], NOW), None);
    }

    #[test]
    fn a_session_is_renewed_and_ends() {
        let (sessions, token) = sessions(1);
        let set = sessions.open(token.text(), NOW).unwrap();
        let find = |cookie: &str, after: Duration| sessions.find([cookie], NOW + after);
        let later = LIFETIME / 2 + Duration::from_secs(1);
        let renewal = find(returned(&set), later).unwrap().renewal.unwrap();
        assert!(find(returned(&set), LIFETIME + Duration::from_secs(1)).is_none());
        assert!(find(returned(&renewal), LIFETIME + Duration::from_secs(1)).is_some());
        assert!(find(returned(&renewal), 2 * LIFETIME).is_none());
    }

    #[test]
    fn a_session_lasts_as_long_as_its_token() {
        let (sessions, token) = sessions(1);
        let set = sessions.open(token.text(), NOW).unwrap();
        let again = Sessions::new(&token, 1);
        assert!(again.find([returned(&set)], NOW).is_some());
        let other = Sessions::new(&Token::random().unwrap(), 1);
        assert!(other.find([returned(&set)], NOW).is_none());
        assert_eq!(sessions.close(), "linerate-1=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/");
    }
}
