//! The log of written pages.

use super::*;

const LOG: LogArea = LogArea { len: 64, offset: 0 };

/// Ring 0 and its partner run, and logs were negotiated.
fn running() -> Bench {
    let mut bench = Bench::running(SPLIT, 0, 7);
    bench.accepts(&Request::SetProtocolFeatures(PROTOCOL | ProtocolFeatures::LOG_SHMFD));
    bench.accepts_all(ring_messages(1, 9));
    bench
}

fn set_log(bench: &mut Bench, area: LogArea) -> Result<Option<Reply>, PortFault> {
    bench.send(&Request::SetLogBase(area), vec![memory(4096)], false)
}

fn has_log(bench: &Bench) -> [bool; 2] {
    [0, 1].map(|index| bench.session.running(index).unwrap().log.is_some())
}

#[test]
fn rings_log_from_the_feature_on_until_it_is_cleared() {
    let mut bench = running();
    assert_eq!(set_log(&mut bench, LOG), Ok(Some(Reply::U64(0))));
    assert_eq!(has_log(&bench), [false; 2]);
    bench.accepts(&Request::SetFeatures(SPLIT | Features::LOG_ALL));
    assert_eq!((has_log(&bench), bench.runs(0), bench.runs(1)), ([true; 2], true, true));
    bench.accepts(&Request::SetVringAddr(VringAddress { flags: VringAddress::LOG, ..address(0) }));
    bench.accepts(&Request::SetFeatures(SPLIT));
    assert_eq!((has_log(&bench), bench.runs(0), bench.runs(1)), ([false; 2], true, true));
}

#[test]
fn a_log_is_replaced_while_rings_run() {
    let mut bench = running();
    bench.accepts(&Request::SetFeatures(SPLIT | Features::LOG_ALL));
    assert_eq!(has_log(&bench), [false; 2], "no log was sent yet");
    let log = |bench: &Bench| bench.session.running(0).unwrap().log.unwrap();
    set_log(&mut bench, LOG).unwrap();
    let first = log(&bench);
    set_log(&mut bench, LogArea { len: 128, ..LOG }).unwrap();
    assert!(!Arc::ptr_eq(&first, &log(&bench)));
    bench.accepts(&Request::ResetDevice);
    assert!(bench.session.log.is_none());
}

#[test]
fn other_features_do_not_change_with_the_log() {
    let fault = running().fails(&Request::SetFeatures(PACKED | Features::LOG_ALL));
    assert!(fault.contains("running"), "{fault}");
}

#[test]
fn a_log_that_cannot_be_mapped_is_refused() {
    for area in [LogArea { len: 4097, ..LOG }, LogArea { len: 0, ..LOG }, LogArea { len: u64::MAX, ..LOG }] {
        let fault = set_log(&mut running(), area).unwrap_err().to_string();
        assert!(fault.contains("the log of written pages is refused"), "{fault}");
    }
    let offset = LogArea { offset: u64::MAX - 8, ..LOG };
    assert!(set_log(&mut running(), offset).is_err());
}
