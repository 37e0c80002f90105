//! How the program is linked. Its addresses that are set as it starts take 1.4 MB as they are listed by
//! default, and 20 KB packed. Starting a program that is packed so takes glibc 2.36; one that is linked
//! statically brings what it takes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(name).unwrap_or_default();
    if of_target("CARGO_CFG_TARGET_OS") == "linux" && of_target("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
