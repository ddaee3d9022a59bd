//! Execution of edits as the data plane executes them.

use flow::Key;
use flow::packet::{Rewriter, parse};
use mem::copy::Portable;
use mem::{GuestMemory, Region};
use port::{BufId, Burst, Edit, MAX_HEAD, Offload, Verdicts};
use std::sync::Arc;

/// The frame and its offloads after an edit.
pub(crate) fn apply(frame: &[u8], offload: Offload, edit: Option<&Edit>) -> (Vec<u8>, Offload) {
    let region = Arc::new(Region::of_bytes(frame.into()).unwrap());
    let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
    let (mut source, mut made, mut verdicts) = (Burst::new(), Burst::new(), Verdicts::new(1));
    source.begin(0);
    source.pin(&map);
    source.push(BufId::default(), region.seg(0, frame.len() as u32).unwrap());
    source.load_heads::<Portable>();
    assert!(source.pull_head::<Portable>(0, frame.len().min(MAX_HEAD)));
    source.set_offload(0, offload);
    let id = edit.map_or_else(port::EditId::default, |edit| verdicts.edit(edit));
    made.begin_from(&source);
    made.push_edited(&source, 0, verdicts.edits(), id).unwrap();
    let mut bytes = vec![0; made.frame_len(0)];
    made.frame(0).copy_to::<Portable>(&mut bytes);
    (bytes, made.offload(0))
}

/// A rewriter for a frame with the longest head.
pub(crate) fn begin(frame: &[u8], offload: Offload) -> Rewriter {
    let (mut key, mut rewriter) = (Key::ZERO, Rewriter::new());
    let head = frame.get(..MAX_HEAD).unwrap_or(frame);
    let layout = parse(head, frame.len(), &mut key);
    rewriter.begin(head, frame.len(), offload, &key, &layout);
    rewriter
}

/// The frame after the changes of a rewriter, by its edit.
pub(crate) fn finish(frame: &[u8], offload: Offload, rewriter: &Rewriter) -> (Vec<u8>, Offload) {
    let edit = rewriter.edit(frame).unwrap();
    let (bytes, offload) = apply(frame, offload, edit.as_ref());
    let rest = frame.get(MAX_HEAD..).unwrap_or_default();
    assert_eq!(bytes, [rewriter.head(), rest].concat(), "the edit and the head agree");
    assert_eq!(bytes.len(), rewriter.frame_len());
    (bytes, offload)
}
