//! Which roles are one thread, and which threads want one core.

use super::{Pattern, Role, Stage, Stages};

/// Threads by their roles, in groups that want to share a core.
pub(super) type Group = Vec<Vec<Role>>;

/// The threads of a pattern that is not [`Pattern::Auto`].
pub(super) fn groups(pattern: Pattern, stages: &Stages) -> Vec<Group> {
    use Stage::{Rx, Tx, Worker};
    let alone = |stage| joined(&[stage], stages);
    let whole = joined(&[Stage::RunToCompletion], stages).into_iter();
    let pipeline = match pattern {
        Pattern::Separate | Pattern::Auto => [alone(Rx), alone(Worker), alone(Tx)].concat(),
        Pattern::Io => [joined(&[Rx, Tx], stages), alone(Worker)].concat(),
        Pattern::All => joined(&[Rx, Worker, Tx], stages),
        Pattern::RxWorker => [joined(&[Rx, Worker], stages), alone(Tx)].concat(),
        Pattern::TxWorker => [alone(Rx), joined(&[Worker, Tx], stages)].concat(),
        Pattern::QuasiIo => {
            let apart = joined(&[Rx, Tx], stages).into_iter().flatten();
            let pairs = apart.map(|roles| roles.into_iter().map(|role| vec![role]).collect());
            pairs.chain(alone(Worker)).collect()
        }
    };
    whole.chain(pipeline).collect()
}

/// One thread for each number that any of the stages has, with all of them that have it.
fn joined(joint: &[Stage], stages: &Stages) -> Vec<Group> {
    let count = |stage: &Stage| match stage {
        Stage::RunToCompletion => stages.run_to_completion,
        Stage::Rx => stages.rx,
        Stage::Worker => stages.worker,
        Stage::Tx => stages.tx,
    };
    let most = joint.iter().map(count).max().unwrap_or(0);
    let roles = |index| {
        let there = joint.iter().filter(|stage| index < count(stage));
        vec![there.map(|&stage| Role { stage, index }).collect()]
    };
    (0..most).map(roles).collect()
}
