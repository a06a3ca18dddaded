//! How the binary is linked, where the toolchain's own linker does it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Functions of the same machine code become one: a third of it stems from types that several
    // crates drop, clone and compare. Nothing here tells functions apart by their addresses.
    if std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
