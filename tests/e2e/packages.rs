//! Debian's packages of linerate: installed, upgraded, removed and purged in a container, with the service.

mod every {
    use std::path::PathBuf;

    use linerate_tests::{container, folder, need};

    #[test]
    #[ignore = "needs root, systemd-nspawn and packages: run by `cargo xtask test --all`"]
    fn packages_are_installed_upgraded_and_removed_with_the_service() {
        need::program("dpkg");
        need::program("pkg-config");
        let packages = std::env::var_os("LINERATE_PACKAGES").map(PathBuf::from);
        let packages = packages.unwrap_or_else(|| need::skip("LINERATE_PACKAGES names no folder"));
        let folder = folder();
        container::run(folder.path(), include_str!("packages/steps.sh"), &[(&packages, "/packages")]);
    }
}
