//! Actions compared with frames that Scapy built. An end-to-end test compares the vectors with those of an installed
//! Scapy.

use super::edits::{begin, finish};
use flow::{Action, Field, Subfield};
use port::Offload;

const VECTORS: &str = include_str!("scapy/vectors.txt");

fn number(text: &str) -> u128 {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn field(name: &str) -> Field {
    Field::from_name(name).unwrap_or_else(|| panic!("field {name}"))
}

fn action(text: &str) -> Action {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ethertype = |text: &str| number(text) as u16;
    match words[..] {
        ["set", name, value] => {
            let field = field(name);
            Action::SetField { field, value: number(value), mask: field.full() }
        }
        ["set", name, value, mask] => {
            Action::SetField { field: field(name), value: number(value), mask: number(mask) }
        }
        ["move", from, to] => {
            Action::Move { from: Subfield::whole(field(from)), to: Subfield::whole(field(to)) }
        }
        ["push_vlan", tpid] => Action::PushVlan(ethertype(tpid)),
        ["pop_vlan"] => Action::PopVlan,
        ["push_mpls", kind] => Action::PushMpls(ethertype(kind)),
        ["pop_mpls", kind] => Action::PopMpls(ethertype(kind)),
        ["push_pbb", kind] => Action::PushPbb(ethertype(kind)),
        ["pop_pbb"] => Action::PopPbb,
        ["set_mpls_ttl", ttl] => Action::SetMplsTtl(number(ttl) as u8),
        ["dec_mpls_ttl"] => Action::DecMplsTtl,
        ["set_nw_ttl", ttl] => Action::SetNwTtl(number(ttl) as u8),
        ["dec_nw_ttl"] => Action::DecNwTtl(Box::from([0])),
        ["copy_ttl_in"] => Action::CopyTtlIn,
        ["copy_ttl_out"] => Action::CopyTtlOut,
        _ => panic!("action {text}"),
    }
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn actions_give_the_frames_of_scapy() {
    let mut compared = 0;
    for line in VECTORS.lines() {
        let [actions, before, after] = line.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let (before, after) = (bytes(before), bytes(after));
        let mut rewriter = begin(&before, Offload::NONE);
        for text in actions.split(", ") {
            assert_eq!(rewriter.apply(&action(text)), Ok(true), "{text} of {actions}");
        }
        assert_eq!(finish(&before, Offload::NONE, &rewriter).0, after, "{actions}");
        compared += 1;
    }
    assert_eq!(compared, 354);
}
