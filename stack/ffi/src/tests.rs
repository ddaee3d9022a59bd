//! The functions as a program in C calls them: invalid arguments, and an exchange between two hosts.
#![allow(clippy::wildcard_imports, reason = "all functions of the interface are called")]
#![allow(clippy::too_many_lines, reason = "a list of calls, one for each invalid argument")]

use crate::address::{linerate_add_address, linerate_add_route, linerate_endpoint};
use crate::address::{linerate_endpoint_format, linerate_endpoint_parse};
use crate::buffer::*;
use crate::call::{State, call, code, linerate_last_error};
use crate::configure::*;
use crate::counters::{LINERATE_COUNTER_NAME, linerate_counter, linerate_counters};
use crate::host::*;
use crate::open::*;
use crate::queue::*;
use crate::tcp::*;
use crate::tcp_options::*;
use crate::udp::*;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

fn error() -> String {
    // SAFETY: the text ends with zero and is valid until the next error.
    unsafe { CStr::from_ptr(linerate_last_error()) }.to_str().unwrap().to_owned()
}

/// Asserts that a call failed with this number, and with a text that has these words.
#[track_caller]
fn failed(result: c_int, code: c_int, words: &str) {
    assert_eq!(result, code, "{}", error());
    assert!(error().contains(words) && error().contains("; "), "{}", error());
}

fn host() -> *mut linerate_host {
    let mut host = null_mut();
    // SAFETY: null options, and memory for the result.
    assert_eq!(unsafe { linerate_host_new(null(), &raw mut host) }, 0, "{}", error());
    host
}

fn endpoint(text: &CStr) -> linerate_endpoint {
    let mut endpoint = linerate_endpoint::default();
    // SAFETY: a string, and memory for the result.
    assert_eq!(unsafe { linerate_endpoint_parse(text.as_ptr(), &raw mut endpoint) }, 0, "{}", error());
    endpoint
}

#[test]
fn functions_without_a_host_reject_invalid_arguments() {
    let (mut end, mut text, mut buffer) = (linerate_endpoint::default(), [0; 8], null_mut());
    // SAFETY: every pointer is null or valid; that is what is tested.
    unsafe {
        failed(linerate_host_new(null(), null_mut()), code::INVALID, "host is null");
        let options = linerate_options { polling: 7, ..Default::default() };
        failed(linerate_host_new(&raw const options, &mut null_mut()), code::INVALID, "options.polling is 7");
        let mut hosts = [null_mut(); 2];
        for (count, steering, words) in
            [(0, LINERATE_HASH, "count is 0"), (33, LINERATE_HASH, "count is 33"), (2, 2, "steering is 2")]
        {
            let made = linerate_workers_new(null(), count, steering, hosts.as_mut_ptr());
            failed(made, code::INVALID, words);
        }
        failed(linerate_workers_new(null(), 2, LINERATE_HASH, null_mut()), code::INVALID, "hosts is null");
        failed(linerate_endpoint_parse(null(), &raw mut end), code::INVALID, "text is null");
        failed(linerate_endpoint_parse(c"10.9.0.2".as_ptr(), &raw mut end), code::INVALID, "`10.9.0.2`");
        failed(linerate_endpoint_parse(c"\xff".as_ptr(), &raw mut end), code::INVALID, "UTF-8");
        end = endpoint(c"[fd09::2]:80");
        failed(linerate_endpoint_format(&raw const end, text.as_mut_ptr(), 8), code::INVALID, "too few");
        failed(linerate_endpoint_format(null(), text.as_mut_ptr(), 8), code::INVALID, "endpoint is null");
        failed(linerate_buffer_copy(null(), 5, &raw mut buffer), code::INVALID, "no 5 bytes");
        failed(linerate_buffer_copy(c"x".as_ptr().cast(), 1 << 31, &raw mut buffer), code::INVALID, "2 GiB");
        failed(
            linerate_buffer_wrap(null(), 1, None, null_mut(), &raw mut buffer),
            code::INVALID,
            "no 1 bytes",
        );
        failed(linerate_buffer_keep(null(), &raw mut buffer), code::INVALID, "buffer is null");
        failed(linerate_buffer_read(null(), 0, null_mut(), 0), code::INVALID, "buffer is null");
        failed(linerate_tcp_options_init(null_mut()), code::INVALID, "options is null");
        assert_eq!((linerate_host_free(null_mut()), linerate_buffer_free(null_mut())), (0, 0));
    }
    let mut text = [0; crate::address::LINERATE_ENDPOINT_TEXT];
    // SAFETY: an endpoint, and memory for its text.
    let length = unsafe { linerate_endpoint_format(&raw const end, text.as_mut_ptr(), text.len()) };
    // SAFETY: the text ends with zero.
    let words = unsafe { CStr::from_ptr(text.as_ptr()) };
    assert_eq!((length, words), (12, c"[fd09::2]:80"));
}

#[test]
fn functions_of_a_host_reject_invalid_arguments() {
    let host = host();
    let end = endpoint(c"10.9.0.2:80");
    let (mut socket, mut n, mut options) = (0, 0, linerate_tcp_options::default());
    // SAFETY: every pointer is null or valid; that is what is tested.
    unsafe {
        failed(linerate_wait(null_mut(), &mut null(), 1, 0), code::INVALID, "host is null");
        failed(linerate_wait(host, null_mut(), 1, 0), code::INVALID, "completions is null");
        for max in [0, LINERATE_MAX_BATCH + 1] {
            failed(linerate_wait(host, &mut null(), max, 0), code::INVALID, "max is");
        }
        failed(linerate_add_address(host, 0, c"10.9.0.2/24".as_ptr()), code::INVALID, "no interface 0");
        failed(
            linerate_open_memif(host, null(), 0, 0, null(), null()),
            code::INVALID,
            "name of the port is null",
        );
        failed(linerate_open_memif(host, c"@x".as_ptr(), 2, 0, null(), null()), code::INVALID, "mode is 2");
        let mode = LINERATE_LISTEN;
        for (name, interface) in [
            ("mac", linerate_interface { mac: [1; 6], ..Default::default() }),
            ("mtu", linerate_interface { mtu: 1279, ..Default::default() }),
            ("vlan", linerate_interface { vlan: 4095, ..Default::default() }),
        ] {
            let opened = linerate_open_memif(host, c"@x".as_ptr(), mode, 0, null(), &raw const interface);
            failed(opened, code::INVALID, &format!("interface.{name}"));
        }
        let none = c"/nonexistent/x".as_ptr();
        failed(linerate_open_vhost_user(host, none, mode, null()), code::NO_DEVICE, "cannot open the port");
        failed(linerate_open_virtio_user(host, none, mode, null()), code::NO_DEVICE, "cannot open the port");
        failed(linerate_open_tap(host, c"a/b".as_ptr(), null(), null()), code::NO_DEVICE, "a/b");
        let long = c"an-interface-name-of-23".as_ptr();
        failed(linerate_open_af_packet(host, long, null(), null()), code::NO_DEVICE, "name");
        failed(linerate_open_af_xdp(host, long, null(), null()), code::NO_DEVICE, "name");
        failed(linerate_listen(host, null(), null(), 0, null_mut()), code::INVALID, "local is null");
        failed(
            linerate_listen(host, &raw const end, null(), 0, null_mut()),
            code::NOT_AVAILABLE,
            "not available",
        );
        failed(
            linerate_listen(host, &raw const end, &raw const options, 0, null_mut()),
            code::INVALID,
            "_init",
        );
        linerate_tcp_options_init(&raw mut options);
        options.congestion = 9;
        failed(
            linerate_listen(host, &raw const end, &raw const options, 0, null_mut()),
            code::INVALID,
            "is 9",
        );
        failed(linerate_connect(host, null(), &raw const end, null(), 0, null_mut()), code::INVALID, "null");
        let connected = linerate_connect(host, null(), &raw const end, null(), 0, &raw mut socket);
        failed(connected, code::UNREACHABLE, "no route");
        failed(linerate_send_copy(host, 1, c"x".as_ptr().cast(), 1), code::PIPE, "has ended");
        failed(linerate_send_copy(host, 1, null(), 1 << 30), code::TOO_LONG, "send buffer");
        failed(linerate_send(host, 1, null(), 0, 0), code::INVALID, "buffer is null");
        failed(linerate_consumed(host, 1, 1), code::NOT_CONNECTED, "has ended");
        failed(linerate_close(host, u64::MAX), code::NOT_CONNECTED, "has ended");
        failed(linerate_abort(host, 1), code::NOT_CONNECTED, "has ended");
        failed(linerate_set_user(host, 1, 1), code::NOT_CONNECTED, "has ended");
        failed(linerate_send_space(host, 1, &raw mut n), code::NOT_CONNECTED, "has ended");
        failed(
            linerate_udp_open(host, &raw const end, 0, &raw mut socket),
            code::NOT_AVAILABLE,
            "not available",
        );
        failed(linerate_udp_send_copy(host, 1, null(), null(), 0), code::NOT_CONNECTED, "closed");
        let group = c"239.1.2.3".as_ptr();
        failed(linerate_udp_join(host, 1, null(), LINERATE_ANY_INTERFACE), code::INVALID, "group is null");
        failed(linerate_udp_join(host, 1, group, 7), code::INVALID, "no interface 7");
        failed(linerate_udp_join(host, 1, group, LINERATE_ANY_INTERFACE), code::UNREACHABLE, "no route");
        failed(linerate_udp_leave(host, 1, group, LINERATE_ANY_INTERFACE), code::NOT_CONNECTED, "closed");
        failed(linerate_udp_set_hop_limits(host, 1, 0, 1), code::INVALID, "hop limit is 0");
        failed(linerate_udp_set_hop_limits(host, 1, 1, 1), code::NOT_CONNECTED, "closed");
        failed(linerate_start_dhcp(host, 0), code::INVALID, "no interface 0");
        failed(linerate_start_slaac(host, -1, LINERATE_EUI64), code::INVALID, "no interface -1");
        failed(linerate_add_neighbour(host, 0, null(), null()), code::INVALID, "no interface 0");
        assert_eq!((linerate_udp_close(host, 1), linerate_unlisten(host, 1)), (0, 0));
        assert_eq!(linerate_host_free(host), 0);
    }
}

#[test]
fn panic_ends_the_host_but_not_the_program() {
    let panics = || -> Result<c_int, _> { panic!("of a test") };
    failed(call(panics), code::BROKEN, "panicked");
    let host = host();
    // SAFETY: a host that is used by this thread only.
    unsafe {
        failed(crate::call::call_host(host, |_| panic!("of a test")), code::BROKEN, "panicked");
        failed(linerate_counters(host, null_mut(), 0), code::BROKEN, "panicked");
        assert_eq!(linerate_host_free(host), 0);
    }
}

#[test]
fn host_is_busy_during_a_call() {
    let host = host();
    // SAFETY: a host that is used by this thread only; the inner calls must not use it.
    unsafe {
        let outer = crate::call::call_host(host, |_| {
            assert_eq!((*host).state.get(), State::Busy);
            failed(linerate_counters(host, null_mut(), 0), code::BUSY, "in use");
            failed(linerate_host_free(host), code::BUSY, "in use");
            Ok(3)
        });
        assert_eq!((outer, linerate_host_free(host)), (3, 0));
    }
}

#[test]
fn counters_have_complete_names() {
    let host = host();
    // SAFETY: memory for as many counters as are stored.
    let counters = unsafe {
        let count = linerate_counters(host, null_mut(), 0) as usize;
        let empty = linerate_counter { name: [1; LINERATE_COUNTER_NAME], value: 1 };
        let mut counters = vec![empty; count];
        assert_eq!(linerate_counters(host, counters.as_mut_ptr(), count - 1) as usize, count);
        assert_eq!(counters.pop().unwrap().value, 1);
        assert_eq!(linerate_host_free(host), 0);
        counters
    };
    let expected = stack::Counters::default();
    for (counter, (name, _)) in counters.iter().zip(expected.named()) {
        // SAFETY: the name ends with zero.
        assert_eq!(unsafe { CStr::from_ptr(counter.name.as_ptr()) }.to_str(), Ok(name));
    }
    assert!(expected.named().all(|(name, _)| name.len() < LINERATE_COUNTER_NAME));
}

static RELEASED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn release(argument: *mut c_void) {
    assert_eq!(argument as usize, 7);
    RELEASED.fetch_add(1, Ordering::Relaxed);
}

/// A host with a memif port and an address.
fn end(socket: &CStr, mode: u32, address: &CStr) -> *mut linerate_host {
    let host = host();
    // SAFETY: strings and a host.
    unsafe {
        assert_eq!(linerate_open_memif(host, socket.as_ptr(), mode, 0, null(), null()), 0, "{}", error());
        assert_eq!(linerate_add_address(host, 0, address.as_ptr()), 0, "{}", error());
        failed(
            linerate_add_route(host, 0, c"::/0".as_ptr(), c"10.9.0.9".as_ptr()),
            code::INVALID,
            "versions",
        );
        assert_eq!(linerate_add_route(host, 0, c"0.0.0.0/0".as_ptr(), c"10.9.0.9".as_ptr()), 0);
    }
    host
}

fn completions<'a>(host: *mut linerate_host) -> &'a [linerate_completion] {
    let mut first = null();
    // SAFETY: a host; the array is used before the next call.
    unsafe {
        let count = linerate_wait(host, &raw mut first, LINERATE_MAX_BATCH, 1);
        assert!(count >= 0, "{}", error());
        std::slice::from_raw_parts(first, count as usize)
    }
}

#[test]
fn wrapped_bytes_are_echoed_and_released() {
    const TEXT: &[u8] = b"hello, ";
    let folder = tempfile::tempdir().unwrap();
    let socket = CString::new(folder.path().join("s").to_str().unwrap()).unwrap();
    let server = end(&socket, LINERATE_LISTEN, c"10.9.0.1/24");
    let client = end(&socket, LINERATE_CONNECT, c"10.9.0.2/24");
    let (local, mut connection, mut buffer, mut kept) = (endpoint(c"10.9.0.1:7"), 0, null_mut(), null_mut());
    let mut received = Vec::new();
    // SAFETY: valid pointers to objects that live until their last use.
    unsafe {
        while (linerate_wait_ready(server, 0) < 0) | (linerate_wait_ready(client, 0) < 0) {}
        assert_eq!(linerate_listen(server, &raw const local, null(), 5, null_mut()), 0, "{}", error());
        failed(linerate_listen(server, &raw const local, null(), 5, null_mut()), code::IN_USE, "in use");
        let connected = linerate_connect(client, null(), &raw const local, null(), 6, &raw mut connection);
        assert_eq!(connected, 0, "{}", error());
        let argument = std::ptr::without_provenance_mut(7);
        linerate_buffer_wrap(TEXT.as_ptr().cast(), TEXT.len(), Some(release), argument, &raw mut buffer);
        failed(linerate_send(client, connection, buffer, 1, TEXT.len()), code::INVALID, "7 bytes");
        assert_eq!(linerate_send(client, connection, buffer, 0, 5), 0, "{}", error());
        assert_eq!(linerate_send_copy(client, connection, b" world".as_ptr().cast(), 6), 0, "{}", error());
        assert_eq!((linerate_buffer_free(buffer), RELEASED.load(Ordering::Relaxed)), (0, 0));
        let mut status = 1;
        while status > 0 {
            for c in completions(server) {
                match c.kind {
                    linerate_kind::LINERATE_ACCEPTED => {
                        assert_eq!((c.user, linerate_set_user(server, c.id, 55)), (5, 0));
                    }
                    linerate_kind::LINERATE_DATA => {
                        assert_eq!(c.user, 55);
                        failed(
                            linerate_buffer_free(c.buffer.cast_mut()),
                            code::INVALID,
                            "belongs to a batch",
                        );
                        assert_eq!(linerate_send(server, c.id, c.buffer, 0, c.length), 0, "{}", error());
                        assert_eq!(linerate_consumed(server, c.id, c.length), 0, "{}", error());
                    }
                    linerate_kind::LINERATE_FINISHED => assert_eq!(linerate_close(server, c.id), 0),
                    _ => assert_eq!((c.kind, c.status), (linerate_kind::LINERATE_CLOSED, 0)),
                }
            }
            for c in completions(client) {
                assert_eq!(c.user, 6);
                match c.kind {
                    linerate_kind::LINERATE_DATA => {
                        received.extend(std::slice::from_raw_parts(c.data, c.length));
                        linerate_buffer_free(kept);
                        assert_eq!(linerate_buffer_keep(c.buffer, &raw mut kept), 0, "{}", error());
                        if received.len() == 11 {
                            assert_eq!(linerate_close(client, c.id), 0, "{}", error());
                        }
                    }
                    linerate_kind::LINERATE_CLOSED => status = c.status,
                    _ => {}
                }
            }
        }
        assert_eq!((&received[..], status), (&b"hello world"[..], 0));
        // Kept data outlives its host.
        assert_eq!((linerate_host_free(client), linerate_host_free(server)), (0, 0));
        let mut last = [0_u8];
        let mut length = 0;
        linerate_buffer_bytes(kept, null_mut(), &raw mut length);
        assert_eq!(linerate_buffer_read(kept, length - 1, last.as_mut_ptr().cast(), 1), 0, "{}", error());
        failed(linerate_buffer_read(kept, length, last.as_mut_ptr().cast(), 1), code::INVALID, "range");
        assert_eq!((last, linerate_buffer_free(kept)), (*b"d", 0));
    }
    assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
}

/// Serves what a host has, as an echo server. Returns the number of connections accepted.
fn echo(host: *mut linerate_host) -> usize {
    let mut accepted = 0;
    for c in completions(host) {
        match c.kind {
            linerate_kind::LINERATE_ACCEPTED => accepted += 1,
            // SAFETY: a host and a buffer of its batch.
            linerate_kind::LINERATE_DATA => unsafe {
                assert_eq!(linerate_send(host, c.id, c.buffer, 0, c.length), 0, "{}", error());
                assert_eq!(linerate_consumed(host, c.id, c.length), 0, "{}", error());
            },
            kind => panic!("{kind:?}"),
        }
    }
    accepted
}

#[test]
fn hosts_that_share_a_port_serve_connections_of_their_own() {
    const CONNECTIONS: usize = 32;
    let folder = tempfile::tempdir().unwrap();
    let socket = CString::new(folder.path().join("s").to_str().unwrap()).unwrap();
    let (mut hosts, local) = ([null_mut(); 2], endpoint(c"10.9.0.1:7"));
    // SAFETY: valid pointers to objects that live until their last use.
    unsafe {
        assert_eq!(linerate_workers_new(null(), 2, LINERATE_HASH, hosts.as_mut_ptr()), 0, "{}", error());
        for host in hosts {
            let opened = linerate_open_memif(host, socket.as_ptr(), LINERATE_LISTEN, 0, null(), null());
            assert_eq!(
                (opened, linerate_add_address(host, 0, c"10.9.0.1/24".as_ptr())),
                (0, 0),
                "{}",
                error()
            );
            assert_eq!(linerate_listen(host, &raw const local, null(), 0, null_mut()), 0, "{}", error());
        }
    }
    let client = end(&socket, LINERATE_CONNECT, c"10.9.0.2/24");
    let (mut accepted, mut echoed) = ([0; 2], 0);
    // SAFETY: hosts and valid pointers.
    unsafe {
        while linerate_wait_ready(client, 0) < 0 {
            assert_eq!(hosts.map(echo), [0, 0]);
        }
        for _ in 0..CONNECTIONS {
            let mut id = 0;
            let connected = linerate_connect(client, null(), &raw const local, null(), 0, &raw mut id);
            assert_eq!((connected, linerate_send_copy(client, id, c"x".as_ptr().cast(), 1)), (0, 0));
        }
    }
    while echoed < CONNECTIONS {
        (0..2).for_each(|i| accepted[i] += echo(hosts[i]));
        echoed += completions(client).iter().filter(|c| c.kind == linerate_kind::LINERATE_DATA).count();
    }
    assert!(accepted.iter().sum::<usize>() == CONNECTIONS && !accepted.contains(&0), "{accepted:?}");
    // SAFETY: hosts, which are not used again. One can be freed before the others.
    unsafe {
        assert_eq!(linerate_host_free(hosts[0]), 0);
        completions(hosts[1]);
        assert_eq!((linerate_host_free(hosts[1]), linerate_host_free(client)), (0, 0));
    }
}

#[test]
fn hosts_that_share_ports_open_the_same_ones() {
    let mut hosts = [null_mut(); 2];
    // SAFETY: strings, and memory for the hosts.
    unsafe {
        assert_eq!(linerate_workers_new(null(), 2, LINERATE_ARRIVAL, hosts.as_mut_ptr()), 0, "{}", error());
        let open =
            |host, name: &CStr| linerate_open_memif(host, name.as_ptr(), LINERATE_LISTEN, 0, null(), null());
        let name = format!("@linerate-ffi-{}", std::process::id());
        let name = CString::new(name).unwrap();
        failed(open(hosts[0], c"/nonexistent/x"), code::NO_DEVICE, "cannot open the port");
        assert_eq!(open(hosts[1], &name), 0, "{}", error());
        failed(open(hosts[0], c"@other"), code::INVALID, "is not @other");
        assert_eq!(open(hosts[0], &name), 0, "{}", error());
        assert_eq!((linerate_host_free(hosts[1]), linerate_host_free(hosts[0])), (0, 0));
    }
}

#[test]
fn groups_are_received_until_they_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let socket = CString::new(folder.path().join("s").to_str().unwrap()).unwrap();
    let receiver = end(&socket, LINERATE_LISTEN, c"10.9.0.1/24");
    let sender = end(&socket, LINERATE_CONNECT, c"10.9.0.2/24");
    let (local, any) = (endpoint(c"0.0.0.0:5000"), endpoint(c"0.0.0.0:0"));
    let (group, to) = (c"239.1.2.3".as_ptr(), endpoint(c"239.1.2.3:5000"));
    let (mut to_group, mut from) = (0, 0);
    // SAFETY: valid pointers to objects that live until their last use.
    unsafe {
        while (linerate_wait_ready(receiver, 0) < 0) | (linerate_wait_ready(sender, 0) < 0) {}
        assert_eq!(linerate_udp_open(receiver, &raw const local, 3, &raw mut to_group), 0, "{}", error());
        assert_eq!(linerate_udp_open(sender, &raw const any, 4, &raw mut from), 0, "{}", error());
        failed(linerate_udp_join(receiver, to_group, c"10.9.0.9".as_ptr(), 0), code::INVALID, "group");
        assert_eq!(linerate_udp_join(receiver, to_group, group, LINERATE_ANY_INTERFACE), 1, "{}", error());
        assert_eq!(linerate_udp_join(receiver, to_group, group, 0), 0, "{}", error());
        assert_eq!(linerate_udp_set_hop_limits(sender, from, 64, 2), 0, "{}", error());
        let send = |byte: &[u8; 1]| {
            let sent = linerate_udp_send_copy(sender, from, &raw const to, byte.as_ptr().cast(), 1);
            assert_eq!(sent, 0, "{}", error());
            completions(sender);
        };
        send(b"a");
        let received = loop {
            if let [c, ..] = completions(receiver) {
                break (c.kind, c.user, c.data.read(), c.local.port);
            }
        };
        assert_eq!(received, (linerate_kind::LINERATE_DATAGRAM, 3, b'a', 5000));
        assert_eq!(linerate_udp_leave(receiver, to_group, group, LINERATE_ANY_INTERFACE), 1, "{}", error());
        assert_eq!(linerate_udp_leave(receiver, to_group, group, LINERATE_ANY_INTERFACE), 0, "{}", error());
        send(b"b");
        assert_eq!((0..50).map(|_| completions(receiver).len()).sum::<usize>(), 0);
        assert_eq!((linerate_host_free(sender), linerate_host_free(receiver)), (0, 0));
    }
}

#[test]
fn neighbours_and_addresses_of_an_interface_are_set_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = CString::new(folder.path().join("s").to_str().unwrap()).unwrap();
    let host = end(&socket, LINERATE_LISTEN, c"10.9.0.1/24");
    let mut text = [0; crate::address::LINERATE_ENDPOINT_TEXT];
    let (mac, group) = ([2_u8, 0, 0, 0, 0, 1], [3_u8; 6]);
    // SAFETY: valid pointers to objects that live until their last use.
    unsafe {
        let at = c"10.9.0.2".as_ptr();
        assert_eq!(linerate_add_neighbour(host, 0, at, mac.as_ptr()), 0, "{}", error());
        failed(linerate_add_neighbour(host, 0, at, group.as_ptr()), code::INVALID, "group address");
        failed(linerate_add_neighbour(host, 0, at, null()), code::INVALID, "mac is null");
        failed(linerate_start_slaac(host, 0, 9), code::INVALID, "kind is 9");
        assert_eq!(linerate_start_slaac(host, 0, LINERATE_OPAQUE), 0, "{}", error());
        assert_eq!(linerate_start_dhcp(host, 0), 0, "{}", error());
        let mut length = |number| linerate_interface_address(host, 0, number, text.as_mut_ptr(), text.len());
        assert_eq!((length(9), length(0)), (0, 11));
        assert_eq!(CStr::from_ptr(text.as_ptr()), c"10.9.0.1/24");
        failed(linerate_interface_address(host, 0, 0, text.as_mut_ptr(), 11), code::INVALID, "too few");
        failed(linerate_interface_address(host, 0, 0, null_mut(), 0), code::INVALID, "text is null");
        assert_eq!(linerate_host_free(host), 0);
    }
}
