//! Parses arbitrary frames, and executes arbitrary actions on them.

use flow::packet::{ActionError, Layout, Rewriter, parse};
use flow::{Action, Field, Key};
use port::Offload;

/// Bytes of the script for each action: kind, argument and value.
const STEP: usize = 6;
/// Maximum number of actions.
const STEPS: usize = 8;

/// Executes a script: number of actions, number of bytes of the frame beyond its head, actions, and the head.
///
/// # Panics
/// If a refused action changes the packet, or if fields and headers differ after an action.
pub fn play(script: &[u8]) {
    let Some((&[steps, beyond], script)) = script.split_first_chunk() else { return };
    let steps = usize::from(steps) % (STEPS + 1);
    let Some((steps, head)) = script.split_at_checked(steps * STEP) else { return };
    let len = head.len() + usize::from(beyond) * 8;
    let (key, layout) = parsed(head, len);
    let mut rewriter = Rewriter::new();
    rewriter.begin(head, len, Offload::NONE, &key, &layout);
    for step in steps.as_chunks::<STEP>().0 {
        execute(&mut rewriter, &action(*step));
    }
    match rewriter.edit(head) {
        Ok(_) | Err(ActionError::TooLong) => {}
        Err(error) => panic!("{error}"),
    }
}

fn parsed(head: &[u8], len: usize) -> (Key, Layout) {
    let mut key = Key::ZERO;
    let layout = parse(head, len, &mut key);
    (key, layout)
}

fn execute(rewriter: &mut Rewriter, action: &Action) {
    let before = (rewriter.head().to_vec(), *rewriter.key());
    if rewriter.apply(action).is_err() {
        assert_eq!((rewriter.head().to_vec(), *rewriter.key()), before, "{action:?}");
    }
    let (head, len) = (rewriter.head().to_vec(), rewriter.frame_len());
    assert_eq!((*rewriter.key(), *rewriter.layout()), parsed(&head, len), "{action:?}");
}

fn action([kind, argument, value @ ..]: [u8; STEP]) -> Action {
    let ethertype = u16::from_be_bytes([value[0], value[1]]);
    match kind % 16 {
        0 => Action::PushVlan(if argument & 1 == 0 { 0x8100 } else { 0x88a8 }),
        1 => Action::PopVlan,
        2 => Action::PushMpls(if argument & 1 == 0 { 0x8847 } else { 0x8848 }),
        3 => Action::PopMpls([0x0800, 0x86dd, 0x8847, ethertype][usize::from(argument % 4)]),
        4 => Action::PushPbb(0x88e7),
        5 => Action::PopPbb,
        6 => Action::SetMplsTtl(argument),
        7 => Action::DecMplsTtl,
        8 => Action::SetNwTtl(argument),
        9 => Action::DecNwTtl(Box::default()),
        10 => Action::CopyTtlOut,
        11 => Action::CopyTtlIn,
        _ => {
            // Fields beside the packet are not those of a frame.
            let (first, last) = (Field::EthDst as usize, Field::TcpFlags as usize);
            let field = Field::ALL[first + usize::from(argument) % (last - first + 1)];
            let value = u128::from(u32::from_be_bytes(value));
            Action::SetField { field, value: value | value << 32 | value << 80, mask: field.full() }
        }
    }
}
