//! Random changes against a list of flows.

use super::*;
use crate::options::{Mapping, OptionChange};
use crate::translate::random_match;
use proptest::prelude::*;
use proptest::sample::select;

/// A flow of the list: match, priority, cookie, output.
type Model = Vec<(Match, u16, u64, u32)>;

fn apply_to(model: &mut Model, change: &FlowMod, output: u32) {
    let strict = matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
    let matching = change.matching;
    let same = |flow: &(Match, u16, u64, u32)| flow.0 == matching && flow.1 == change.priority;
    let selected = |flow: &(Match, u16, u64, u32)| {
        (if strict { same(flow) } else { matching.covers(&flow.0) })
            && (flow.2 ^ change.cookie) & change.cookie_mask == 0
    };
    match change.command {
        FlowCommand::Add => {
            model.retain(|flow| !same(flow));
            model.push((matching, change.priority, change.cookie, output));
        }
        FlowCommand::Modify | FlowCommand::ModifyStrict => {
            model.iter_mut().filter(|flow| selected(flow)).for_each(|flow| flow.3 = output);
        }
        FlowCommand::Delete | FlowCommand::DeleteStrict => model.retain(|flow| !selected(flow)),
    }
}

fn content(tables: &Tables) -> Model {
    let flows = tables.flows(TABLE).map(|flow| {
        let Action::Output { port, .. } = flow.instructions().apply[0] else { panic!() };
        (flow.entry().matching(), flow.entry().priority(), flow.entry().cookie(), port.0)
    });
    sorted(flows.collect())
}

fn sorted(mut model: Model) -> Model {
    model.sort_by_cached_key(|flow| format!("{flow:?}"));
    model
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn changes_do_what_they_do_to_a_list(
        changes in prop::collection::vec(
            (
                select(vec![
                    FlowCommand::Add,
                    FlowCommand::Add,
                    FlowCommand::Add,
                    FlowCommand::Modify,
                    FlowCommand::ModifyStrict,
                    FlowCommand::Delete,
                    FlowCommand::DeleteStrict,
                ]),
                random_match(),
                0..3_u16,
                0..4_u64,
                0..4_u64,
            ),
            1..60,
        ),
    ) {
        let (mut tables, mut model) = (Tables::new(1), Model::new());
        let option = |n| (n, Mapping { class: 1, kind: n, len: 4 });
        tables.apply_options(&OptionChange::Add(vec![option(0), option(2)])).unwrap();
        for (i, (command, matching, priority, cookie, cookie_mask)) in changes.into_iter().enumerate() {
            let port = i as u32 + 1;
            let instructions = apply(&[output(port)]);
            let change =
                FlowMod { cookie, cookie_mask, instructions, ..change(command, matching, priority) };
            let (before, snapshot) = (content(&tables), tables.clone());
            tables.apply(&change, now(0)).unwrap();
            let matching = tables.options().normal(&change.matching).unwrap();
            apply_to(&mut model, &FlowMod { matching, ..change }, port);
            prop_assert_eq!(content(&tables), sorted(model.clone()));
            prop_assert_eq!(content(&snapshot), before);
            prop_assert_eq!(tables.len(TABLE), model.len());
        }
        tables.apply(&change(FlowCommand::Delete, Match::any(), 0), now(0)).unwrap();
        prop_assert_eq!((tables.len(TABLE), tables.masks(TABLE)), (0, 0));
    }
}
