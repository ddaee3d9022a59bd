use super::*;
use crate::interface::{InterfaceError, Place};

#[test]
fn an_interface_that_is_not_there_is_refused_before_anything_is_made() {
    let place = Place { interface: "no-such-if".to_owned(), netns: None };
    let error = open(Options::new(place.clone())).err();
    assert_eq!(error, Some(InterfaceError::Missing(place)));
}
