use super::*;
use crate::config::serial::{Framing, PortPath};

const WATCHDOG: Duration = Duration::from_secs(60);

struct Bench {
    hub: Arc<Hub>,
    ports: Ports,
}

impl Bench {
    fn new() -> Bench {
        let hub = Arc::new(Hub::new("s"));
        Bench { ports: Ports::new(hub.clone()), hub }
    }

    /// With a `sim:loop` called `loop`.
    fn with_loop() -> Bench {
        let bench = Bench::new();
        bench.ask(|reply| bench.ports.open(SerialConfig::new("loop", PortPath::SimLoop), reply)).unwrap();
        bench
    }

    fn ask(&self, ask: impl FnOnce(Reply)) -> Result<Value> {
        self.later(ask).recv_timeout(WATCHDOG).unwrap()
    }

    fn later(&self, ask: impl FnOnce(Reply)) -> crossbeam_channel::Receiver<Result<Value>> {
        let (reply, answer) = Reply::channel();
        ask(reply);
        answer
    }

    fn write(&self, id: &str, data: &[u8]) -> Result<Value> {
        self.ask(|reply| self.ports.write(id, write(data, WATCHDOG), reply))
    }

    fn transact(&self, expect: Expect, write: Write) -> crossbeam_channel::Receiver<Result<Value>> {
        self.later(|reply| self.ports.transact("loop", write, expect, reply))
    }

    /// The payloads on a topic, from the ring.
    fn events(&self, topic: &str) -> Vec<String> {
        let topics = vec![topic.to_owned()];
        let replay =
            self.hub.replay(&crate::events::Replay { max_bytes: 8 << 20, topics, ..Default::default() });
        let events = replay["events"].as_array().unwrap().clone();
        events.iter().map(|event| event["data"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < WATCHDOG, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn state(&self, id: &str) -> String {
        self.ports.status(Some(id)).unwrap()["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.ports.stop(Instant::now() + WATCHDOG);
    }
}

fn write(data: &[u8], timeout: Duration) -> Write {
    Write { data: data.to_vec(), lease: None, by: String::new(), timeout }
}

fn kind(answer: Result<Value>) -> Kind {
    answer.unwrap_err().kind()
}

#[test]
fn eight_writers_never_mix_their_writes() {
    let bench = Bench::with_loop();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..50 {
                    // Longer than what a port takes at once.
                    let line = format!("{writer}-{n}-{}\n", "x".repeat(30_000));
                    bench.write("loop", line.as_bytes()).unwrap();
                }
            });
        }
    });
    bench.wait("all frames", || bench.ports.status(Some("loop")).unwrap()["rx_frames"] == 400);
    let frames = bench.events("serial/loop/rx/");
    assert!(!frames.is_empty());
    for frame in frames {
        let (head, tail) = frame.rsplit_once('-').unwrap();
        assert!(head.len() <= 4 && tail.len() == 30_000, "{head}");
    }
}

#[test]
fn a_transaction_takes_the_first_frame_that_fits() {
    let bench = Bench::with_loop();
    let regex = |text: &str| Expect::Regex(regex::bytes::Regex::new(text).unwrap());
    let answer = bench.transact(regex(r"^T=(\d+)(x)?$"), write(b"a\nT=21\nb\n", WATCHDOG)).recv().unwrap();
    let answer = answer.unwrap();
    assert_eq!((&answer["data"], &answer["captures"]), (&json!("T=21"), &json!(["21", null])));
    let answer = bench.transact(Expect::Any, write(b"\xff\n", WATCHDOG)).recv().unwrap().unwrap();
    assert_eq!((&answer["data_base64"], &answer["written"]), (&json!("/w=="), &json!(2)));
    let waits = bench.transact(Expect::Bytes(b"T=".to_vec()), write(b"?\n", Duration::from_millis(50)));
    let error = waits.recv_timeout(WATCHDOG).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.message().contains("2 of 2 bytes written; one frame came, which did not fit"), "{error}");
    // What follows waits for it, and what closes the port ends it.
    let long = bench.transact(Expect::Bytes(b"never".to_vec()), write(b"?\n", WATCHDOG));
    let next = bench.later(|reply| bench.ports.write("loop", write(b"x", WATCHDOG), reply));
    bench.wait("both", || bench.ports.status(Some("loop")).unwrap()["write_queue"]["requests"] == 2);
    bench.ask(|reply| bench.ports.close("loop", None, reply)).unwrap();
    assert_eq!(kind(long.recv_timeout(WATCHDOG).unwrap()), Kind::Closed);
    assert_eq!(kind(next.recv_timeout(WATCHDOG).unwrap()), Kind::Closed);
    assert_eq!(kind(bench.write("loop", b"x")), Kind::NotFound);
}

#[test]
fn the_end_of_a_lease_ends_what_was_done_under_it() {
    let bench = Bench::with_loop();
    let claim = |owner: &str, ttl| {
        let answer = bench.later(|reply| bench.ports.claim("loop", owner.to_owned(), ttl, WATCHDOG, reply));
        move || answer.recv_timeout(WATCHDOG).unwrap().unwrap()["lease"].as_str().unwrap().to_owned()
    };
    let token = claim("a", WATCHDOG)();
    let under = |token: &str| Write { lease: Some(token.to_owned()), ..write(b"?\n", WATCHDOG) };
    let waits = bench.transact(Expect::Bytes(b"never".to_vec()), under(&token));
    let queued = bench.later(|reply| bench.ports.write("loop", under(&token), reply));
    let second = claim("b", Duration::from_millis(50));
    assert_eq!(kind(bench.write("loop", b"x")), Kind::Leased);
    bench.ask(|reply| bench.ports.release("loop", token.clone(), reply)).unwrap();
    assert_eq!(kind(waits.recv_timeout(WATCHDOG).unwrap()), Kind::Closed);
    assert_eq!(kind(queued.recv_timeout(WATCHDOG).unwrap()), Kind::Closed);
    let token = second();
    bench.wait("the second lease to expire", || bench.events("serial/loop/lease/").len() == 5);
    assert_eq!(bench.events("serial/loop/lease/"), ["claimed", "asked", "released", "claimed", "expired"]);
    assert_eq!(kind(bench.ask(|reply| bench.ports.write("loop", under(&token), reply))), Kind::Leased);
    bench.write("loop", b"free").unwrap();
}

#[test]
fn settings_lines_and_breaks() {
    let bench = Bench::with_loop();
    let set = json!({"baud": 115_200, "parity": "even"}).as_object().unwrap().clone();
    let answer = bench.ask(|reply| bench.ports.set("loop", set.clone(), None, reply)).unwrap();
    assert_eq!(
        (&answer["baud"], &answer["parity"], &answer["data_bits"]),
        (&json!(115_200), &json!("even"), &json!(8))
    );
    assert_eq!(bench.ports.status(Some("loop")).unwrap()["settings"]["baud"], 115_200);
    let lines = Lines { dtr: Some(false), rts: None };
    let answer = bench.ask(|reply| bench.ports.lines("loop", lines, None, reply)).unwrap();
    assert_eq!((&answer["dsr"], &answer["cts"]), (&json!(false), &json!(true)));
    let start = Instant::now();
    let length = Duration::from_millis(30);
    bench.ask(|reply| bench.ports.send_break("loop", length, None, reply)).unwrap();
    assert!(start.elapsed() >= length);
    // Now 9600 baud would be another setting.
    let again = bench.ask(|reply| bench.ports.open(SerialConfig::new("loop", PortPath::SimLoop), reply));
    assert_eq!(kind(again), Kind::Busy);
}

#[test]
fn a_reload_opens_closes_and_leaves_alone() {
    let bench = Bench::with_loop();
    let config = |id: &str, baud| {
        let mut config = SerialConfig::new(id, PortPath::SimLoop);
        config.line.baud = baud;
        config
    };
    let opens = |id: &str| {
        bench.wait("open", || bench.state(id) == "open");
        bench.ports.status(Some(id)).unwrap()["opens"].clone()
    };
    bench.ports.configure(&[config("a", 9600), config("b", 9600)]);
    assert_eq!((opens("a"), opens("b")), (json!(1), json!(1)));
    bench
        .ask(|reply| bench.ports.set("a", json!({"baud": 300}).as_object().unwrap().clone(), None, reply))
        .unwrap();
    bench.ports.configure(&[config("a", 9600), config("b", 19200)]);
    assert_eq!(bench.ports.status(Some("a")).unwrap()["settings"]["baud"], 300);
    bench.wait("b anew", || bench.ports.status(Some("b")).is_ok_and(|b| b["settings"]["baud"] == 19200));
    assert_eq!(opens("b"), 1);
    bench.ports.configure(&[]);
    assert_eq!(bench.ports.devices().len(), 1);
    assert_eq!(bench.events("serial/b/state/"), ["open", "closed", "open", "closed"]);
    assert_eq!(bench.state("loop"), "open");
}

#[test]
fn what_is_too_much_is_refused_and_counted_back() {
    let bench = Bench::with_loop();
    assert_eq!(kind(bench.write("loop", &vec![0; (16 << 20) + 1])), Kind::TooLarge);
    let holds = bench.transact(Expect::Bytes(b"never".to_vec()), write(b"", Duration::from_millis(300)));
    let queued: Vec<_> = (0..1100)
        .map(|_| bench.later(|reply| bench.ports.write("loop", write(b"x", WATCHDOG), reply)))
        .collect();
    let kinds: Vec<_> =
        queued.iter().map(|answer| answer.recv_timeout(WATCHDOG).unwrap().map_err(|e| e.kind())).collect();
    let full = kinds.iter().filter(|answer| **answer == Err(Kind::QueueFull)).count();
    assert_eq!(full, 1100 - 999);
    assert_eq!(kind(holds.recv_timeout(WATCHDOG).unwrap()), Kind::Timeout);
    assert_eq!(bench.ports.status(Some("loop")).unwrap()["write_queue"], json!({"requests": 0, "bytes": 0}));
    let inject = |length| bench.ask(|reply| bench.ports.inject("loop", vec![b'\n'; length], reply));
    assert_eq!(kind(inject((1 << 20) + 1)), Kind::TooLarge);
    assert_eq!(inject(3).unwrap(), json!({"injected": 3}));
}

#[cfg(unix)]
mod pty {
    use std::io::{Read as _, Write as _};
    use std::sync::Mutex;

    use super::*;
    use serialport::{SerialPort as _, TTYPort};

    /// Both ends; that of the gateway is opened by its path, and held here, so that it is not hung up between.
    fn pair() -> (TTYPort, TTYPort) {
        // ptsname is not safe in threads.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = guard(&ONE);
        TTYPort::pair().unwrap()
    }

    fn config(path: &str) -> SerialConfig {
        let mut config = SerialConfig::new("pty", PortPath::Path(path.to_owned()));
        config.framing = Framing::Raw { gap: Duration::ZERO, max: 65_536 };
        config
    }

    /// A device that sends back each byte at once blocks a gateway that writes all before it reads.
    #[test]
    fn a_megabyte_to_a_device_that_echoes() {
        let (mut device, held) = pair();
        let path = held.name().unwrap();
        let bench = Bench::new();
        bench.ask(|reply| bench.ports.open(config(&path), reply)).unwrap();
        let data: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        device.set_timeout(WATCHDOG).unwrap();
        let wanted = data.clone();
        let echo = std::thread::spawn(move || {
            let (mut got, mut buffer) = (Vec::new(), [0; 1000]);
            while got.len() < wanted.len() {
                let count = device.read(&mut buffer).unwrap();
                device.write_all(&buffer[..count]).unwrap();
                got.extend_from_slice(&buffer[..count]);
            }
            (got == wanted, device)
        });
        assert_eq!(bench.write("pty", &data), Ok(json!({"written": 1 << 20})));
        // What nobody has read is gone when the device closes.
        let (same, _device) = echo.join().unwrap();
        assert!(same);
        bench.wait("the echo", || bench.ports.status(Some("pty")).unwrap()["rx_bytes"] == 1 << 20);
        assert_eq!(bench.ports.status(Some("pty")).unwrap()["tx_bytes"], 1 << 20);
    }

    #[test]
    fn unplugged_in_the_middle_of_a_transaction_and_replugged() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("tty");
        let plug = || {
            let ends = pair();
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(ends.1.name().unwrap(), &link).unwrap();
            ends
        };
        let (device, held) = plug();
        let bench = Bench::new();
        bench.ask(|reply| bench.ports.open(config(link.to_str().unwrap()), reply)).unwrap();
        let waits =
            bench.later(|reply| bench.ports.transact("pty", write(b"?", WATCHDOG), Expect::Any, reply));
        bench.wait("?", || bench.ports.status(Some("pty")).unwrap()["tx_bytes"] == 1);
        drop((device, held));
        let error = waits.recv_timeout(WATCHDOG).unwrap().unwrap_err();
        assert_eq!((error.kind(), error.detail("written")), (Kind::Disconnected, Some(&json!(1))));
        bench.wait("lost", || bench.state("pty") == "lost");
        let (mut device, _held) = plug();
        bench.wait("open", || bench.state("pty") == "open");
        device.write_all(b"back").unwrap();
        bench.wait("bytes", || bench.ports.status(Some("pty")).unwrap()["rx_bytes"] == 4);
        assert_eq!(bench.events("serial/pty/state/"), ["open", "lost", "open"]);
    }
}
