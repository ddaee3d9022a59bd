//! The web page of a running switch, apart from its server (`api::web`): its files, the token that opens it, the cookie
//! of a session, and the headers that protect both. Knows neither sockets nor the data plane.

pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod session;
pub(crate) mod token;
