//! `--version`: also which libzmq is built in and what it has, since reports depend on it.

use std::sync::LazyLock;

/// The version alone.
pub fn short() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// With libzmq's version and abilities.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let (major, minor, patch) = zmq::version();
        let abilities = ["curve", "ipc", "draft"].map(|name| {
            let has = if zmq::has(name) == Some(true) { "yes" } else { "no" };
            format!("{name} {has}")
        });
        format!("{}\nlibzmq {major}.{minor}.{patch}: {}", short(), abilities.join(", "))
    });
    &TEXT
}
