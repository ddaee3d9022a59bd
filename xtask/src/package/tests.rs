//! What packages consist of, without a build: the files that their metadata names exist, and the tools that read them
//! at the user's accept them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

use super::{Kind, PackageArguments, VERSION, build, image, reproduce, sbom, stage, sums};
use crate::command;

/// Folders of the crates with metadata of packages.
const FOLDERS: [&str; 2] = ["cli", "stack/ffi"];
/// Where built and generated files are in the metadata.
const BUILT: &str = "target/release/";
/// Where copies of the repository's files and of programs are in the metadata for RPM systems.
const COPIES: &str = "target/release/package/tree/";
const PROGRAMS: &str = "target/release/package/programs/";

fn manifest(folder: &str) -> Table {
    let path = command::root().join(folder).join("Cargo.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// The metadata for `tool` of a crate, and that of each variant.
fn metadata(folder: &str, tool: &str) -> Vec<Table> {
    let own = manifest(folder)["package"]["metadata"][tool].as_table().unwrap().clone();
    let variants = own.get("variants").and_then(Value::as_table).cloned().unwrap_or_default();
    let variants = variants.into_iter().map(|(_, variant)| variant.as_table().unwrap().clone());
    [own].into_iter().chain(variants).collect()
}

/// Sources of the files in metadata, and their destinations.
fn assets(metadata: &Table) -> Vec<(String, String)> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let asset = |asset: &Value| match asset {
        Value::Array(parts) => (text(parts.first()), text(parts.get(1))),
        parts => (text(parts.get("source")), text(parts.get("dest"))),
    };
    let original = |(source, dest): (String, String)| {
        if let Some(path) = source.strip_prefix(COPIES) {
            let is_copied = |copied: &&str| path.starts_with(copied) || path == "LICENSE-*";
            assert!(stage::COPIED.iter().any(is_copied), "{path}");
            return (path.to_owned(), dest);
        }
        (source.replace(PROGRAMS, BUILT), dest)
    };
    metadata["assets"].as_array().unwrap().iter().map(asset).map(original).collect()
}

/// Files that a source names, which may have `*` or `[a-z]*` in its last part.
fn named(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let Some((before, after)) = name.split_once('*') else {
        return path.is_file().then(|| path.to_owned()).into_iter().collect();
    };
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_named = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_lower = name.starts_with(|first: char| first.is_ascii_lowercase());
        match before.strip_suffix("[a-z]") {
            Some(before) => is_lower && before.is_empty() && name.ends_with(after),
            None => name.starts_with(before) && name.ends_with(after),
        }
    };
    entries.filter(is_named).collect()
}

#[test]
fn files_of_packages_exist() {
    let root = command::root();
    let mut seen = 0;
    for folder in FOLDERS {
        // cargo-deb begins at the crate, cargo-generate-rpm at the root of the workspace.
        for (tool, base) in [("deb", root.join(folder)), ("generate-rpm", root.clone())] {
            for (source, dest) in metadata(folder, tool).iter().flat_map(assets) {
                let is_file = !source.is_empty() && !source.starts_with(BUILT);
                assert!(!is_file || !named(&base.join(&source)).is_empty(), "{folder}, {tool}: no {source}");
                assert!(dest.starts_with('/') == (tool == "generate-rpm"), "{folder}, {tool}: {dest}");
                seen += usize::from(is_file);
            }
        }
        for script in ["post_install_script", "pre_uninstall_script", "post_uninstall_script"] {
            for path in metadata(folder, "generate-rpm").iter().filter_map(|metadata| metadata.get(script)) {
                assert!(root.join(path.as_str().unwrap()).is_file(), "{path:?}");
            }
        }
    }
    assert!(seen > 30, "only {seen} files");
}

#[test]
fn both_kinds_of_packages_have_the_same_programs_and_configuration() {
    let main = |tool: &str| assets(&metadata("cli", tool)[0]);
    let (deb, rpm) = (main("deb"), main("generate-rpm"));
    let dests = |assets: &[(String, String)], is_wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        let all = assets.iter().map(|(source, dest)| format!("{source} {}", dest.trim_start_matches('/')));
        all.map(|asset| asset.replace("../", "")).filter(|asset| is_wanted(asset)).collect()
    };
    // Only Debian has AppArmor by default; zsh, Wireshark and licences have other directories.
    let common =
        |asset: &str| !["apparmor", "/zsh/", "/extcap/", "LICENSE"].iter().any(|word| asset.contains(word));
    assert_eq!(dests(&deb, &common), dests(&rpm, &common));
}

#[test]
fn versions_in_metadata_are_that_of_the_workspace() {
    let of = |tool: &str| metadata("stack/ffi", tool)[1].clone();
    assert_eq!(of("deb")["depends"].as_str(), Some(&*format!("liblinerate0 (= {VERSION}-1)")));
    assert_eq!(of("generate-rpm")["requires"]["linerate-libs"].as_str(), Some(&*format!("= {VERSION}")));
    let compose = fs::read_to_string(command::root().join("contrib/compose/compose.yaml")).unwrap();
    let images = compose.lines().filter_map(|line| line.trim().strip_prefix("image: "));
    assert_eq!(images.collect::<Vec<_>>(), [&*format!("linerate:{VERSION}"); 2]);
}

/// Runs a program that may be missing, on a machine without it; it has to accept what it reads.
fn accepts(program: &str, words: &[&str]) {
    if !command::exists(program) {
        eprintln!("not tested: {program} is not installed");
        return;
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(program).args(words).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {said}");
}

fn contrib(path: &str) -> String {
    command::root().join("contrib").join(path).display().to_string()
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(contrib("systemd/linerate.service")).unwrap();
    // The program is not installed, and verification wants it to exist.
    let unit = folder.path().join("linerate.service");
    fs::write(&unit, text.replace("/usr/bin/linerate", "/bin/true")).unwrap();
    accepts("systemd-analyze", &["verify", "--man=no", unit.to_str().unwrap()]);
    fs::write(&unit, text.replace("/usr/bin/linerate", "/nonexistent/linerate")).unwrap();
    if command::exists("systemd-analyze") {
        let verified =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        assert!(!verified.status.success(), "a program that does not exist is accepted");
    }
}

#[test]
fn user_and_directories_are_created_below_another_root() {
    if !command::is_root() || !command::exists("systemd-sysusers") || !command::exists("systemd-tmpfiles") {
        eprintln!("not tested: needs root, systemd-sysusers and systemd-tmpfiles");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    let root = format!("--root={}", folder.path().display());
    accepts("systemd-sysusers", &[&root, &contrib("systemd/sysusers.conf")]);
    let groups = fs::read_to_string(folder.path().join("etc/group")).unwrap();
    let kvm = groups.lines().find(|line| line.starts_with("kvm:")).unwrap();
    assert!(kvm.ends_with(":linerate"), "{groups}");
    accepts("systemd-tmpfiles", &[&root, "--create", &contrib("systemd/tmpfiles.conf")]);
    let mode = |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("run/linerate"), mode("run/linerate/guests")), (0o755, 0o2750));
}

#[test]
fn tools_accept_profile_scripts_and_hook() {
    accepts("apparmor_parser", &["--skip-kernel-load", "--skip-cache", &contrib("apparmor/linerate")]);
    for script in ["debian/postinst", "debian/prerm", "debian/postrm", "rpm/post", "rpm/preun", "rpm/postun"]
    {
        accepts("sh", &["-n", &contrib(script)]);
    }
    let compile = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')";
    accepts("python3", &["-c", compile, &contrib("libvirt/qemu-hook")]);
}

#[test]
fn profile_allows_what_the_unit_and_ports_need() {
    let unit = fs::read_to_string(contrib("systemd/linerate.service")).unwrap();
    let profile = fs::read_to_string(contrib("apparmor/linerate")).unwrap();
    let has = |rule: &str| profile.lines().any(|line| line.trim() == rule);
    assert!(unit.contains("\nType=notify\n") && unit.contains("\nWatchdogSec="), "{unit}");
    // The socket that the unit's program writes to.
    assert!(has("@{run}/systemd/notify w,"), "{profile}");
    // What `netns` needs, by a drop-in.
    for rule in ["capability sys_admin,", "capability sys_ptrace,", "ptrace (read),"] {
        assert!(has(rule), "{rule}");
    }
}

#[test]
fn missing_tools_fail_a_strict_run_and_that_of_one_kind() {
    let strict = |kind, strict| PackageArguments { kind, check: false, strict }.is_strict();
    assert!(!strict(Kind::All, false) && strict(Kind::All, true) && strict(Kind::Deb, false));
    let nightly = fs::read_to_string(command::root().join(".ci/nightly")).unwrap();
    assert!(nightly.contains("\ncargo xtask package --check --strict\n"), "{nightly}");
}

#[test]
fn every_program_and_library_of_packages_has_a_bill_of_materials() {
    let name = |folder: &str| manifest(folder)["package"]["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = sbom::PROGRAMS.iter().map(|(_, folder)| name(folder)).collect();
    assert_eq!(names, build::SHARED);
}

#[test]
fn image_runs_the_program_as_a_user_of_its_own() {
    let image = image::image(b"program".to_vec(), 0, "abc").unwrap();
    assert_eq!(
        (image.created.as_str(), &image.config["User"]),
        ("1970-01-01T00:00:00Z", &"65532:65532".into())
    );
    assert_eq!(image.config["Labels"]["org.opencontainers.image.revision"], "abc");
    let entry = |path: &str| image.entries.iter().find(|entry| entry.path == path).unwrap();
    let program = entry("usr/bin/linerate");
    assert_eq!((program.mode, program.content.as_deref()), (0o755, Some(&b"program"[..])));
    assert_eq!(entry("run/linerate/guests").owner, 65532);
    let users = String::from_utf8(entry("etc/passwd").content.clone().unwrap()).unwrap();
    assert!(users.contains("\nlinerate:x:65532:65532:"), "{users}");
    // A directory is before its content.
    for (i, entry) in image.entries.iter().enumerate() {
        let Some((parent, _)) = entry.path.rsplit_once('/') else { continue };
        assert!(image.entries[..i].iter().any(|other| other.path == parent), "{}", entry.path);
    }
}

#[test]
fn description_for_pkg_config_names_the_directory_of_the_system() {
    let template = fs::read_to_string(command::root().join("stack/ffi/linerate.pc.in")).unwrap();
    let text = stage::described(&template, "lib64");
    for line in ["prefix=/usr\n", "libdir=${prefix}/lib64\n", &format!("Version: {VERSION}\n")] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains('@'), "{text}");
}

#[test]
fn directory_of_the_sources_is_in_no_bill_of_materials() {
    let text = r#"{"bom-ref":"path+file:///home/a/linerate/cli#0.1.0"}"#;
    let expected = r#"{"bom-ref":"path+file:///usr/src/linerate/cli#0.1.0"}"#;
    assert_eq!(sbom::moved(text, "/home/a/linerate"), expected);
    // The files that are removed are beside the manifest of each member.
    let members = sbom::members().unwrap();
    assert!(members.len() > 30 && members.contains(&"lab/cli".to_owned()), "{members:?}");
    for member in members {
        assert!(command::root().join(&member).join("Cargo.toml").is_file(), "{member}");
    }
}

#[test]
fn comparison_finds_what_differs_and_ignores_older_results() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b"), "two").unwrap();
    fs::write(folder.path().join("a"), "one").unwrap();
    let here = sums(folder.path()).unwrap();
    assert!(here[0].ends_with("  a\n") && here[1].ends_with("  b\n"), "{here:?}");
    assert_eq!(reproduce::differing(&here[1], &here.join("")), Vec::<String>::new());
    fs::write(folder.path().join("b"), "three").unwrap();
    let changed = sums(folder.path()).unwrap().join("");
    let found = reproduce::differing(&changed, &here.join(""));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.ends_with("  b")), "{found:?}");
}
