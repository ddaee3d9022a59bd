//! Layout: the role of each stage, and the connections between stages.

use crate::model::{Model, Role};

/// Stage indices by role, each list in the order known to the other stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Receive packets of ports.
    pub(crate) rx_stages: Vec<usize>,
    /// Receive packets of ports with software RSS.
    pub(crate) distributors: Vec<usize>,
    /// Classify packets.
    pub(crate) classifiers: Vec<usize>,
    /// Have the transmit queues of ports.
    pub(crate) outlets: Vec<usize>,
    /// Whether classifiers send to outlets through handoff queues.
    pub(crate) routed: bool,
    /// Whether receive queues are shared among the Rx stages.
    pub(crate) steals: bool,
    /// Whether a transmit queue belongs to the worker of its pair only, instead of all outlets.
    pub(crate) paired: bool,
}

impl Layout {
    /// Layout of stages with these roles.
    pub(crate) fn new(model: &Model, roles: &[Role]) -> Self {
        let of = |role: Role| roles.iter().enumerate().filter(move |(_, r)| **r == role).map(|(i, _)| i);
        let (all, rx, work, tx): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = (
            of(Role::All).collect(),
            of(Role::Rx).collect(),
            of(Role::Work).collect(),
            of(Role::Tx).collect(),
        );
        match model {
            Model::RunToCompletion | Model::SoftwareRss(_) | Model::Stealing => Self {
                rx_stages: all.clone(),
                distributors: rx,
                classifiers: all.clone(),
                outlets: all,
                routed: false,
                steals: matches!(model, Model::Stealing),
                paired: false,
            },
            Model::Pipeline(_) => Self {
                rx_stages: rx.clone(),
                distributors: rx,
                classifiers: work,
                outlets: tx,
                routed: true,
                steals: false,
                paired: false,
            },
        }
    }

    /// Layout of `workers` threads that are not the engine's ([`crate::SharedPort`]).
    pub(crate) fn shared(workers: usize, paired: bool) -> Self {
        let all: Vec<_> = (0..workers).collect();
        Self { rx_stages: all.clone(), classifiers: all.clone(), outlets: all, paired, ..Self::default() }
    }

    /// Adds a stage with this role. Lists are in the order of stages, so that an Rx stage and the distributor of its
    /// thread keep the same index.
    pub(crate) fn add(&mut self, role: Role, stage: usize) {
        let Self { rx_stages, distributors, classifiers, outlets, .. } = self;
        let lists = match (role, self.routed) {
            (Role::All, _) => vec![rx_stages, classifiers, outlets],
            (Role::Rx, false) => vec![distributors],
            (Role::Rx, true) => vec![rx_stages, distributors],
            (Role::Work, _) => vec![classifiers],
            (Role::Tx, _) => vec![outlets],
        };
        for list in lists {
            list.insert(list.partition_point(|other| *other < stage), stage);
        }
    }

    /// Removes a stage.
    pub(crate) fn remove(&mut self, stage: usize) {
        let Self { rx_stages, distributors, classifiers, outlets, .. } = self;
        for list in [rx_stages, distributors, classifiers, outlets] {
            list.retain(|other| *other != stage);
        }
    }

    /// Pairs of connected stages: every distributor to every classifier and, in a pipeline, every classifier to every
    /// outlet.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (usize, usize)> {
        let fan = self.distributors.iter().flat_map(|from| self.classifiers.iter().map(|to| (*from, *to)));
        let outlets: &[usize] = if self.routed { &self.outlets } else { &[] };
        fan.chain(self.classifiers.iter().flat_map(move |from| outlets.iter().map(|to| (*from, *to))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HandoffConfig, PipelineConfig, Roles};

    fn layout(model: &Model, threads: usize) -> Layout {
        Layout::new(model, &model.roles(threads).concat())
    }

    #[test]
    fn run_to_completion_has_no_handoff_queues() {
        let layout = layout(&Model::RunToCompletion, 2);
        assert_eq!((layout.rx_stages.len(), layout.connections().count()), (2, 0));
    }

    #[test]
    fn each_distributor_is_connected_to_every_worker() {
        let layout = layout(&Model::SoftwareRss(HandoffConfig::default()), 2);
        assert_eq!((&layout.rx_stages[..], &layout.distributors[..]), (&[0, 2][..], &[1, 3][..]));
        assert_eq!(layout.connections().collect::<Vec<_>>(), [(1, 0), (1, 2), (3, 0), (3, 2)]);
    }

    #[test]
    fn stages_that_are_added_or_removed_give_the_layout_of_a_start() {
        let software_rss = Model::SoftwareRss(HandoffConfig::default());
        let mut one = layout(&software_rss, 1);
        one.add(Role::All, 2);
        one.add(Role::Rx, 3);
        assert_eq!(one, layout(&software_rss, 2));
        let roles = [Role::Rx, Role::Work, Role::Tx].map(Roles::only).to_vec();
        let pipeline = Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() });
        let mut grown = layout(&pipeline, 3);
        for (role, stage) in [(Role::Work, 5), (Role::Rx, 3), (Role::Tx, 4)] {
            grown.add(role, stage);
        }
        assert_eq!((&grown.rx_stages[..], &grown.outlets[..]), (&[0, 3][..], &[2, 4][..]));
        (3..6).for_each(|stage| grown.remove(stage));
        assert_eq!(grown, layout(&pipeline, 3));
    }

    #[test]
    fn stages_are_connected_in_pipeline_order() {
        let io = Roles { rx: true, work: false, tx: true };
        let roles = vec![io, Roles::only(Role::Work), Roles::only(Role::Work)];
        let layout =
            layout(&Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() }), 3);
        assert_eq!(
            (&layout.rx_stages[..], &layout.classifiers[..], &layout.outlets[..]),
            (&[0][..], &[2, 3][..], &[1][..])
        );
        assert_eq!(layout.connections().collect::<Vec<_>>(), [(0, 2), (0, 3), (2, 1), (3, 1)]);
    }
}
