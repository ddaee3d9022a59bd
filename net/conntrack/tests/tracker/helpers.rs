//! Connections that control connections announce.

use crate::{ACK, Lab, SYN, commit, look, v4};
use conntrack::bits::{ESTABLISHED, NEW, RELATED, REPLY};
use conntrack::{Helper, Request, Tuple, sample};

const PUSH: u8 = 0x18;

fn ftp() -> Request {
    Request { helper: Helper::Ftp, mark: (7, 0xff), ..commit() }
}

/// An FTP control connection.
fn control() -> (Lab, Tuple) {
    let (lab, tuple) = (Lab::new(), v4(6).with_ports(5000, 21));
    lab.send(&sample::tcp(&tuple, SYN, (100, 0), &[]), &ftp());
    lab.send(&sample::tcp(&tuple.reversed(), SYN | ACK, (900, 101), &[]), &look());
    lab.send(&sample::tcp(&tuple, ACK, (101, 901), &[]), &look());
    (lab, tuple)
}

#[test]
fn passive_data_connections_are_related() {
    let (lab, tuple) = control();
    let data = v4(6).with_ports(6000, 1025);
    let open = sample::tcp(&data, SYN, (1, 0), &[]);
    assert_eq!(lab.bits(&open, &look()), NEW);
    let text = b"227 Entering Passive Mode (10,0,0,2,4,1)\r\n";
    lab.send(&sample::tcp(&tuple.reversed(), PUSH, (901, 101), text), &look());
    let state = lab.send(&open, &look()).state;
    assert_eq!((state.bits & !0x20, state.mark, state.original), (NEW | RELATED, 7, Some(tuple)));
    assert_eq!(lab.bits(&open, &commit()), NEW | RELATED);
    let answer = sample::tcp(&data.reversed(), SYN | ACK, (5, 2), &[]);
    assert_eq!(lab.bits(&answer, &look()), ESTABLISHED | REPLY | RELATED);
    let second = sample::tcp(&v4(6).with_ports(6001, 1025), SYN, (1, 0), &[]);
    assert_eq!(lab.bits(&second, &look()), NEW, "one connection was announced");
    lab.tracker.flush(None);
    assert!(lab.tracker.is_clean());
}

#[test]
fn active_data_connections_are_related() {
    let (mut lab, tuple) = control();
    lab.send(&sample::tcp(&tuple, PUSH, (101, 901), b"PORT 10,0,0,1,4,1\r\n"), &look());
    let data = v4(6).with_ports(1025, 20).reversed();
    let open = sample::tcp(&data, SYN, (1, 0), &[]);
    assert_eq!(lab.bits(&open, &look()), NEW | RELATED);
    let elsewhere = Request { zone: 1, ..look() };
    assert_eq!(lab.bits(&open, &elsewhere), NEW, "of another zone");
    lab.wait(60);
    assert_eq!(lab.bits(&open, &look()), NEW, "too late");
}

#[test]
fn a_client_announces_no_connection_to_a_third_host() {
    let (lab, tuple) = control();
    lab.send(&sample::tcp(&tuple, PUSH, (101, 901), b"PORT 10,0,0,9,4,1\r\n"), &look());
    let third = Tuple::new(([10, 0, 0, 2].into(), [10, 0, 0, 9].into()), 6, 0).with_ports(20, 1025);
    assert_eq!(lab.bits(&sample::tcp(&third, SYN, (1, 0), &[]), &look()), NEW);
}

#[test]
fn a_tftp_server_replies_from_another_port() {
    let lab = Lab::new();
    let request = Request { helper: Helper::Tftp, ..commit() };
    lab.send(&sample::udp(&v4(17).with_ports(5000, 69), b"\x00\x01name\x00octet\x00"), &request);
    let data = v4(17).with_ports(5000, 3333).reversed();
    assert_eq!(lab.bits(&sample::udp(&data, &[0, 3]), &look()), NEW | RELATED);
    let other = v4(17).with_ports(5001, 3333).reversed();
    assert_eq!(lab.bits(&sample::udp(&other, &[0, 3]), &look()), NEW);
}
