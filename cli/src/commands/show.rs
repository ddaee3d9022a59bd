//! Answers of the switch as tables. Asks nothing and knows no socket.

pub(crate) mod placing;
pub(crate) mod tables;
