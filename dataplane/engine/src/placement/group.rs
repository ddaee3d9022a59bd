//! Combines roles into threads, and threads into groups that should share a core.

use super::{Pattern, Role, Stage, Stages};

/// Threads by their roles, which should share a core.
pub(super) type Group = Vec<Vec<Role>>;

/// Threads of a pattern other than [`Pattern::Auto`].
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

/// One thread for each index, with all stages in `joint` that have an instance of that index.
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
