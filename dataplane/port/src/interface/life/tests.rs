use super::*;
use crate::interface::{LinkState, sys};
use crate::vhost_user::fake::FakeEngine;
use crate::{BurstStats, DropReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A port without queues on the loopback interface, which records the link state of its transmit queues.
#[derive(Debug)]
struct Loopback {
    place: Place,
    link: std::sync::Mutex<LinkState>,
}

impl Kind for Loopback {
    const NAME: &'static str = "loopback";

    fn place(&self) -> &Place {
        &self.place
    }

    fn open(&self, watch: &Watch) -> Result<Opened, InterfaceError> {
        *self.link.lock().unwrap() = watch.link().clone();
        Ok(Opened {
            rss: None,
            pairs: Vec::new(),
            features: Vec::new(),
            size: 0,
            memory: (0, 0),
            missed: Box::new(|| 0),
            sockets: Vec::new(),
            keep: HeldResource::new(()),
        })
    }
}

/// Waits for a notification of the link and handles it.
fn follow(port: &mut InterfacePort<Loopback>, engine: &mut FakeEngine) -> PortState {
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    let fd = port.poll_fd().unwrap();
    assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)), Ok(1), "no notification");
    port.handle(Instant::now(), engine);
    port.status().state
}

fn lost(port: &InterfacePort<Loopback>) -> u64 {
    let mut stats = BurstStats::default();
    port.kind.link.lock().unwrap().loses(3, &mut stats);
    stats.drops[DropReason::PortDown as usize]
}

/// Needs the privilege to create a namespace, whose loopback interface is down at first.
#[test]
fn a_port_waits_while_its_interface_is_down() {
    let scenario = || {
        // SAFETY: no descriptor table is unshared.
        match unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            Err(rustix::io::Errno::PERM) => {
                panic!("SKIPPED: this process may not create a network namespace; run the tests as root")
            }
            unshared => unshared.unwrap(),
        }
        let place = Place { interface: "lo".to_owned(), netns: None };
        let kind = Loopback { place, link: std::sync::Mutex::default() };
        let (mut port, mut engine) = (InterfacePort::open(kind).unwrap(), FakeEngine::default());
        let down = PortState::Waiting(Some(PortFault::InterfaceDown("lo".to_owned())));
        port.handle(Instant::now(), &mut engine);
        for _ in 0..2 {
            assert_eq!((port.status().state, lost(&port)), (down.clone(), 3));
            sys::set_up(port.poll_fd().unwrap(), "lo", true).unwrap();
            assert_eq!((follow(&mut port, &mut engine), lost(&port)), (PortState::Connected, 0));
            sys::set_up(port.poll_fd().unwrap(), "lo", false).unwrap();
            follow(&mut port, &mut engine);
        }
        assert_eq!(port.status().connects, 1);
    };
    std::thread::spawn(scenario).join().unwrap();
}
