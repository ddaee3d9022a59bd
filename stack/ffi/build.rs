//! Gives the shared library its name for the dynamic linker. The number changes with every incompatible change of the
//! interface.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblinerate.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
