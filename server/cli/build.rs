//! Linker flags of the program. Relative relocations take 1.4 MB in the default encoding, and 20 KB packed (`DT_RELR`).
//! A dynamically linked program with packed relocations needs glibc 2.36; a static program contains the startup code
//! that it needs.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(name).unwrap_or_default();
    if of_target("CARGO_CFG_TARGET_OS") == "linux" && of_target("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
