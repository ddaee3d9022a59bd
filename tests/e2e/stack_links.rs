//! The TCP/IP stack over other links than a TAP interface: sockets on one end of a veth pair, and VLANs.

use std::time::Duration;

use linerate_tests::capture::{MAC, packets};
use linerate_tests::netns::Netns;
use linerate_tests::stack_server::{ADDRESSES, KERNEL, LIMIT, STACK, StackServer};
use linerate_tests::switch::Switch;
use linerate_tests::{data, folder, tcp};

use crate::stack::datagrams;
use crate::stack_impaired::receive;

/// The file in the directory of a server.
const FILES: [&str; 2] = ["http://10.9.0.2/file", "http://[fd09::2]/file"];
/// Bytes of a connection, and of a file.
const BYTES: usize = 1_000_001;
/// Kinds of ports that are sockets on an interface.
const KINDS: [&str; 2] = ["af_xdp", "af_packet"];

/// Starts a server on one end of a veth pair, with a port of this kind and further keys. The kernel has the other end.
fn start(port: &str, words: &[&str]) -> (StackServer, Netns) {
    let (kernel, host) = (Netns::new(), Netns::new());
    kernel.cable("web0", &host, "lan0");
    kernel.configure("web0", &KERNEL);
    let port = format!("kind={port},interface=lan0,netns={}", host.name());
    (StackServer::start_on(kernel, &port, &[words, &ADDRESSES].concat()), host)
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn echo_and_http_serve_the_kernel_over_sockets_on_a_veth_pair() {
    let folder = folder();
    let (site, copy) = (folder.path().display().to_string(), folder.path().join("copy"));
    let (bytes, path) = (data::bytes(1, BYTES), copy.display().to_string());
    std::fs::write(folder.path().join("file"), &bytes).expect("a file");
    for kind in KINDS {
        let (echo, _host) = start(kind, &["echo"]);
        for address in STACK {
            echo.netns.ping(address, 2, &["-s", "4000"]);
            echo.netns.enter(move || {
                datagrams(address);
                std::thread::scope(|scope| {
                    (0..4).for_each(|seed| {
                        scope.spawn(move || tcp::exchange(address, 7, (seed, BYTES), LIMIT));
                    });
                });
            });
        }
        assert_eq!(echo.stop()["connections"], 8, "{kind}");
        let (http, _host) = start(kind, &["http", &site]);
        for url in FILES {
            http.curl(&["--fail", "-o", &path, url]);
            assert!(std::fs::read(&copy).expect("a file") == bytes, "{kind}: {url}");
        }
        assert_eq!(http.stop()["connections"], 2, "{kind}");
    }
}

/// The proxy opens connections to a server of the kernel.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn connections_from_a_veth_pair_reach_the_kernel() {
    for (kind, to) in KINDS.into_iter().zip(["[fd09::1]:9000", "10.9.0.1:9000"]) {
        let (proxy, _host) = start(kind, &["proxy", "--to", to]);
        tcp::listen(&proxy.netns, 9000, tcp::echo);
        proxy.netns.enter(|| {
            STACK.into_iter().zip(0..).for_each(|(address, seed)| {
                tcp::exchange(address, 8080, (seed, BYTES), LIMIT);
            });
        });
        assert_eq!(proxy.stop()["connections"], 2, "{kind}");
    }
}

/// The kernel pauses as a reader, so that windows close, resets connections, and connects to a port without a listener.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn streams_survive_faults_closed_windows_and_resets_on_a_veth_pair() {
    for kind in KINDS {
        let port = format!("{kind},fault={{seed=7,drop=0.02,reorder=0.02}}");
        let (echo, _host) = start(&port, &["echo"]);
        echo.netns.enter(|| {
            for (address, seed) in STACK.into_iter().zip(0..) {
                tcp::exchange(address, 7, (seed, BYTES / 4), LIMIT);
                assert!(tcp::is_reset(address, 8, LIMIT), "{address}");
            }
        });
        assert_eq!(echo.stop()["connections"], 2, "{kind}");
        let (source, _host) = start(kind, &["source"]);
        source.netns.enter(|| {
            for address in STACK {
                let mut stream = tcp::connect(address, 19, LIMIT);
                std::thread::sleep(Duration::from_millis(500));
                receive(&mut stream, 4 * BYTES);
                // Unread data makes the end a reset.
                drop(stream);
            }
        });
        assert_eq!(source.stop()["connections"], 2, "{kind}");
    }
}

/// The server is a guest at a trunk port of a switch, and the kernel is at an access port.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn tagged_packets_reach_a_stack_in_a_vlan() {
    let (folder, netns) = (folder(), Netns::new());
    let socket = folder.path().join("server.sock");
    let text = format!(
        "[[worker]]\n[[bridge]]\nname = \"lan\"\n\
         [[port]]\nname = \"kernel\"\nkind = \"tap\"\ninterface = \"web0\"\nnetns = \"{}\"\nvlan = 5\n\
         [[port]]\nname = \"server\"\nsocket = \"{}\"\nvlan = {{ trunk = [5] }}\n",
        netns.name(),
        socket.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    netns.wait_link("web0", true, LIMIT);
    netns.configure("web0", &KERNEL);
    let port = format!("kind=virtio-user,socket={}", socket.display());
    let start = |netns: Netns, words: &[&str]| {
        let words = [words, &["--vlan", "5"], &ADDRESSES].concat();
        StackServer::start_on(netns, &port, &words)
    };
    let mut echo = start(netns, &["echo"]);
    for address in STACK {
        echo.netns.ping(address, 2, &[]);
        echo.netns.enter(move || tcp::exchange(address, 7, (1, 100_000), LIMIT));
    }
    echo.finish();
    let (file, copy) = (folder.path().join("file"), folder.path().join("copy").display().to_string());
    let bytes = data::bytes(1, BYTES);
    std::fs::write(&file, &bytes).expect("a file");
    let mut http = start(std::mem::take(&mut echo.netns), &["http", &folder.path().display().to_string()]);
    for url in FILES {
        http.curl(&["--fail", "-o", &copy, url]);
        assert!(std::fs::read(&copy).expect("a file") == bytes, "{url}");
    }
    assert_eq!(http.finish()["connections"], 2);
    assert_eq!(packets(&http.capture(), &format!("eth.src == {MAC} && !(vlan.id == 5)")), "", "untagged");
    switch.stop();
}
