//! Results of the cache laboratory and of benchmarks, drawn: figures as SVG, and one page that holds them with the tables
//! beside.
//!
//! Everything here is a function from results to text; no file is touched. A page needs nothing but itself: no network, no
//! font, no library. What is simulated and what was measured stands in parts of its own, and every figure says which
//! it is; published numbers appear in one table, as published, and enter no figure. All words that come from
//! results pass through `text::escape`, since a file of results may come from anybody.

mod copies;
mod figures;
pub mod fuzz;
mod kept;
mod page;
mod paths;
mod summary;
mod tables;
mod text;
mod usage;

pub use copies::copies_text;
pub use kept::ResultFile;
pub use page::page;
pub use summary::summary;
pub use usage::{Section, Table, usage_page, usage_provenance, usage_sections};

use figure::Figure;
use serde::Serialize;

use studies::analysis::Analysis;
use studies::copystudy;
use studies::paths::study::PathResults;
use studies::published::{REFERENCES, SOURCE};
use studies::results::Results;
use studies::usage::Results as UsageResults;

/// Sets of results with what they show, in the order in which they are to be read.
#[derive(Debug)]
pub struct Report {
    sets: Vec<Set>,
    copies: Vec<copies::CopySet>,
    paths: Vec<PathResults>,
    usage: Vec<UsageResults>,
}

/// One set.
#[derive(Debug)]
pub(crate) struct Set {
    /// From 1
    pub(crate) number: usize,
    pub(crate) results: Results,
    pub(crate) analysis: Analysis,
}

/// What a program gets: our analyses, and what was published apart from them.
#[derive(Debug, Serialize)]
pub struct Findings<'a> {
    /// One for each set
    pub sets: Vec<&'a Analysis>,
    /// One for each set of the second study
    pub copies: Vec<CopyFindings<'a>>,
    /// linerate's own path, as it was kept
    pub paths: &'a [PathResults],
    /// The studies of use, as they were kept
    pub usage: &'a [UsageResults],
    /// Reference points; not ours
    pub published: Published,
}

/// What a set of the second study shows.
#[derive(Debug, Serialize)]
pub struct CopyFindings<'a> {
    /// As it was kept
    #[serde(flatten)]
    pub results: &'a copystudy::Results,
    /// The study's orders, with what became of each
    pub orders: &'a [copystudy::Finding],
}

/// Numbers of the study.
#[derive(Debug, Serialize)]
pub struct Published {
    /// Where they were taken from
    pub source: &'static str,
    /// One by one
    pub numbers: Vec<PublishedNumber>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct PublishedNumber {
    /// Configuration, by our name
    pub configuration: &'static str,
    /// With its unit
    pub quantity: &'static str,
    /// As published
    pub value: f64,
    /// Only a lower bound
    pub at_least: bool,
}

impl Report {
    /// Of these sets.
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
        }
    }

    /// With these sets of the second study behind.
    #[must_use]
    pub fn with_copies(mut self, sets: impl IntoIterator<Item = copystudy::Results>) -> Report {
        let before = self.sets.len() + 1;
        let sets = sets.into_iter().enumerate();
        self.copies = sets.map(|(n, results)| copies::CopySet::new(before + n, results)).collect();
        self
    }

    /// With linerate's own path, each in a part of its own.
    #[must_use]
    pub fn with_paths(self, paths: Vec<PathResults>) -> Report {
        Report { paths, ..self }
    }

    /// With studies of use, each in a part of its own.
    #[must_use]
    pub fn with_usage(self, usage: Vec<UsageResults>) -> Report {
        Report { usage, ..self }
    }

    /// Of what files hold, each kind in the order of the files.
    pub fn of(files: impl IntoIterator<Item = ResultFile>) -> Report {
        let (mut sets, mut copies, mut paths, mut usage) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for kept in files {
            match kept {
                ResultFile::Model(results) => sets.push(*results),
                ResultFile::Copies(results) => copies.push(*results),
                ResultFile::Paths(results) => paths.push(*results),
                ResultFile::Usage(results) => usage.push(*results),
            }
        }
        Report::new(sets).with_copies(copies).with_paths(paths).with_usage(usage)
    }

    /// The studies of use.
    pub fn usage(&self) -> &[UsageResults] {
        &self.usage
    }

    /// Every figure of every set.
    pub fn figures(&self) -> Vec<Figure> {
        let copies = self.copies.iter().flat_map(figures::copies::all);
        let before = self.sets.len() + self.copies.len();
        let paths = self.paths.iter().enumerate();
        let paths = paths.flat_map(|(n, results)| paths::figures(before + n + 1, results));
        let before = before + self.paths.len();
        let usage = self.usage.iter().enumerate().flat_map(|(n, results)| {
            let figures = usage_sections(results).into_iter().flat_map(|section| section.figures);
            figures.map(move |figure| figure.numbered(before + n + 1))
        });
        self.sets.iter().flat_map(figures::all).chain(copies).chain(paths).chain(usage).collect()
    }

    /// As data.
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
            published: Published { source: SOURCE, numbers: REFERENCES.iter().map(number).collect() },
        }
    }
}

fn findings(set: &copies::CopySet) -> CopyFindings<'_> {
    CopyFindings { results: &set.results, orders: &set.orders }
}

#[cfg(test)]
mod tests;
