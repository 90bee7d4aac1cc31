//! Builds libzmq by `zeromq-src`, with `libzmq_config.h` forced in, and the few lines of C that lead
//! from there to the Rust cryptography and count what subscribers lose. Needs a C++ compiler, no library and no network.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    for file in [
        "build.rs",
        "libzmq_config.h",
        "include/hwgate_lost.h",
        "include/hwgate_lost.hpp",
        "include/sodium.h",
        "src/lost.c",
        "src/sodium.c",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let target = var("TARGET");
    let windows = var("CARGO_CFG_TARGET_OS") == "windows";
    let msvc = var("CARGO_CFG_TARGET_ENV") == "msvc";

    // libzmq is a dependency that nobody here steps through.
    if matches!(var("OPT_LEVEL").as_str(), "0" | "1") {
        set("OPT_LEVEL", "2");
    }
    set("DEBUG", "false");

    cc::Build::new().files(["src/lost.c", "src/sodium.c"]).include("include").compile("hwgate_support");

    // Paths are relative to this package, where cargo runs build scripts: cc splits the variable at
    // spaces, which an absolute path could have.
    let key = format!("CXXFLAGS_{}", target.replace(['-', '.'], "_"));
    let ours = if msvc {
        "/Iinclude /FIlibzmq_config.h"
    } else {
        "-Iinclude -include libzmq_config.h -fvisibility=hidden -w"
    };
    set(&key, &format!("{} {ours}", env::var(&key).unwrap_or_default()));

    // MinGW's C++ run-time is on no Windows machine: it goes into the program. cc would name the DLL.
    let mingw = windows && !msvc;
    if mingw {
        set("CXXSTDLIB", "");
    }

    zeromq_src::Build::new().with_libsodium(None).build();

    if mingw {
        let compiler = cc::Build::new().cpp(true).get_compiler();
        for (file, name) in [("libstdc++.a", "stdc++"), ("libwinpthread.a", "winpthread")] {
            if let Some(folder) = folder_of(&mut compiler.to_command(), file) {
                println!("cargo:rustc-link-search=native={folder}");
            }
            println!("cargo:rustc-link-lib=static:-bundle={name}");
        }
    }
    if windows {
        for library in ["ws2_32", "advapi32"] {
            println!("cargo:rustc-link-lib={library}");
        }
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn set(name: &str, value: &str) {
    // SAFETY: this build script has one thread; cc starts its own later and joins them.
    unsafe { env::set_var(name, value) }
}

/// Where the compiler keeps one of its own libraries.
fn folder_of(compiler: &mut Command, file: &str) -> Option<String> {
    let output = compiler.arg(format!("-print-file-name={file}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let folder = Path::new(path.trim()).parent()?;
    // Just the name comes back when it has none.
    (folder != Path::new("")).then(|| folder.display().to_string())
}
