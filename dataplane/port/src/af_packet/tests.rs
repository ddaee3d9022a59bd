use super::*;
use crate::interface::{InterfaceError, Place};

#[test]
fn missing_interface_is_rejected_first() {
    let place = Place { interface: "no-such-if".to_owned(), netns: None };
    let error = open(Options::new(place.clone())).err();
    assert_eq!(error, Some(InterfaceError::Missing(place)));
}
