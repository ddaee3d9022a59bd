//! Writes a simulator profile from a calibration: TOML in which each constant names its source.

use std::fmt::Write;
use std::time::SystemTime;

use super::Calibration;
use sim::Profile;

/// Measurements that become constants.
pub const USED: [&str; 13] = [
    "frequency",
    "l1.latency",
    "l2.latency",
    "llc.latency",
    "dram",
    "parallel_misses",
    "store.l1",
    "store.l2",
    "stream",
    "past",
    "hand_over",
    "core_modified",
    "core_clean",
];

/// Constants from a manual that cannot be measured from user space.
#[derive(Clone, Copy, Debug)]
struct Manual {
    width: u32,
    reorder_buffer: u32,
    store_buffer: u32,
    mispredict: u32,
    source: &'static str,
}

const ZEN_4: Manual = Manual {
    width: 6,
    reorder_buffer: 320,
    store_buffer: 64,
    mispredict: 13,
    source: "LLVM's scheduling model for Zen 4, which quotes AMD's guide 57647",
};

const SKYLAKE: Manual = Manual {
    width: 4,
    reorder_buffer: 224,
    store_buffer: 56,
    mispredict: 16,
    source: "Intel optimization manual, Skylake; mispredict: A. Fog, Microarchitecture",
};

/// Returns the constants of this processor, or Skylake's with a remark that it is unknown.
fn manual(processor: &str) -> (Manual, &'static str) {
    let model = |text: &str| processor.contains(text);
    let genoa = (16..32).any(|n| model(&format!("(family 25, model {n})")));
    let desktop = (96..128).any(|n| model(&format!("(family 25, model {n})")));
    if genoa || desktop {
        (ZEN_4, "")
    } else if model("(family 6, model 85)") {
        (SKYLAKE, "")
    } else {
        (SKYLAKE, "not known for this processor, taken from another: ")
    }
}

/// Returns the profile text. Every measured source contains `date`.
pub fn write(calibration: &Calibration, date: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = fill(&mut text, calibration, date);
    text
}

fn fill(text: &mut String, calibration: &Calibration, date: &str) -> std::fmt::Result {
    let name = &calibration.processor;
    let ghz = calibration.median("frequency").unwrap_or(1.0);
    let by = |how: &str| format!("measured by {how} on {name}, {date}");
    let ns = |what: &str| calibration.median(what).unwrap_or(f64::NAN);
    let cycles = |what: &str| ns(what) * ghz;
    writeln!(text, "# {name}, calibrated on {date}.")?;
    for note in &calibration.notes {
        writeln!(text, "# {note}.")?;
    }
    for doubt in calibration.implausible() {
        writeln!(text, "# Not plausible: {doubt}.")?;
    }
    writeln!(text, "name = \"{name}\"")?;
    line(text, "frequency", ghz, &by("dependent additions, one a cycle"), false)?;
    let amd = name.starts_with("AMD");
    writeln!(text, "protocol = \"{}\"", if amd { "MOESI" } else { "MESIF" })?;
    let sharing = if amd {
        "MOESI: the owner of a changed line keeps it and shares it"
    } else {
        "MESIF: a changed line that is read is shared"
    };
    line(text, "migratory", 0.0, sharing, false)?;
    line(text, "l2_stream", 1.0, "taken from the study's profile", false)?;
    let (manual, doubt) = manual(name);
    let book = format!("{doubt}{}", manual.source);
    writeln!(text, "\n[core]")?;
    line(text, "width", f64::from(manual.width), &book, false)?;
    line(text, "reorder_buffer", f64::from(manual.reorder_buffer), &book, false)?;
    line(text, "store_buffer", f64::from(manual.store_buffer), &book, false)?;
    let parallel = ns("parallel_misses").round().max(1.0);
    line(text, "fill_buffers", parallel, &by("independent misses, one more of which costs most"), false)?;
    line(text, "mispredict", f64::from(manual.mispredict), &book, false)?;
    line(text, "store", cycles("store.l1").max(0.5), &by("scattered stores in half of L1"), false)?;
    line(text, "store_l2", cycles("store.l2"), &by("scattered stores in half of L2"), false)?;
    levels(text, calibration, &by, &cycles)?;
    transfer(text, calibration, &by, &ns)
}

fn levels(
    text: &mut String,
    calibration: &Calibration,
    by: &dyn Fn(&str) -> String,
    cycles: &dyn Fn(&str) -> f64,
) -> std::fmt::Result {
    let caches = &calibration.caches;
    let told = if caches.assumed {
        "not told by the system, taken from the study's processor".to_owned()
    } else {
        format!("/sys/devices/system/cpu/cpu0/cache on {}", calibration.processor)
    };
    for (name, cache) in [("l1", caches.l1), ("l2", caches.l2), ("llc", caches.llc)] {
        writeln!(text, "\n[{name}]")?;
        line(text, "bytes", cache.bytes as f64, &told, false)?;
        line(text, "ways", cache.ways as f64, &told, false)?;
        let part = match name {
            "l1" => "half of it",
            "l2" => "a quarter of it",
            _ => "four times the second level",
        };
        let how = format!("pointer chase over {part}, address by base and index");
        line(text, "latency", cycles(&format!("{name}.latency")), &by(&how), false)?;
    }
    Ok(())
}

fn transfer(
    text: &mut String,
    calibration: &Calibration,
    by: &dyn Fn(&str) -> String,
    ns: &dyn Fn(&str) -> f64,
) -> std::fmt::Result {
    writeln!(text, "\n[transfer]")?;
    line(text, "dram", ns("dram"), &by("pointer chase over eight times the shared cache"), false)?;
    line(text, "dram_interval", ns("stream"), &by("reading line after line with one core"), false)?;
    let handed = "pointer chase over what another core has just";
    line(text, "core_clean", ns("core_clean"), &by(&format!("{handed} read")), false)?;
    line(text, "core_modified", ns("core_modified"), &by(&format!("{handed} written")), false)?;
    let upgrade = ns("hand_over") - ns("core_modified");
    if upgrade > 0.0 {
        line(text, "upgrade", upgrade, &by("ping-pong, less a modified line's way"), false)?;
    } else {
        let source =
            by("ping-pong, which leaves nothing beside a modified line's way: taken as long as that");
        line(text, "upgrade", ns("core_modified"), &source, false)?;
    }
    line(
        text,
        "hold",
        Profile::study().transfer.hold.value,
        "taken from the study's profile, where it is fitted",
        true,
    )?;
    match calibration.median("past") {
        Some(past) => {
            let buffers = ns("parallel_misses").round().max(1.0);
            let how = "writing line after line past the caches, times the fill buffers";
            line(text, "drain", past * buffers, &by(how), false)
        }
        None => line(text, "drain", ns("dram"), "taken as a write to memory takes as long as a read", false),
    }
}

fn line(text: &mut String, name: &str, value: f64, source: &str, free: bool) -> std::fmt::Result {
    let value = (value * 100.0).round() / 100.0;
    let free = if free { ", free = true" } else { "" };
    writeln!(text, "{name} = {{ value = {value}, source = \"{source}\"{free} }}")
}

/// Formats the UTC date of a time as `2022-11-09`.
pub fn day(at: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(at).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}
