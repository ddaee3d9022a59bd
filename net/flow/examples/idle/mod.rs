//! A pipeline for the port `NORMAL`, which no flow uses.

use port::{Burst, Context, Pipeline, Pipelines, Verdicts};

pub(crate) struct Idle;

impl Pipelines for Idle {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Self)
    }
}

impl Pipeline for Idle {
    fn process(&mut self, _: &mut Burst, _: &Context, _: &mut Verdicts) {}
}
