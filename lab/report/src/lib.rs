//! Reports of the cache laboratory and of benchmarks: SVG figures, and one page with figures and tables.
//!
//! Every function maps results to text; no file is accessed. A page is self-contained: no network, fonts or libraries.
//! Simulated and measured results are in separate parts, and every figure says which it is; published numbers appear
//! unchanged in one table and in no figure. A result file is untrusted input: `maud` escapes its text.

#![forbid(unsafe_code)]

mod copies;
mod figures;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod page;
mod paths;
mod stack;
mod stored;
mod summary;
mod tables;
mod text;
mod usage;

pub use copies::copies_text;
pub use page::page;
pub use stack::{stack_page, stack_provenance, stack_sections};
pub use stored::ResultFile;
pub use summary::summary;
pub use usage::{Section, Table, usage_page, usage_provenance, usage_sections};

use figure::Figure;
use serde::Serialize;

use studies::analysis::Analysis;
use studies::copystudy;
use studies::paths::study::PathResults;
use studies::published::{REFERENCES, SOURCE};
use studies::results::Results;
use studies::stack::Results as StackResults;
use studies::usage::Results as UsageResults;

/// Result sets with their analyses, in page order.
#[derive(Debug)]
pub struct Report {
    sets: Vec<Set>,
    copies: Vec<copies::CopySet>,
    paths: Vec<PathResults>,
    usage: Vec<UsageResults>,
    stack: Vec<StackResults>,
}

/// A set of the model.
#[derive(Debug)]
pub(crate) struct Set {
    /// Number on the page, from 1
    pub(crate) number: usize,
    pub(crate) results: Results,
    pub(crate) analysis: Analysis,
}

/// Machine-readable findings: our analyses, and published numbers in a separate field.
#[derive(Debug, Serialize)]
pub struct Findings<'a> {
    /// One per set
    pub sets: Vec<&'a Analysis>,
    /// One per set of the copy study
    pub copies: Vec<CopyFindings<'a>>,
    /// Results of linerate's own path, as stored
    pub paths: &'a [PathResults],
    /// Results of the usage studies, as stored
    pub usage: &'a [UsageResults],
    /// Results of the studies of the stack, as stored
    pub stack: &'a [StackResults],
    /// Reference points of the publication
    pub published: Published,
}

/// Findings of a set of the copy study.
#[derive(Debug, Serialize)]
pub struct CopyFindings<'a> {
    /// Results, as stored
    #[serde(flatten)]
    pub results: &'a copystudy::Results,
    /// Expected orders with their results
    pub orders: &'a [copystudy::Finding],
}

/// Published numbers.
#[derive(Debug, Serialize)]
pub struct Published {
    /// Source
    pub source: &'static str,
    /// Numbers
    pub numbers: Vec<PublishedNumber>,
}

/// A published number.
#[derive(Debug, Serialize)]
pub struct PublishedNumber {
    /// Configuration, by our name
    pub configuration: &'static str,
    /// Quantity, with its unit
    pub quantity: &'static str,
    /// Value, as published
    pub value: f64,
    /// Whether the value is a lower bound
    pub at_least: bool,
}

impl Report {
    /// A report of these sets of the model.
    pub fn new(sets: impl IntoIterator<Item = Results>) -> Report {
        let set = |(n, results): (usize, Results)| {
            let analysis = Analysis::of(&results);
            Set { number: n + 1, results, analysis }
        };
        Report {
            sets: sets.into_iter().enumerate().map(set).collect(),
            copies: Vec::new(),
            paths: Vec::new(),
            usage: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Adds sets of the copy study.
    #[must_use]
    pub fn with_copies(mut self, sets: impl IntoIterator<Item = copystudy::Results>) -> Report {
        let before = self.sets.len() + 1;
        let sets = sets.into_iter().enumerate();
        self.copies = sets.map(|(n, results)| copies::CopySet::new(before + n, results)).collect();
        self
    }

    /// Adds results of linerate's own path, each as a part of the page.
    #[must_use]
    pub fn with_paths(self, paths: Vec<PathResults>) -> Report {
        Report { paths, ..self }
    }

    /// Adds usage studies, each as a part of the page.
    #[must_use]
    pub fn with_usage(self, usage: Vec<UsageResults>) -> Report {
        Report { usage, ..self }
    }

    /// Adds studies of the stack, each as a part of the page.
    #[must_use]
    pub fn with_stack(self, stack: Vec<StackResults>) -> Report {
        Report { stack, ..self }
    }

    /// A report of these files, each kind in the order of the files.
    pub fn of(files: impl IntoIterator<Item = ResultFile>) -> Report {
        let (mut sets, mut copies, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        let (mut usage, mut stack) = (Vec::new(), Vec::new());
        for file in files {
            match file {
                ResultFile::Model(results) => sets.push(*results),
                ResultFile::Copies(results) => copies.push(*results),
                ResultFile::Paths(results) => paths.push(*results),
                ResultFile::Usage(results) => usage.push(*results),
                ResultFile::Stack(results) => stack.push(*results),
            }
        }
        Report::new(sets).with_copies(copies).with_paths(paths).with_usage(usage).with_stack(stack)
    }

    /// The usage studies.
    pub fn usage(&self) -> &[UsageResults] {
        &self.usage
    }

    /// The studies of the stack.
    pub fn stack(&self) -> &[StackResults] {
        &self.stack
    }

    /// All figures of all sets.
    pub fn figures(&self) -> Vec<Figure> {
        let copies = self.copies.iter().flat_map(copies::figures);
        let before = self.sets.len() + self.copies.len();
        let paths = self.paths.iter().enumerate();
        let paths = paths.flat_map(|(n, results)| paths::figures(before + n + 1, results));
        let before = before + self.paths.len();
        let usage = self.usage.iter().enumerate().flat_map(|(n, results)| {
            let figures = usage_sections(results).into_iter().flat_map(|section| section.figures);
            figures.map(move |figure| figure.numbered(before + n + 1))
        });
        let before = before + self.usage.len();
        let stack = self.stack.iter().enumerate().flat_map(|(n, results)| {
            let figures = stack_sections(results).into_iter().flat_map(|section| section.figures);
            figures.map(move |figure| figure.numbered(before + n + 1))
        });
        self.sets.iter().flat_map(figures::all).chain(copies).chain(paths).chain(usage).chain(stack).collect()
    }

    /// The findings as data.
    pub fn findings(&self) -> Findings<'_> {
        let number = |reference: &studies::published::Reference| PublishedNumber {
            configuration: reference.configuration,
            quantity: reference.quantity.name(),
            value: reference.value,
            at_least: reference.at_least,
        };
        Findings {
            sets: self.sets.iter().map(|set| &set.analysis).collect(),
            copies: self.copies.iter().map(findings).collect(),
            paths: &self.paths,
            usage: &self.usage,
            stack: &self.stack,
            published: Published { source: SOURCE, numbers: REFERENCES.iter().map(number).collect() },
        }
    }
}

fn findings(set: &copies::CopySet) -> CopyFindings<'_> {
    CopyFindings { results: &set.results, orders: &set.orders }
}

#[cfg(test)]
mod tests;
