// SPDX-License-Identifier: Apache-2.0
//! Finds libvram: in VRAM_LIB_DIR, or by pkg-config. VRAM_STATIC=1 links the static libraries.

use std::env;
use std::path::Path;
use std::process::Command;

fn end(why: &str) -> ! {
    eprintln!("vram: {why}");
    std::process::exit(1)
}

/// The folder of a library by pkg-config; None where it lies in a folder of the system's own.
fn folder_by_pkg_config(package: &str) -> Option<String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let ask = |what: &str| Command::new(&program).args([what, package]).output();
    let failed = |why: String| -> ! {
        end(&format!(
            "{package} was not found: {why}\n\
             Install libvram, or name the folder of its library: VRAM_LIB_DIR=/path/to/lib cargo build\n\
             For an installation with a prefix of its own: PKG_CONFIG_PATH=/prefix/lib/pkgconfig"
        ))
    };
    match ask("--exists") {
        Err(error) => failed(format!("{program}: {error}")),
        Ok(output) if !output.status.success() => failed(format!("{program} does not know it")),
        Ok(_) => {}
    }
    match ask("--variable=libdir") {
        Ok(output) if output.status.success() => {
            let folder = String::from_utf8_lossy(&output.stdout).trim().to_string();
            Some(folder).filter(|folder| !folder.is_empty())
        }
        _ => None,
    }
}

fn main() {
    for name in ["VRAM_LIB_DIR", "VRAM_STATIC", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // Those that use a library come before it, as linkers of static libraries want them.
    let mut libraries = Vec::new();
    if env::var_os("CARGO_FEATURE_COMPUTE").is_some() {
        libraries.push("vram-compute");
    }
    if env::var_os("CARGO_FEATURE_MODEL").is_some() {
        libraries.push("vram-model");
    }
    libraries.push("vram");

    let given = env::var("VRAM_LIB_DIR").ok().filter(|folder| !folder.is_empty());
    if let Some(folder) = &given {
        if !Path::new(folder).is_dir() {
            end(&format!("VRAM_LIB_DIR={folder}: there is no such folder"));
        }
    }
    if let Some(folder) = given.or_else(|| folder_by_pkg_config("libvram")) {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:lib_dir={folder}"); // DEP_VRAM_LIB_DIR for build scripts of dependents
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}"); // of this package's own programs
    }
    let fixed = matches!(env::var("VRAM_STATIC").as_deref(), Ok("1") | Ok("on"));
    for library in libraries {
        println!("cargo:rustc-link-lib={}={library}", if fixed { "static" } else { "dylib" });
    }
    if fixed {
        for library in ["pthread", "dl", "m"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
}
