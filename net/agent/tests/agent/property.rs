//! No sequence of valid messages causes a panic, and all output can be decoded.

use agent::fuzz::{Rig, fuzz_agent};
use agent::{Kind, SessionId};
use openflow::{Message, Version, encode};
use port::Now;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Send(Box<Message>),
    Take,
    Wait(u8),
}

fn steps(version: Version) -> impl Strategy<Value = Vec<(bool, Step)>> {
    let send = crate::arbitrary::messages(version).prop_map(|message| Step::Send(Box::new(message)));
    let step = prop_oneof![8 => send, 1 => Just(Step::Take), 1 => any::<u8>().prop_map(Step::Wait)];
    prop::collection::vec((any::<bool>(), step), 1..40)
}

fn run(version: Version, steps: Vec<(bool, Step)>) {
    let mut rig = Rig::new();
    for id in [0, 1] {
        rig.open(id, Kind::Controller, version);
    }
    for (first, step) in steps {
        let id = u64::from(first);
        match step {
            Step::Send(message) => {
                let mut bytes = Vec::new();
                encode(&message, version, crate::round_trip::XID, &mut bytes).unwrap();
                rig.receive(id, &bytes);
            }
            Step::Take => drop(rig.messages(id, version)),
            Step::Wait(time) => {
                rig.now = Now(rig.now.0 + u64::from(time) * 100_000_000);
                for (SessionId(id), _) in rig.agent.tick(rig.now).0 {
                    rig.agent.close(SessionId(id));
                    rig.open(id, Kind::Service, version);
                }
                let expired = rig.switch.expire(rig.now);
                rig.agent.changed(&expired, &agent::Datapath::tables(&rig.switch), rig.now);
            }
        }
    }
    for id in [0, 1] {
        rig.messages(id, version);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_of_1_0_cause_no_panic(steps in steps(Version::V10)) {
        run(Version::V10, steps);
    }

    #[test]
    fn messages_of_1_3_cause_no_panic(steps in steps(Version::V13)) {
        run(Version::V13, steps);
    }

    #[test]
    fn messages_of_1_4_cause_no_panic(steps in steps(Version::V14)) {
        run(Version::V14, steps);
    }

    #[test]
    fn messages_of_1_5_cause_no_panic(steps in steps(Version::V15)) {
        run(Version::V15, steps);
    }

    #[test]
    fn scripts_cause_no_panic(script in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_agent(&script);
    }
}
