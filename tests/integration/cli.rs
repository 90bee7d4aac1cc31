//! The program as people and scripts see it: output, exit codes, signals.

use std::fs;
use std::time::{Duration, Instant};

use crate::program::{Gateway, WATCHDOG, free_port, hwgate, run, run_with_input};

#[test]
fn a_wrong_command_line_ends_with_64_and_help_does_not() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["runn"][..],
        &["run", "--bogus"],
        &["push", "--level", "banana", "x"],
        &["status", "--url", "tcp://*:1"],
    ] {
        let ended = run(hwgate(dir.path(), args));
        assert_eq!((ended.code, ended.out.as_str()), (64, ""), "{args:?} {ended:?}");
        assert!(!ended.err.is_empty());
    }
    let help = run(hwgate(dir.path(), &["--help"]));
    assert_eq!(help.code, 0);
    for command in [
        "run",
        "check",
        "init",
        "status",
        "stop",
        "reload",
        "reopen",
        "push",
        "tail",
        "request",
        "ports",
        "sim",
        "completions",
    ] {
        assert!(help.out.contains(&format!("\n  {command} ")), "{}", help.out);
    }
    let version = run(hwgate(dir.path(), &["--version"]));
    assert_eq!(version.code, 0);
    assert!(
        version.out.contains(env!("CARGO_PKG_VERSION")) && version.out.contains("\nlibzmq 4."),
        "{version:?}"
    );
}

#[test]
fn wrong_settings_end_with_78_and_name_place_and_nearest_key() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hwgate.toml"), "[journal]\nmax_byte = \"1GiB\"\n").unwrap();
    for command in ["check", "run"] {
        let ended = run(hwgate(dir.path(), &[command]));
        assert_eq!(ended.code, 78, "{ended:?}");
        assert!(
            ended.err.contains("hwgate.toml:2:1: [journal] max_byte: no such key; did you mean max_bytes?"),
            "{ended:?}"
        );
    }
    fs::write(dir.path().join("hwgate.toml"), b"\xff\xfe[\0a\0]\0").unwrap();
    let ended = run(hwgate(dir.path(), &["check"]));
    assert!(ended.code == 78 && ended.err.contains("UTF-16, expected UTF-8"), "{ended:?}");
    let ended = run(hwgate(dir.path(), &["run", "--config", "none.toml"]));
    assert!(ended.code == 78 && ended.err.contains("none.toml"), "{ended:?}");
    let mut command = hwgate(dir.path(), &["check"]);
    command.env("HWGATE_CONFIG", "").env("HWGATE_JOURNAL_MAX_AGE", "soon");
    fs::write(dir.path().join("hwgate.toml"), "").unwrap();
    let ended = run(command);
    assert!(
        ended.code == 78 && ended.err.contains("HWGATE_JOURNAL_MAX_AGE: [journal] max_age: \"soon\""),
        "{ended:?}"
    );
}

#[test]
fn beyond_this_machine_needs_a_word_and_then_warns() {
    let dir = tempfile::tempdir().unwrap();
    let open = ["check", "--set", "endpoints.logs=tcp://*:10000"];
    let ended = run(hwgate(dir.path(), &open));
    assert!(ended.code == 78 && ended.err.contains("allow_insecure = true"), "{ended:?}");
    let mut command = hwgate(dir.path(), &open);
    command.env("HWGATE_SECURITY_ALLOW_INSECURE", "true");
    let ended = run(command);
    assert!(ended.code == 0 && ended.err.contains("anyone who reaches this machine"), "{ended:?}");
    assert!(ended.out.contains("allow_insecure = true  # HWGATE_SECURITY_ALLOW_INSECURE"), "{ended:?}");
}

#[test]
fn init_writes_what_check_takes_and_overwrites_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hwgate.toml");
    assert_eq!(run(hwgate(dir.path(), &["init"])).code, 0);
    let checked = run(hwgate(dir.path(), &["check"]));
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{checked:?}");
    // What check prints is itself a settings file.
    fs::write(dir.path().join("again.toml"), &checked.out).unwrap();
    assert_eq!(run(hwgate(dir.path(), &["check", "--config", "again.toml"])).code, 0);

    fs::write(&path, "# mine\n").unwrap();
    let ended = run(hwgate(dir.path(), &["init"]));
    assert!(ended.code == 73 && ended.err.contains("--force"), "{ended:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\n");
    assert_eq!(run(hwgate(dir.path(), &["init", "--force", "--demo"])).code, 0);
    assert_eq!(run(hwgate(dir.path(), &["check"])).out.matches("\n[[log]]").count(), 3);
    assert_eq!(run(hwgate(dir.path(), &["init", "--path", "no/such/folder.toml"])).code, 73);
}

#[test]
fn c02_without_a_gateway_everything_ends_with_69_soon() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("tcp://127.0.0.1:{}", free_port());
    for args in [&["status"][..], &["stop"], &["reload"], &["reopen"], &["push", "x"]] {
        let mut command = hwgate(dir.path(), args);
        command.env("HWGATE_URL", &endpoint);
        let start = Instant::now();
        let ended = run(command);
        assert_eq!(ended.code, 69, "{args:?} {ended:?}");
        assert!(
            ended.err.contains(&format!("no gateway answers at {endpoint} (NOT_CONNECTED)")),
            "{ended:?}"
        );
        assert!(start.elapsed() < WATCHDOG);
    }
    let one = run(hwgate(dir.path(), &["push", "--endpoint", &endpoint, "x"]));
    assert_eq!(one.code, 69);
    assert!(one.err.contains(&format!("1 log message not delivered to {endpoint}")), "{one:?}");
    let three = run_with_input(hwgate(dir.path(), &["push", "--endpoint", &endpoint]), b"a\nb\n\nc");
    assert!(three.err.contains(&format!("3 log messages not delivered to {endpoint}")), "{three:?}");
    assert_eq!(run(hwgate(dir.path(), &["status", "--check", "--url", &endpoint])).code, 2);
    let overview = run(hwgate(dir.path(), &["--url", &endpoint]));
    assert!(
        overview.code == 0 && overview.out.contains("`hwgate run` starts a gateway here"),
        "{overview:?}"
    );
}

#[test]
fn push_sends_what_plain_clients_send() {
    let dir = tempfile::tempdir().unwrap();
    let context = zmq::Context::new();
    let logs = context.socket(zmq::PULL).unwrap();
    logs.set_rcvtimeo(WATCHDOG.as_millis() as i32).unwrap();
    logs.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = logs.get_last_endpoint().unwrap().unwrap();
    let push = |args: &[&str], input: &[u8]| {
        let args = [&["push", "--endpoint", &endpoint], args].concat();
        let ended = run_with_input(hwgate(dir.path(), &args), input);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    };
    let received = || logs.recv_multipart(0).unwrap();
    push(&["disk", "is", "full"], b"");
    assert_eq!(received(), [b"disk is full".to_vec()]);
    push(&["--level", "Warning", "--source", "updater", "x"], b"");
    assert_eq!(received(), [b"WARN.updater".to_vec(), b"x".to_vec()]);
    let lines: Vec<String> = (0..20_000).map(|n| format!("line {n} \u{e4}")).collect();
    push(&[], lines.join("\r\n").as_bytes());
    for line in lines {
        assert_eq!(received(), [line.into_bytes()]);
    }
}

#[test]
fn a_gateway_is_started_asked_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hwgate.toml"), "[gateway]\nname = \"kiosk-7\"\n").unwrap();
    let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
    let ask = |args: &[&str]| {
        let mut command = hwgate(dir.path(), args);
        command.env("HWGATE_URL", &gateway.url);
        let ended = run(command);
        assert_eq!(ended.code, 0, "{args:?} {ended:?}");
        ended.out
    };
    let overview = ask(&[]);
    assert!(overview.contains(&format!("gateway kiosk-7 answers at {}", gateway.url)), "{overview}");
    let status: serde_json::Value = serde_json::from_str(&ask(&["status", "--json"])).unwrap();
    assert_eq!(status["hello"]["endpoints"]["logs"], gateway.logs);
    assert!(ask(&["status"]).contains("\nname  kiosk-7\n"));
    assert_eq!(ask(&["status", "--check"]), "ok: kiosk-7\n");
    ask(&["push", "hello"]);
    ask(&["reopen"]);
    fs::write(
        dir.path().join("hwgate.toml"),
        "[gateway]\nname = \"kiosk-8\"\n[intake]\nmax_text = \"2KiB\"\n",
    )
    .unwrap();
    let said = ask(&["reload"]);
    assert!(said.contains("intake.max_text") && said.contains("gateway.name"), "{said}");
    assert!(!said.contains("endpoints"), "--set was forgotten: {said}");
    let long = run(hwgate(dir.path(), &["push", "--url", &gateway.url, &"x".repeat(2049)]));
    assert!(long.code == 1 && long.err.contains("TOO_LARGE"), "{long:?}");

    let wrong = run(hwgate(dir.path(), &["status", "--url", &gateway.logs]));
    assert_eq!(wrong.code, 69);
    assert!(
        wrong.err.contains(&format!("{} is the plain log port; connect to commands (10003)", gateway.logs)),
        "{wrong:?}"
    );
    ask(&["stop"]);
    assert_eq!(gateway.wait().code, 0);
}

#[test]
fn c28_a_second_gateway_on_the_same_port_ends_with_69() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
    let other = tempfile::tempdir().unwrap();
    let commands = format!("endpoints.commands={}", gateway.url);
    let second = run(hwgate(
        other.path(),
        &["run", "--set", &commands, "--set", "endpoints.logs=off", "--set", "endpoints.events=off"],
    ));
    assert_eq!(second.code, 69, "{second:?}");
    assert!(
        second.err.contains(&gateway.url) && second.err.contains("is another gateway running?"),
        "{second:?}"
    );
    assert_eq!(run(hwgate(dir.path(), &["status", "--check", "--url", &gateway.url])).code, 0);
}

#[cfg(unix)]
mod signals {
    use super::*;
    use std::process::Command;

    fn signal(gateway: &Gateway, name: &str) {
        let pid = gateway.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    #[test]
    fn term_and_int_end_with_0_within_5_seconds() {
        for name in ["-TERM", "-INT"] {
            let dir = tempfile::tempdir().unwrap();
            let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
            let start = Instant::now();
            signal(&gateway, name);
            assert_eq!(gateway.wait().code, 0);
            assert!(start.elapsed() < Duration::from_secs(6));
        }
    }

    #[test]
    fn a_second_signal_ends_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let end = || {
            let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
            // Both wait while it is stopped, so that it cannot end after the first alone.
            for name in ["-STOP", "-TERM", "-INT", "-CONT"] {
                signal(&gateway, name);
            }
            gateway.wait().code
        };
        // Two threads may take the two at the very same time, as never two presses of a key; then each is
        // the first.
        let codes: Vec<i32> = (0..5).map(|_| end()).collect();
        assert!(codes.iter().any(|code| [130, 143].contains(code)), "{codes:?}");
        assert!(codes.iter().all(|code| [0, 130, 143].contains(code)), "{codes:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_service_manager_is_told() {
        use std::os::unix::net::UnixDatagram;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        // Waits for one, passing over the beats of the watchdog.
        let told = |wanted: &str| loop {
            let mut buffer = [0; 512];
            let count = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            if String::from_utf8_lossy(&buffer[..count]).lines().any(|line| line == wanted) {
                return;
            }
        };
        let mut command = hwgate(dir.path(), &["run"]);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
        let gateway = Gateway::start(command);
        told("READY=1");
        told("WATCHDOG=1");
        signal(&gateway, "-HUP");
        told("RELOADING=1");
        told("READY=1");
        signal(&gateway, "-TERM");
        told("STOPPING=1");
        assert_eq!(gateway.wait().code, 0);
    }
}
