//! Invalid profiles are rejected with an error that names the constant and the problem.

use crate::profile::{Profile, ProfileError};

const STUDY: &str = include_str!("../../profiles/i9-7940x.toml");

/// Returns the error of the study's profile with one substitution.
fn changed(from: &str, to: &str) -> String {
    assert!(STUDY.contains(from), "{from} is in the profile");
    let error = Profile::parse(&STUDY.replacen(from, to, 1)).expect_err("it is wrong");
    error.to_string()
}

#[test]
fn built_in_profiles_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("profiles are there") {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        Profile::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn a_missing_constant_is_named() {
    let line = STUDY.lines().find(|line| line.starts_with("mispredict")).expect("it is there");
    let error = changed(line, "");
    assert!(error.contains("missing field `mispredict`"), "{error}");
    assert!(changed("[l2]", "[l9]").contains("unknown field `l9`"));
    assert!(changed("MESIF", "MSI").contains("MESIF"), "those that there are are named");
}

#[test]
fn numbers_that_are_no_size_or_time_are_refused() {
    for value in ["0", "-3", "nan", "inf", "-inf", "-0.0"] {
        let error = changed("value = 80.7", &format!("value = {value}"));
        assert!(error.contains(" for `transfer.dram`") && error.contains("number above zero"), "{error}");
    }
    assert!(changed("value = 80.7", "value = \"much\"").contains("invalid type"));
    assert!(changed("fill_buffers = { value = 10", "fill_buffers = { value = 0.5").contains("whole number"));
}

#[test]
fn sizes_that_no_processor_has_are_refused() {
    let gibibyte = 1_u64 << 30;
    for (from, to, name) in [
        ("width = { value = 4", "width = { value = 17".to_owned(), "core.width"),
        ("value = 20185088", format!("value = {}", gibibyte + 64), "llc.bytes"),
        ("frequency = { value = 3.1", "frequency = { value = 3100000000.0".to_owned(), "frequency"),
        (
            "reorder_buffer = { value = 224",
            "reorder_buffer = { value = 1e9".to_owned(),
            "core.reorder_buffer",
        ),
    ] {
        let error = changed(from, &to);
        assert!(error.contains(&format!(" for `{name}`")) && error.contains("at most"), "{error}");
    }
    let error = changed("bytes = { value = 32768", "bytes = { value = 448");
    assert!(error.contains("8 for `l1.ways`: expected at most the 7 lines"), "{error}");
    let error = changed("protocol =", "device_ways = { value = 12, source = \"a test\" }\nprotocol =");
    assert!(error.contains("12 for `device_ways`"), "{error}");
}

#[test]
fn times_that_round_to_zero_are_refused() {
    for (from, to, name) in [
        ("latency = { value = 4,", "latency = { value = 0.001,", "l1.latency"),
        ("\nstore = { value = 1,", "\nstore = { value = 0.001,", "core.store"),
        ("drain = { value = 80,", "drain = { value = 1e-9,", "transfer.drain"),
        ("dram_interval = { value = 0.75,", "dram_interval = { value = 1e-300,", "transfer.dram_interval"),
    ] {
        let error = changed(from, to);
        assert!(error.contains(&format!(" for `{name}`")) && error.contains("a sixteenth"), "{error}");
    }
    let error = changed("width = { value = 4,", "width = { value = 1e-9,");
    assert!(error.contains(" for `core.width`") && error.contains("at least 1"), "{error}");
}

#[test]
fn constants_need_sources_and_at_most_three_are_free() {
    assert!(changed("source = \"the study: fixed frequency\"", "source = \" \"").contains("has no source"));
    let free = STUDY.replace("source = \"the study\"", "source = \"the study\", free = true");
    assert!(matches!(Profile::parse(&free), Err(ProfileError::TooFree(count)) if count > 2));
}
