//! Connection tracking in the terms of flows: operations as its requests, and its states as fields.

use super::operation::CtOperation;
use crate::action::Nat;
use crate::{Field, Key};
use conntrack::{Direction, Helper, Request, State};
use std::net::IpAddr;

/// The request of an operation.
pub(crate) fn request(operation: &CtOperation, port: u16) -> Request {
    let CtOperation { commit, force, zone, mark, label, .. } = *operation;
    let helper = match operation.helper {
        21 => Helper::Ftp,
        69 => Helper::Tftp,
        _ => Helper::None,
    };
    Request { zone, commit, force, nat: operation.nat.as_ref().map(nat), mark, label, helper, port }
}

fn nat(nat: &Nat) -> conntrack::Nat {
    let direction = |is_source| if is_source { Direction::Source } else { Direction::Destination };
    conntrack::Nat {
        direction: nat.source.map(direction),
        addresses: nat.range.addresses,
        ports: nat.range.ports,
        is_random: nat.random,
        is_persistent: nat.persistent,
    }
}

/// Sets the fields of the connection state.
pub(crate) fn set_state(key: &mut Key, state: &State) {
    let original = state.original;
    let (source, destination) = original.map_or((0, 0), |tuple| match tuple.message() {
        Some(kind) => (kind.into(), 0),
        None => tuple.ports(),
    });
    let ends = original.map(|tuple| (tuple.source(), tuple.destination()));
    let (v4, v6) = match ends {
        Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
            ((source.to_bits(), destination.to_bits()), (0, 0))
        }
        Some((IpAddr::V6(source), IpAddr::V6(destination))) => {
            ((0, 0), (source.to_bits(), destination.to_bits()))
        }
        _ => ((0, 0), (0, 0)),
    };
    // Each with a constant field, so that its place is one as well.
    key.set(Field::CtState, state.bits.into());
    key.set(Field::CtZone, state.zone.into());
    key.set(Field::CtMark, state.mark.into());
    key.set(Field::CtLabel, state.label);
    key.set(Field::CtNwProto, original.map_or(0, |tuple| tuple.protocol()).into());
    key.set(Field::CtNwSrc, v4.0.into());
    key.set(Field::CtNwDst, v4.1.into());
    key.set(Field::CtIpv6Src, v6.0);
    key.set(Field::CtIpv6Dst, v6.1);
    key.set(Field::CtTpSrc, source.into());
    key.set(Field::CtTpDst, destination.into());
}
