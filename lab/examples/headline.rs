//! The study's headline cases in the simulator.
use lab::cache::experiment::{Length, simulate};
use lab::cache::model::Config;
use lab::cache::simulated::Profile;

fn main() {
    let mut profile = Profile::study();
    for (name, field) in [
        ("HOLD", &mut profile.transfer.hold),
        ("UPGRADE", &mut profile.transfer.upgrade),
        ("CLEAN", &mut profile.transfer.core_clean),
        ("MOD", &mut profile.transfer.core_modified),
        ("SB", &mut profile.core.store_buffer),
        ("DRAM", &mut profile.transfer.dram),
        ("MIG", &mut profile.migratory),
        ("STREAM", &mut profile.l2_stream),
    ] {
        if let Ok(value) = std::env::var(name) {
            field.value = value.parse().expect("a number");
        }
    }
    let base = Config::default();
    let a = Config { own_avail: true, own_used: true, own_pool: true, aligned: true, ..base.clone() };
    let d = Config { header: 0, ..base.clone() };
    let ad = Config { header: 0, ..a.clone() };
    let b = Config {
        copy_rx: lab::cache::memory::Copying::NonTemporal,
        copy_tx: lab::cache::memory::Copying::NonTemporal,
        ..base.clone()
    };
    let abd = Config { copy_rx: b.copy_rx, copy_tx: b.copy_tx, ..ad.clone() };
    let c = Config { descriptor: 8, ..base.clone() };
    let e = Config { headroom: 0, data: 64, ..base.clone() };
    let f = Config {
        prefetchers: lab::cache::model::config::Prefetchers { stream: false, adjacent: false },
        ..base.clone()
    };
    let best = Config { descriptor: 8, headroom: 0, data: 64, prefetchers: f.prefetchers, ..abd.clone() };
    let ro = Config { header_use: lab::cache::model::config::HeaderUse::ReadOnly, ..base.clone() };
    let pf = Config { header_use: lab::cache::model::config::HeaderUse::PrefetchWrite, ..base.clone() };
    for (name, config) in [
        ("base", base),
        ("a", a),
        ("d", d),
        ("ad", ad),
        ("b", b),
        ("abd", abd),
        ("c", c),
        ("e", e),
        ("f", f),
        ("af", lab::cache::factors::find("a+f").expect("ok").config),
        ("adf", lab::cache::factors::find("a+d+f").expect("ok").config),
        ("best", best),
        ("ro", ro),
        ("pf", pf),
    ] {
        let began = std::time::Instant::now();
        let outcome = simulate(&profile, &config, Length::default()).expect("runs");
        println!("{name:5} {:6.2} Mpps in {:.2} s", outcome.mpps, began.elapsed().as_secs_f64());
        for (who, tally) in ["rx", "guest", "tx"].iter().zip(&outcome.threads) {
            let c = &tally.counters;
            let per = |t| tally.cycles_per_packet(t);
            println!(
                "      {who:5} cyc {:6.1} ins {:6.1} l1 {:5.2} l2 {:5.2} dram {:5.2} hitm {:5.2} rfo {:5.2}/{:5.2} rfocyc {:6.1}/{:6.1} l2s {:5.1} llc {:5.1} core {:5.1} dram {:5.1} sb {:5.1} spin {:5.1} lost {:5.2} fb {:5.1} mpki {:4.1}/{:4.1}",
                per(c.time),
                tally.per_packet(c.instructions),
                tally.per_packet(c.l1_misses),
                tally.per_packet(c.l2_misses),
                tally.per_packet(c.llc_misses),
                tally.per_packet(c.hits_modified),
                tally.per_packet(c.rfo_demand),
                tally.per_packet(c.rfo_ahead),
                per(c.rfo_time),
                per(c.rfo_any_time),
                per(c.stall_l2),
                per(c.stall_llc),
                per(c.stall_core),
                per(c.stall_dram),
                per(c.stall_stores),
                per(c.spin),
                tally.per_packet(c.lost_lines),
                per(c.fill_full_time),
                tally.l1_mpki(),
                tally.l2_mpki()
            );
        }
    }
}
