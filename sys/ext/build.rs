//! Tells the tests where the libzmq is that zmq-sys built, so that they can look into it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = std::env::var("DEP_ZMQ_LIB").expect(
        "zmq-sys is not the one in sys/: the workspace's Cargo.toml needs its [patch.crates-io] lines",
    );
    println!("cargo:rustc-env=HWGATE_LIBZMQ_FOLDER={folder}");
}
