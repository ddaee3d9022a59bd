//! The current step, as seen from inside each step.

use super::*;
use crate::rounds::Rounds;
use crate::step::CurrentStep;
use port::TxQueue;

/// Records the current step.
#[derive(Clone)]
struct Witness {
    counters: Arc<WorkerCounters>,
    seen: Arc<Mutex<Vec<CurrentStep>>>,
}

impl Witness {
    fn see(&self) {
        self.seen.lock().unwrap().push(self.counters.step.get(PORTS).unwrap());
    }
}

/// A part of the worker that is called in a step.
struct Watched<T>(Witness, T);

impl RxQueue for Watched<Source> {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.0.see();
        self.1.rx(burst, stats)
    }

    fn complete(&mut self, buffers: &[BufId]) {
        self.0.see();
        self.1.complete(buffers);
    }

    fn notify(&mut self) {
        self.0.see();
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        self.1.enable_notification()
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.0.see();
        Ok(())
    }
}

impl TxQueue for Watched<Sink> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        self.0.see();
        self.1.tx(burst, indices, stats)
    }

    fn capabilities(&self) -> Capabilities {
        self.1.capabilities()
    }

    fn room(&mut self, len: usize) -> usize {
        self.0.see();
        self.1.room(len)
    }

    fn notify(&mut self) {
        self.0.see();
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        self.1.fork()
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

impl Pipeline for Watched<ToOne> {
    fn process(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        self.0.see();
        self.1.process(burst, context, out);
    }

    fn tick(&mut self, _: Now) -> Option<Now> {
        self.0.see();
        None
    }
}

const FROM: usize = 3;
const TO: usize = 60;

/// A worker that sends the packets of `source`, of port [`FROM`], to port [`TO`].
fn watched(source: Source) -> (Bench, Witness) {
    let mut bench = Bench::new(0, QueueFull::Drop, Capabilities::NONE);
    let witness = Witness { counters: bench.worker.counters.clone(), seen: Arc::default() };
    let sink = Sink(Arc::new(Mutex::new(Taken::new())), Capabilities::NONE);
    let pipeline = Box::new(Watched(witness.clone(), ToOne(TO as u16)));
    let (rx, tx) = (Box::new(Watched(witness.clone(), source)), Box::new(Watched(witness.clone(), sink)));
    bench.worker.handle(Command::SetPipeline(pipeline));
    bench.worker.handle(Command::StartTx(key(TO), Generation(0), tx, [0].into()));
    bench.worker.handle(Command::StartRx(key(FROM), Generation(0), rx));
    (bench, witness)
}

#[test]
fn each_step_is_current_while_it_runs() {
    let (mut bench, witness) = watched(Source::new(&tcp(), (100, 1), Offload::NONE));
    let mut seen = |what: &mut dyn FnMut(&mut Worker)| {
        what(&mut bench.worker);
        std::mem::take(&mut *witness.seen.lock().unwrap())
    };
    let of = |steps: &[(&str, Option<u16>)]| -> Vec<CurrentStep> {
        steps.iter().map(|&(name, port)| CurrentStep { name: name.to_owned(), port }).collect()
    };
    let (from, to, mut last) = (Some(FROM as u16), Some(TO as u16), ticks());
    let received = seen(&mut |worker| assert!(Rounds::round(worker, &mut last)));
    assert_eq!(received, of(&[("timers", None), ("receive", from), ("notify", from)]));
    let sent = seen(&mut |worker| assert!(Rounds::round(worker, &mut last)));
    let steps = [("receive", from), ("pipeline", from), ("transmit", to), ("complete", from)];
    assert_eq!(sent, of(&[&steps[..], &[("notify", from), ("notify", to)]].concat()));
    assert_eq!(witness.counters.step.get(PORTS), None);
    let commanded = seen(&mut |worker| assert!(worker.handle(Command::Refresh(PortId(FROM as u16)))));
    assert_eq!(commanded, of(&[("commands", None)]));
}

#[test]
fn the_rest_of_a_burst_is_delivered_for_its_port() {
    let (mut bench, witness) = watched(Source::new(&tcp(), (LONG, 8), segments_of(1000)));
    while bench.worker.round() {}
    let step = CurrentStep { name: "deliver".to_owned(), port: Some(FROM as u16) };
    assert!(witness.seen.lock().unwrap().contains(&step), "{:?}", witness.seen);
}
