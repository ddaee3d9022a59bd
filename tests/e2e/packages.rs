//! Packages of linerate: installed, upgraded, removed and purged in a container, with the service.

mod every {
    use std::path::PathBuf;

    use linerate_tests::{container, folder, need};

    /// Runs a script in a container that has the packages.
    fn run(script: &str) {
        let packages = std::env::var_os("LINERATE_PACKAGES").map(PathBuf::from);
        let packages = packages.unwrap_or_else(|| need::skip("LINERATE_PACKAGES names no folder"));
        let folder = folder();
        container::run(folder.path(), script, &[(&packages, "/packages")]);
    }

    #[test]
    #[ignore = "needs root, systemd-nspawn and packages: run by `cargo xtask test --all`"]
    fn packages_of_debian_are_installed_upgraded_and_removed_with_the_service() {
        need::program("dpkg");
        need::program("pkg-config");
        run(include_str!("packages/debian.sh"));
    }

    #[test]
    #[ignore = "needs root, systemd-nspawn and packages: run by `cargo xtask test --all`"]
    fn packages_of_rpm_are_installed_upgraded_and_removed_with_the_service() {
        need::program("rpm");
        run(include_str!("packages/rpm.sh"));
    }
}
