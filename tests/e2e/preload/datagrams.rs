//! UDP sockets of unmodified programs.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Running, Service, accept};
use linerate_tests::stack_server::{LIMIT, STACK};
use linerate_tests::{folder, need, wait};

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn netcat_passes_datagrams_in_both_roles() {
    let folder = folder();
    let service = Service::start(folder.path()).without_offloads();
    for (ours, theirs, port) in [(STACK[0], "10.9.0.1", 7002), (STACK[1], "fd09::1", 7003)] {
        let socket = service.netns().enter(move || UdpSocket::bind((theirs, port)).expect("a socket"));
        socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let (text, mut buffer) = (port.to_string(), [0; 100]);
        // It sends first, to a socket of the kernel.
        let mut nc = service.command("nc", &["-u", theirs, &text]);
        let mut nc = Running(nc.stdin(Stdio::piped()).spawn().expect("nc starts"));
        nc.0.stdin.as_mut().expect("a pipe").write_all(b"from nc").expect("nc reads");
        let (length, from) = socket.recv_from(&mut buffer).expect("a datagram");
        assert_eq!((&buffer[..length], from.ip().to_string().as_str()), (&b"from nc"[..], ours));
        socket.send_to(b"to nc", from).expect("a route");
        let mut answer = [0; 5];
        nc.0.stdout.as_mut().expect("a pipe").read_exact(&mut answer).expect("nc writes");
        assert_eq!(&answer, b"to nc");
        drop(nc);
        // It waits for the first datagram, connects to its sender and answers.
        let mut nc = service.command("nc", &["-u", "-l", ours, &text]);
        let mut nc = Running(nc.stdin(Stdio::piped()).spawn().expect("nc starts"));
        nc.0.stdin.as_mut().expect("a pipe").write_all(b"answer").expect("nc reads");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
        let answered = wait::until(LIMIT, || {
            // Nothing receives until it is bound.
            let _ = socket.send_to(b"again", (ours, port));
            socket.recv_from(&mut buffer).ok().map(|(length, _)| length)
        });
        assert_eq!(answered.map(|length| &buffer[..length]), Some(&b"answer"[..]));
        nc.0.stdout.as_mut().expect("a pipe").read_exact(&mut answer).expect("nc writes");
        assert_eq!(&answer, b"again");
    }
}

/// Returns datagrams and the bytes of one connection to their sender, until the connection ends.
fn echo(datagrams: &UdpSocket, listener: &TcpListener) {
    datagrams.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let mut buffer = [0; 1024];
    for _ in 0..3 {
        let (len, from) = datagrams.recv_from(&mut buffer).expect("a datagram");
        datagrams.send_to(&buffer[..len], from).expect("a route");
    }
    let (mut stream, _) = accept(listener);
    let mut reader = stream.try_clone().expect("a second handle");
    std::io::copy(&mut reader, &mut stream).expect("the program reads");
}

/// Compiles a program of this folder. Returns its path.
fn compiled(name: &str, options: &[&str], folder: &Path) -> String {
    need::program("cc");
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("e2e/programs_in_c/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror"]).args(options).arg("-o").arg(&program).arg(source);
    assert!(compiler.status().expect("cc starts").success());
    program.to_str().expect("a path of text").to_owned()
}

/// Runs a program with an endpoint that returns what it receives on one connection.
fn run_beside_echo(service: &Service, program: &str) {
    let listener = service.netns().enter(|| TcpListener::bind("10.9.0.1:7000").expect("a port"));
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = accept(&listener);
            let mut reader = stream.try_clone().expect("a second handle");
            std::io::copy(&mut reader, &mut stream).expect("the program reads");
        });
        service.run(program, &["10.9.0.1", "7000"])
    });
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn several_messages_are_sent_and_received_by_one_call() {
    let folder = folder();
    let service = Service::start(folder.path());
    let program = compiled("messages", &[], folder.path());
    let (datagrams, listener) = service.netns().enter(|| {
        let datagrams = UdpSocket::bind("10.9.0.1:7000").expect("a port");
        (datagrams, TcpListener::bind("10.9.0.1:7000").expect("a port"))
    });
    let output = std::thread::scope(|scope| {
        scope.spawn(|| echo(&datagrams, &listener));
        service.run(&program, &["10.9.0.1", "7000"])
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(service.server.stop()["clients"], 1);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn streams_of_the_c_library_carry_lines() {
    let folder = folder();
    let service = Service::start(folder.path());
    run_beside_echo(&service, &compiled("streams", &[], folder.path()));
    assert_eq!(service.server.stop()["connected"], 1);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn formatted_output_reaches_the_peer() {
    let folder = folder();
    let service = Service::start(folder.path());
    for options in [&["-O1"][..], &["-O1", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]] {
        run_beside_echo(&service, &compiled("formatted", options, folder.path()));
    }
    assert_eq!(service.server.stop()["connected"], 2);
}
