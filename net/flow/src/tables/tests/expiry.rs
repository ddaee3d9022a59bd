//! Timeouts.

use super::*;
use crate::tables::{Control, Modification, RemovedReason, limits};

fn control(flows: impl IntoIterator<Item = FlowMod>) -> Control {
    let mut control = Control::new(1);
    for flow in flows {
        control.apply(&Modification::Flow(Box::new(flow)), now(0)).unwrap();
    }
    control
}

#[test]
fn flows_expire_by_idle_and_hard_timeout() {
    let idle = FlowMod { idle_timeout: 10, ..add(port(1), 1) };
    let hard = FlowMod { hard_timeout: 15, idle_timeout: 12, ..add(port(2), 2) };
    let mut control = control([idle, hard, add(port(3), 3)]);
    assert_eq!(control.next_deadline(), Some(now(10)));
    for flow in control.tables().flows(TABLE) {
        flow.entry().count(1, 1, now(8));
    }
    assert!(control.expire(now(9)).removed.is_empty());
    assert!(control.expire(now(12)).removed.is_empty());
    let removed = control.expire(now(15)).removed;
    assert_eq!((removed[0].flow.entry().priority(), removed[0].reason), (2, RemovedReason::HardTimeout));
    let removed = control.expire(now(18)).removed;
    assert_eq!((removed[0].flow.entry().priority(), removed[0].reason), (1, RemovedReason::IdleTimeout));
    assert_eq!((priorities(control.tables()), control.next_deadline()), (vec![3], None));
}

#[test]
fn a_call_does_a_bounded_part() {
    let flows = (0..limits::EXPIRED as u32 + 10).map(|i| FlowMod { hard_timeout: 1, ..add(port(i), 1) });
    let mut control = control(flows);
    assert_eq!(control.expire(now(1)).removed.len(), limits::EXPIRED);
    assert_eq!(control.next_deadline(), Some(now(1)));
    assert_eq!(control.expire(now(1)).removed.len(), 10);
}

#[test]
fn replaced_flows_are_not_remembered_for_ever() {
    let flows = (0..10 * limits::EXPIRED).map(|_| FlowMod { hard_timeout: 60, ..add(port(1), 1) });
    let mut control = control(flows);
    assert!(control.watched() <= 4 * limits::EXPIRED);
    assert_eq!(control.expire(now(60)).removed.len() + control.expire(now(60)).removed.len(), 1);
}
