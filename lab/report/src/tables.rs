//! Tables of the page.

use super::Set;
use super::figures::headline;
use super::text::thread;
use figure::page::{absent, table};
use figure::text::{kind, number};
use maud::{Markup, html};
use measure::Kind;
use studies::analysis::factorial::Effect;
use studies::analysis::shapley::Share;
use studies::factors::FACTORS;
use studies::published::{Quantity, REFERENCES, Reference, SOURCE};
use studies::results::{ConstantRow, Row, ThreadRow};

/// Number of effects shown; the others are in the JSON.
const EFFECTS: usize = 16;

/// Published numbers beside those of every set.
pub(super) fn published(sets: &[Set]) -> Markup {
    let mut titles = ["Quantity", "Configuration", ">Published"].map(str::to_owned).to_vec();
    titles.extend(sets.iter().map(|set| format!(">{}. {}", set.number, kind(set.results.memory))));
    let rows = REFERENCES.iter().map(|reference| {
        let bound = if reference.at_least { "> " } else { "" };
        let ratio = published_ratio(reference).map_or_else(String::new, |ratio| format!(" (× {ratio:.2})"));
        let mut row = vec![
            reference.quantity.name().to_owned(),
            reference.configuration.to_owned(),
            format!("{bound}{}{ratio}", reference.value),
        ];
        row.extend(sets.iter().map(|set| beside(set, reference)));
        row
    });
    html! {
        section id="published" class="published" {
            h2 { "Published reference points" }
            p {
                "The column " em { "Published" } " is taken from: " (SOURCE) ". It is used in no figure and no fit of this page. \
                 The ratio of a rate to the base follows in brackets, which makes two processors comparable. The study gives one \
                 number of misses and of RFO cycles for each configuration and does not name the thread; it says that the guest's \
                 misses limit its throughput. Ours are given as Rx / Guest / Tx."
            }
            (table(Some("table-published"), &titles, rows))
        }
    }
}

/// A published throughput relative to the published base; `None` for the base itself.
fn published_ratio(reference: &Reference) -> Option<f64> {
    let is_rate = |other: &&Reference| other.quantity == Quantity::Mpps;
    let base = REFERENCES.iter().filter(is_rate).find(|other| other.configuration == "base")?;
    let other = is_rate(&reference) && reference.configuration != "base";
    other.then(|| reference.value / base.value)
}

fn beside(set: &Set, reference: &Reference) -> String {
    let Some(row) = set.results.row(reference.configuration) else { return "not run".to_owned() };
    let ours: Vec<String> = reference.quantity.of(row).into_iter().map(number).collect();
    if ours.is_empty() {
        return "not counted".to_owned();
    }
    let ratio = set.analysis.ratios.iter().find(|ratio| ratio.name == reference.configuration);
    match ratio.filter(|_| reference.quantity == Quantity::Mpps) {
        Some(ratio) => format!("{} (× {:.2})", ours.join(" / "), ratio.ratio),
        None => ours.join(" / "),
    }
}

/// Effects, interactions and Shapley shares; or the reason for their absence.
pub(super) fn factors(set: &Set) -> Markup {
    let (Some(effects), Some(shares)) = (&set.analysis.factorial, &set.analysis.shapley) else {
        return html! {
            p class="absent" {
                "Factorial analysis and Shapley shares need all 64 combinations of a to f, which were not all run ("
                code { "linerate lab run --cells" } ")."
            }
        };
    };
    let of = set.analysis.best.as_deref().filter(|best| *best != "a+b+c+d+e+f");
    let best = of.map_or_else(
        || "All six together are the best of the 64.".to_owned(),
        |best| format!("The best of the 64 is {best}, and not all six together."),
    );
    html! {
        h4 { "Shares of ln(all six / base)" }
        p { "Shapley shares are exact, over all 64 combinations; their sum is the whole gain. " (best) }
        (shapley(shares, effects))
        h4 {
            "Effects and interactions of the full 2" sup { "6" } " factorial, the " (EFFECTS) " largest of 63"
        }
        (factorial(effects))
    }
}

/// Shapley share and main effect of each factor.
fn shapley(shares: &[Share], effects: &[Effect]) -> Markup {
    let title = |letter: char| {
        let factor = FACTORS.iter().find(|factor| factor.letter == Some(letter));
        factor.map_or("", |factor| factor.title).to_owned()
    };
    let part =
        |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0));
    let rows = shares.iter().map(|share| {
        let main = effects.iter().find(|effect| effect.letters == share.letter.to_string());
        vec![
            share.letter.to_string(),
            title(share.letter),
            format!("{:+.4}", share.value),
            part(share.part),
            main.map_or_else(String::new, |main| format!("{:+.4}", main.effect)),
            main.map_or_else(String::new, |main| format!("{:.3}", main.factor)),
        ]
    });
    let titles =
        ["Factor", "Change", ">Shapley share, ln", ">Of the gain", ">Main effect, ln", ">Main effect, ×"];
    table(Some("table-shapley"), &titles, rows)
}

/// The largest effects and interactions.
fn factorial(effects: &[Effect]) -> Markup {
    let rows = effects.iter().take(EFFECTS).map(|effect| {
        vec![
            effect.letters.clone(),
            format!("{:+.4}", effect.effect),
            format!("{:.3}", effect.factor),
            format!("{:.1} %", effect.share * 100.0),
        ]
    });
    table(Some("table-factorial"), &["Effect", ">ln", ">×", ">Of all variation"], rows)
}

/// Hardware events by event and thread for the headline configurations; or the reason for their absence.
pub(super) fn events(set: &Set) -> Markup {
    let rows = headline(set);
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for event in rows.iter().flat_map(|row| &row.events) {
        let key = (event.event.as_str(), event.thread.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if let Some(reason) = not_counted(set.results.memory, keys.is_empty()) {
        return reason;
    }
    let mut titles = vec!["Event".to_owned(), "Thread".to_owned()];
    titles.extend(rows.iter().map(|row| format!(">{}", row.name)));
    let cell = |row: &&Row, key: (&str, &str)| {
        let found = row.events.iter().find(|event| (event.event.as_str(), event.thread.as_str()) == key);
        found.map_or_else(String::new, |event| number(event.per_packet))
    };
    let body = keys.iter().map(|key| {
        let mut line = vec![key.0.to_owned(), thread(key.1).to_owned()];
        line.extend(rows.iter().map(|row| cell(row, *key)));
        line
    });
    html! {
        h3 { "Hardware events per packet" }
        p { "Counted in user mode, the median over rounds; an empty field was not counted." }
        (table(Some("table-events"), &titles, body))
    }
}

/// Reason for the absence of hardware events, which is empty for a simulation; `None` if there are any.
fn not_counted(memory: Kind, is_empty: bool) -> Option<Markup> {
    match memory {
        Kind::Simulated => Some(Markup::default()),
        Kind::Real => Some(html! {
            p class="absent" {
                "Timed by the clock, with no hardware counters: misses, cycles by cause and lines were not counted ("
                code { "--memory counted" } " counts if the processor supports it)."
            }
        }),
        Kind::Counted => is_empty.then(|| absent("The hardware counters of this machine counted nothing.")),
    }
}

/// Constants of a simulated set.
pub(super) fn constants(constants: &[ConstantRow]) -> Markup {
    if constants.is_empty() {
        return Markup::default();
    }
    let rows = constants.iter().map(|constant| {
        let free = if constant.free { "free" } else { "" };
        vec![constant.name.clone(), constant.value.to_string(), free.to_owned(), constant.source.clone()]
    });
    let free = constants.iter().filter(|constant| constant.free).count();
    html! {
        h3 { "Constants" }
        p {
            "Inputs of the simulator: " (free) " of " (constants.len()) " are free, which means fitted; all others come from \
             their sources. Sizes are in bytes, " code { "transfer" } " in nanoseconds, other times in cycles, the frequency in GHz."
        }
        (table(None, &["Constant", ">Value", "Free", "Source"], rows))
    }
}

/// A value of each thread, such as `1 / 2 / 3`.
pub(super) fn each_thread(threads: &[ThreadRow], read: fn(&ThreadRow) -> f64) -> String {
    threads.iter().map(|thread| number(read(thread))).collect::<Vec<_>>().join(" / ")
}

/// Values of every configuration.
pub(super) fn rows(set: &Set) -> Markup {
    let rows = set.results.rows.iter().map(|row| {
        let ratio = set.analysis.ratios.iter().find(|ratio| ratio.name == row.name);
        let each = |read| each_thread(&row.threads, read);
        vec![
            row.name.clone(),
            number(row.mpps),
            ratio.map_or_else(String::new, |ratio| format!("{:.3}", ratio.ratio)),
            each(|thread| thread.l1_misses),
            each(|thread| thread.l2_misses),
            each(|thread| thread.llc_misses),
            each(|thread| thread.hits_modified),
            each(|thread| thread.rfo_cycles),
        ]
    });
    let titles = [
        "Configuration",
        ">Mpps",
        ">Ratio",
        ">L1 misses",
        ">L2 misses",
        ">LLC misses",
        ">Hits modified",
        ">RFO cycles",
    ];
    html! {
        details {
            summary { "All configurations" }
            p { "Per packet, Rx / Guest / Tx." }
            (table(None, &titles, rows))
        }
    }
}
