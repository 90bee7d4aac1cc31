//! What the platform has is in use. Where behaviour cannot be seen without moving the system's clock,
//! the tests read what the built library calls (`nm`).

use crate::{bind, socket};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use zmq::Context;

/// For each file of libzmq the functions it calls from outside.
fn calls() -> BTreeMap<String, BTreeSet<String>> {
    let library = Path::new(env!("HWGATE_LIBZMQ_FOLDER")).join("libzmq.a");
    let output = Command::new("nm").arg("--undefined-only").arg(library).output().expect("binutils: nm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut files = BTreeMap::<String, BTreeSet<String>>::new();
    let mut file = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if let Some(name) = line.strip_suffix(".o:") {
            file = name.rsplit('-').next().unwrap().into(); // 0123456789abcdef-clock.o:
        } else if let Some(symbol) = line.trim().strip_prefix("U ") {
            files.entry(file.clone()).or_default().insert(symbol.into());
        }
    }
    files
}

/// Only the branch of clock.cpp that reads CLOCK_MONOTONIC calls `clock_gettime`; the other, in use
/// without `HAVE_CLOCK_GETTIME`, calls `gettimeofday` and follows every step of the wall clock. (The
/// first names that too, for a kernel without monotonic clock.)
#[test]
fn timers_use_the_monotonic_clock() {
    let calls = calls();
    assert!(calls["clock"].contains("clock_gettime"));
    for (file, symbols) in &calls {
        assert!(file == "clock" || !symbols.contains("gettimeofday"), "{file}.cpp reads the wall clock");
    }
}

#[test]
fn descriptors_are_closed_on_exec_from_the_start() {
    let calls = calls();
    for (file, symbol) in [
        ("epoll", "epoll_create1"),
        ("tcp_listener", "accept4"),
        ("ipc_listener", "accept4"),
        ("ip", "eventfd"),
    ] {
        assert!(calls[file].contains(symbol), "{file}.cpp does not call {symbol}");
    }
    let context = Context::new();
    let server = socket(&context, zmq::PULL);
    let endpoint = bind(&server);
    let client = socket(&context, zmq::PUSH);
    client.connect(&endpoint).unwrap();
    client.send("x", 0).unwrap();
    server.recv_bytes(0).unwrap();
    for (number, name) in descriptors() {
        if name.starts_with("socket:") || name.starts_with("anon_inode:") {
            // SAFETY: it asks for a flag of a number; a number that is no descriptor is an error.
            let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
            assert!(flags >= 0 && flags & libc::FD_CLOEXEC != 0, "{number} {name}: {flags}");
        }
    }
}

fn descriptors() -> BTreeMap<i32, String> {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = std::fs::read_link(&path).ok()?;
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, name.display().to_string()))
        })
        .collect()
}

/// nextest gives each test a process of its own; without it another test's sockets may be among these,
/// which is why only new numbers are looked at.
#[test]
fn threads_are_woken_by_eventfd() {
    let before = descriptors();
    let context = Context::new();
    let _socket = socket(&context, zmq::PAIR);
    let new: Vec<_> = descriptors()
        .into_iter()
        .filter(|(number, _)| !before.contains_key(number))
        .map(|(_, name)| name)
        .collect();
    // One for the reaper, the I/O thread and the socket.
    assert_eq!(new.iter().filter(|name| *name == "anon_inode:[eventfd]").count(), 3, "{new:?}");
    assert_eq!(new.iter().filter(|name| name.starts_with("socket:")).count(), 0, "{new:?}");
}

#[test]
fn io_threads_are_named() {
    let context = Context::new();
    let _socket = socket(&context, zmq::PAIR);
    let named = || {
        std::fs::read_dir("/proc/self/task").unwrap().any(|task| {
            std::fs::read_to_string(task.unwrap().path().join("comm"))
                .is_ok_and(|name| name.trim() == "ZMQbg/IO/0")
        })
    };
    let start = std::time::Instant::now();
    while !named() {
        assert!(start.elapsed() < crate::PATIENCE, "no thread is named ZMQbg/IO/0");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The kernel's timers of a connection's two ends, by `/proc/net/tcp`: 2 is keep-alive, 0 is none.
fn timers(server_port: u16) -> (u32, u32) {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (mut accepted, mut connected) = (None, None);
    for line in table.lines().skip(1) {
        let field: Vec<_> = line.split_whitespace().collect();
        let port = |field: &str| u16::from_str_radix(field.split_once(':').unwrap().1, 16).unwrap();
        const ESTABLISHED: &str = "01";
        if field[3] != ESTABLISHED {
            continue;
        }
        let timer = u32::from_str_radix(field[5].split_once(':').unwrap().0, 16).unwrap();
        if port(field[1]) == server_port {
            accepted = Some(timer);
        } else if port(field[2]) == server_port {
            connected = Some(timer);
        }
    }
    (accepted.expect("an accepted connection"), connected.expect("a connection"))
}

#[test]
fn keepalive_reaches_the_kernel() {
    let context = Context::new();
    for on in [true, false] {
        let server = socket(&context, zmq::PULL);
        let client = socket(&context, zmq::PUSH);
        if on {
            for socket in [&server, &client] {
                socket.set_tcp_keepalive(1).unwrap();
                socket.set_tcp_keepalive_idle(77).unwrap();
                socket.set_tcp_keepalive_cnt(3).unwrap();
                socket.set_tcp_keepalive_intvl(11).unwrap();
            }
        }
        let endpoint = bind(&server);
        client.connect(&endpoint).unwrap();
        client.send("x", 0).unwrap();
        server.recv_bytes(0).unwrap();
        let port = endpoint.rsplit(':').next().unwrap().parse().unwrap();
        let expected = if on { (2, 2) } else { (0, 0) };
        // While a segment waits for its acknowledgement the column shows that timer (1) instead.
        let start = std::time::Instant::now();
        while timers(port) != expected {
            assert!(start.elapsed() < crate::PATIENCE, "{:?} instead of {expected:?}", timers(port));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if on {
            let values = keepalive_values(port);
            assert_eq!(values, vec![(77, 3, 11); 2], "idle, count, interval of both ends");
        }
    }
}

/// Idle time, count and interval of this process's connections from or to the port.
fn keepalive_values(server_port: u16) -> Vec<(i32, i32, i32)> {
    let mut values = vec![];
    for (number, name) in descriptors() {
        if !name.starts_with("socket:") {
            continue;
        }
        let option = |level, name| {
            let mut value: libc::c_int = 0;
            let mut size = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
            // SAFETY: room for one int, and its size.
            let rc = unsafe { libc::getsockopt(number, level, name, (&raw mut value).cast(), &raw mut size) };
            (rc == 0).then_some(value)
        };
        if option(libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0) || !touches(number, server_port) {
            continue;
        }
        if let (Some(idle), Some(count), Some(interval)) = (
            option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
            option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
            option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
        ) {
            values.push((idle, count, interval));
        }
    }
    values
}

fn touches(number: i32, port: u16) -> bool {
    use std::os::fd::BorrowedFd;
    // SAFETY: the descriptor is libzmq's and open while the caller holds its sockets; it is only
    // borrowed to be duplicated.
    let Ok(descriptor) = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned() else {
        return false;
    };
    let stream = std::net::TcpStream::from(descriptor);
    [stream.local_addr(), stream.peer_addr()].into_iter().flatten().any(|address| address.port() == port)
}

/// A child of a fork that touches its parent's socket gets an error, not its parent's messages.
#[test]
fn a_forked_child_is_told() {
    let context = Context::new();
    let server = socket(&context, zmq::PULL);
    server.bind("inproc://fork").unwrap();
    // SAFETY: the child calls nothing that could wait for a lock another thread held: libzmq's receive
    // compares process numbers first, and _exit follows.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = matches!(server.recv_bytes(0), Err(zmq::Error::EINTR));
        // SAFETY: it ends the process.
        unsafe { libc::_exit(if told { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
}

/// libzmq's names are nobody else's business: a second libzmq in the process must not meet this one.
#[test]
fn nothing_is_exported() {
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .expect("binutils: nm");
    let symbols = String::from_utf8(output.stdout).unwrap();
    for line in symbols.lines() {
        let name = line.split_whitespace().last().unwrap();
        for ours in ["zmq_", "crypto_", "sodium_", "randombytes", "hwgate_"] {
            assert!(!name.starts_with(ours), "{name} is exported");
        }
    }
}
