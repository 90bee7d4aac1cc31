use super::super::Config;
use super::super::serial::{FRAME_MAX, FRAME_TIMEOUT, RAW_GAP, USUAL_RATES};
use super::*;
use std::path::Path;
use std::time::Duration;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// A port of these settings besides id and path.
fn open(more: Value) -> Result<SerialConfig, String> {
    let mut settings = object(json!({"id": "scanner", "path": "/dev/ttyUSB0"}));
    settings.extend(object(more));
    SerialConfig::from_json(settings)
}

fn framing(framing: Value) -> Result<Framing, String> {
    open(json!({"framing": framing})).map(|config| config.framing)
}

fn toml(text: &str) -> Result<Config, String> {
    Config::from_toml(text, Path::new("/base")).map_err(|error| error.message().to_owned())
}

#[test]
fn json_and_toml_give_the_same() {
    let json = json!({
        "id": "a.B_1-", "usb": {"vid": 0x0403, "pid": "6001", "serial": "A1"}, "baud": 115_200.0, "data_bits": 7,
        "parity": "odd", "stop_bits": 2, "flow": "software", "dtr": true, "rts": false,
        "framing": {"delimiter": "\u{3}", "max": "4KiB", "timeout": "500ms"}, "any_baud": null,
    });
    let config = SerialConfig::from_json(object(json)).unwrap();
    let text = "[[serial]]\nid = 'a.B_1-'\nusb = { vid = 0x0403, pid = '0x6001', serial = 'A1' }\nbaud = 115_200\n\
                data_bits = 7\nparity = 'odd'\nstop_bits = 2\nflow = 'software'\ndtr = true\nrts = false\n\
                [serial.framing]\ndelimiter = \"\\u0003\"\nmax = 4096\ntimeout = '500ms'\n";
    assert_eq!(toml(text).unwrap().serial, std::slice::from_ref(&config));
    assert_eq!(config.port.to_string(), "USB 0403:6001 A1");
    assert_eq!(open(json!({})).unwrap(), SerialConfig::new("scanner", PortPath::Path("/dev/ttyUSB0".into())));
    assert_eq!(open(json!({"path": "sim:loop"})).unwrap().port, PortPath::SimLoop);
}

#[test]
fn what_is_told_opens_the_same_port() {
    let ports = [json!({"path": "COM3"}), json!({"path": "sim:loop"}), json!({"usb": {"vid": 1, "pid": 2}})];
    let framings = [
        json!("line"),
        json!("raw"),
        json!({"line": "cr", "max": 1}),
        json!({"delimiter": "é\""}),
        json!({"delimiter_hex": "FF 03", "timeout": "1h"}),
        json!({"fixed": "1KiB"}),
        json!({"raw": true, "gap": "0s", "max": "1MiB"}),
    ];
    for (port, framing) in ports.iter().cycle().zip(framings) {
        let mut settings = object(json!({"id": "x", "baud": 12_345, "any_baud": true, "framing": framing}));
        settings.extend(object(port.clone()));
        let config = SerialConfig::from_json(settings).unwrap();
        let mut told = object(config.to_json());
        assert_eq!(told["baud"], 12_345);
        told.extend(object(config.port.to_json()));
        told.insert("id".into(), "x".into());
        assert_eq!(SerialConfig::from_json(told).unwrap(), config);
    }
    let told = json!({
        "baud": 9600, "data_bits": 8, "parity": "none", "stop_bits": 1, "flow": "none",
        "framing": {"line": "any", "max": 65536, "timeout": "1s"},
    });
    assert_eq!(open(json!({})).unwrap().to_json(), told);
}

#[test]
fn framings() {
    let (max, timeout) = (FRAME_MAX, FRAME_TIMEOUT);
    let line = |end, max| Framing::Line { end, max, timeout };
    assert_eq!(framing(json!({"max": 9})), Ok(line(LineEnd::Any, 9)));
    assert_eq!(framing(json!({"line": "crlf", "raw": false})), Ok(line(LineEnd::CrLf, max)));
    let delimiter = vec![0xff, 3];
    assert_eq!(framing(json!({"delimiter_hex": "ff03"})), Ok(Framing::Delimiter { delimiter, max, timeout }));
    assert_eq!(framing(json!({"fixed": 12})), Ok(Framing::Fixed { size: 12, timeout }));
    assert_eq!(framing(json!("raw")), Ok(Framing::Raw { gap: RAW_GAP, max }));
    assert_eq!(
        framing(json!({"raw": true, "gap": "10s"})),
        Ok(Framing::Raw { gap: Duration::from_secs(10), max })
    );
    for (wrong, part) in [
        (json!("lines"), "framing: \"lines\" is none of them; allowed: \"line\""),
        (json!(12), "framing: 12 where a table is expected"),
        (json!({"lines": "any"}), "lines: no such key; did you mean line?"),
        (json!({"line": "any", "fixed": 3}), "give one of line"),
        (json!({"delimiter": "x", "delimiter_hex": "00"}), "give one of line"),
        (json!({"delimiter": ""}), "delimiter: 0 bytes; allowed: text of 1 to 64 bytes"),
        (json!({"delimiter": "x".repeat(65)}), "65 bytes"),
        (json!({"delimiter_hex": "f"}), "\"f\" are no bytes in hexadecimal"),
        (json!({"delimiter_hex": "+f"}), "are no bytes"),
        (json!({"fixed": 3, "max": 9}), "max does not go with fixed"),
        (json!({"fixed": 65_537}), "fixed: 65537B is out of range"),
        (json!({"raw": true, "timeout": "1s"}), "timeout does not go with raw; give gap"),
        (json!({"gap": "1s"}), "gap goes with raw = true only"),
        (json!({"raw": true, "gap": "11s"}), "gap: 11s is out of range; allowed: a time from 0s to 10s"),
        (json!({"timeout": "0s"}), "timeout: 0ms is out of range"),
        (json!({"timeout": "61m"}), "timeout: 61m is out of range"),
        (json!({"timeout": 5}), "timeout: 5 where a time is expected; allowed: a time from 1ms"),
        (json!({"max": 0}), "max: 0B is out of range"),
        (json!({"max": "2MiB"}), "max: 2MiB is out of range; allowed: a size from 1 to 1MiB"),
    ] {
        let message = framing(wrong.clone()).unwrap_err();
        assert!(message.starts_with("framing: ") && message.contains(part), "{wrong}: {message}");
    }
}

#[test]
fn c47_rates_that_are_not_usual_are_refused_with_their_neighbours() {
    let told = "baud: 123457 is no usual rate; near are 115200 and 128000, or set any_baud = true";
    assert_eq!(open(json!({"baud": 123_457})), Err(told.to_owned()));
    assert!(
        open(json!({"baud": 0})).unwrap_err().starts_with("baud: 0 is out of range; allowed: an integer")
    );
    assert_eq!(open(json!({"baud": 123_457, "any_baud": true})).unwrap().line.baud, 123_457);
    assert!(open(json!({"baud": 4_000_001, "any_baud": true})).is_err());
    for rate in USUAL_RATES {
        assert_eq!(open(json!({"baud": rate})).unwrap().line.baud, *rate);
    }
    let line = LineSettings::default();
    let changed = |settings: Value| line.changed(&object(settings));
    assert_eq!(changed(json!({"baud": 123_457})), Err(told.to_owned()));
    assert_eq!(changed(json!({})), Ok(line.clone()));
    let other = changed(json!({"baud": 115_200, "parity": "even", "flow": null})).unwrap();
    assert_eq!((other.baud, other.parity, other.data_bits), (115_200, Parity::Even, 8));
    assert!(changed(json!({"framing": "raw"})).unwrap_err().contains("\"framing\" cannot be set"));
    let odd = LineSettings { baud: 51, any_baud: true, ..LineSettings::default() };
    assert_eq!(odd.changed(&object(json!({"data_bits": 7}))).unwrap().baud, 51);
    assert!(odd.changed(&object(json!({"any_baud": false}))).is_err());
}

#[test]
fn each_wrong_setting_is_named() {
    for (wrong, part) in [
        (json!({"id": "a/b"}), "id: \"a/b\" is no id; allowed: 1 to 64"),
        (json!({"id": "x".repeat(65)}), "is no id"),
        (json!({"id": "Audio"}), "id: \"Audio\" is no id"),
        (json!({"id": null}), "id: it must be given"),
        (json!({"path": null}), "path: either path or usb must be given"),
        (json!({"usb": {"vid": 1, "pid": 2}}), "usb: give either path or usb"),
        (json!({"path": null, "usb": {"vid": 1}}), "usb: pid is missing"),
        (json!({"path": null, "usb": {"vid": 65_536, "pid": 2}}), "usb: vid: 65536 is out of range"),
        (json!({"path": null, "usb": {"vid": "+403", "pid": 2}}), "vid: \"+403\" is no number"),
        (json!({"path": null, "usb": {"vid": 1, "pit": 2}}), "pit: no such key; did you mean pid?"),
        (json!({"path": "sim:null"}), "path: \"sim:null\" is no simulated port, there is sim:loop"),
        (json!({"path": "a\0"}), "path: \"a\\0\" is no path"),
        (json!({"path": ""}), "path: \"\" is no path"),
        (json!({"boud": 9600}), "boud: no such key; did you mean baud?"),
        (json!({"baud": "9600"}), "baud: \"9600\" where an integer is expected"),
        (json!({"baud": 9600.5}), "baud: a value of type number where an integer"),
        (json!({"data_bits": 9}), "data_bits: 9 is out of range; allowed: an integer from 5 to 8"),
        (json!({"parity": "mark"}), "parity: \"mark\" is none of them; allowed: \"none\""),
        (json!({"stop_bits": 3}), "stop_bits: 3 is out of range"),
        (json!({"flow": true}), "flow: true where a string is expected"),
        (json!({"dtr": 1}), "dtr: 1 where true or false is expected"),
    ] {
        let message = open(wrong.clone()).unwrap_err();
        assert!(message.contains(part), "{wrong}: {message}");
    }
    assert!(open(json!({"parity": "x".repeat(1 << 20)})).unwrap_err().len() < 400);
}

#[test]
fn the_file_says_where() {
    let port = "[[serial]]\nid = 'a'\npath = '/dev/a'\n";
    for (text, part) in [
        ("[[serial]]\nid = 'a'\n", "line 1:1: [[serial]] path: either path or usb must be given"),
        (&format!("{port}baud = 123457\n"), "line 4:8: [[serial]] baud: 123457 is no usual rate"),
        (&format!("{port}bauds = 1\n"), "line 4:1: [[serial]] bauds: no such key; did you mean baud?"),
        (
            &format!("{port}framing = {{ max = 0 }}\n"),
            "line 4:11: [[serial]] framing: max: 0B is out of range; allowed: a size from 1 to 1MiB",
        ),
        (&format!("{port}max = 0\n"), "[[serial]] max: no such key; it belongs into [[serial]] framing.max"),
        (&format!("{port}{}", port.replace("'a'", "'A'")), "line 5:6: [[serial]] id = \"A\" is used twice"),
        (
            &format!("{port}{}", port.replace("'a'", "'b'")),
            "line 6:8: [[serial]] path: /dev/a is \"a\" already; a port is opened once",
        ),
        ("[serial]\nid = 'a'", "line 1:2: [serial]: there may be several, write [[serial]]"),
        ("serial = ['a']", "write each as a table [[serial]]"),
        ("[[serials]]\nid = 'a'", "[serials]: no such table; did you mean [[serial]]?"),
        ("[xyz]", "[security], [[log]], [[serial]] and [[forward]]"),
    ] {
        let message = toml(text).unwrap_err();
        assert!(message.contains(part), "{text}\n{message}");
    }
    let two = "[[serial]]\nid = 'a'\npath = 'sim:loop'\n[[serial]]\nid = 'b'\npath = 'sim:loop'\n";
    assert_eq!(toml(two).unwrap().serial.len(), 2);
    assert_eq!(toml("serial = []").unwrap().serial, []);
}
