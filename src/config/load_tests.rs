use super::super::framing_keys::{FRAMING_KEYS, FramingParts};
use super::super::keys::{KEYS, Key, LOG_KEYS, ROTATE_KEYS, all_keys};
use super::super::reader::raw;
use super::super::serial::{Framing, LineSettings, PortPath, SerialConfig};
use super::super::serial_keys::{SERIAL_KEYS, USB_KEYS, Usb};
use super::super::{Format, LogConfig, Rotate};
use super::*;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeTable;

fn read(text: &str) -> Result<Config> {
    Config::from_toml(text, Path::new("/base"))
}

fn message(text: &str) -> String {
    read(text).unwrap_err().message().to_owned()
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let config = read(
        r#"
        [gateway]
        name = "kiosk-7"
        log_dir = "logs"
        [endpoints]
        commands = "tcp://[::1]:0"
        logs = "off"
        [journal]
        durability = "fsynced"
        max_bytes = 2_097_152
        max_age = "12h"
        [[log]]
        path = "gateway.log"
        rotate = { size = "64MiB", every = "day", keep_files = 14, keep_bytes = "1GiB", compress = true }
        [[log]]
        path = "{source}.txt"
        template = "{time} {{x}} {text}"
        source = "updater"
        "#,
    )
    .unwrap();
    assert_eq!(config.gateway.log_dir, Path::new("/base").join("logs"));
    assert_eq!(config.endpoints.logs, None);
    assert_eq!(config.journal.max_bytes, 2 << 20);
    assert_eq!(config.journal.max_age, Duration::from_secs(12 * 3600));
    let rotate = config.logs[0].rotate.as_ref().unwrap();
    assert_eq!((rotate.size, rotate.keep_files, rotate.compress), (Some(64 << 20), Some(14), true));
    assert_eq!(config.logs[1].format, Format::Template("{time} {{x}} {text}".into()));
    assert_eq!(config.logs[1].source, ["updater"]);
    assert_eq!(read("").unwrap(), Config::default_in(Path::new("/base")));
}

#[test]
fn each_fault_names_place_key_value_and_what_is_allowed() {
    let text = "[journal]\nmax_byte = 5\nmax_age = \"1 week\"\n\n[gatewy]\n";
    assert_eq!(
        message(text),
        "line 2:1: [journal] max_byte: no such key; did you mean max_bytes?\n\
         line 3:11: [journal] max_age: \"1 week\" is no time; allowed: a time of at least 1m, in ms, s, m, h or d\n\
         line 5:2: [gatewy]: no such table; did you mean [gateway]?"
    );
    for (text, part) in [
        ("x = ", "line 1:"),
        ("a = 1\na = 2", "line 2:1: duplicate key"),
        ("max_bytes = 5", "belongs into [journal]"),
        ("[gateway]\nmax_bytes = 5", "belongs into [journal]"),
        ("[log]\npath = 'x'", "write [[log]]"),
        ("[[logs]]", "did you mean [[log]]?"),
        ("[[log]]\nformat = 'jsn'", "\"jsn\" is none of them; allowed: \"text\""),
        ("[[log]]\npath = '../x'", "[[log]] path"),
        ("[[log]]\npath = 'a'\n[[log]]\npath = 'a'", "line 4:8: [[log]] path = \"a\" is used twice"),
        ("[[log]]\nformat = 'json'\ntemplate = '{text}'", "either format or template"),
        ("[[log]]\nrotate = { keep_files = 3 }", "needs size or every"),
        ("[[log]]\nrotate = { sice = 3 }", "did you mean size?"),
        ("[[log]]\nrotate = 3", "a table is expected"),
        ("[security]\nallow_insecure = 'true'", "\"true\" where true or false is expected"),
        ("[journal]\nmax_bytes = 1.5", "a value of type float where a size is expected"),
        ("[journal]\nmax_bytes = '1KiB'", "1KiB is out of range; allowed: a size of at least 1MiB"),
        ("[intake]\nencoding = 'utf-99'", "\"utf-99\" is no encoding"),
        ("[intake]\nmax_text = '20MiB'", "20MiB is out of range; allowed: a size from 1KiB to 16MiB"),
        ("[intake]\nmax_text = '2MiB'\nmax_message = '1MiB'", "max_text is 2MiB, but max_message is 1MiB"),
        ("[endpoints]\nlogs = 'tcp://127.0.0.1'", "port is missing"),
        ("[endpoints]\nlogs = 'inproc://x'", "own process"),
        ("[endpoints]\nlogs = 'tcp://localhost:10003'", "same as [endpoints] commands"),
        ("[endpoints]\nlogs = 'tcp://*:10000'", "set [security] allow_insecure = true"),
        ("[endpoints]\nadvertise = 'tcp://x:1'", "allowed: a host name"),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{text}\n{message}");
    }
    assert!(read("[endpoints]\nlogs='tcp://127.0.0.1:0'\ncommands='tcp://127.0.0.1:0'").is_ok());
}

#[test]
fn flag_goes_before_environment_before_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hwgate.toml"), "\u{feff}[gateway]\nname = 'file'\nlog_dir = 'l'\n")
        .unwrap();
    let mut overrides = Overrides { cwd: dir.path().to_owned(), ..Overrides::default() };
    let name = |overrides: &Overrides| Config::load(overrides).unwrap().config.gateway.name;
    assert_eq!(name(&overrides), "file");
    overrides.env.insert("HWGATE_GATEWAY_NAME".into(), "env".into());
    overrides.env.insert("HWGATE_JOURNAL_MAX_BYTES".into(), "2MiB".into());
    overrides.env.insert("HWGATE_JOURNAL_MAX_BITES".into(), "x".into());
    overrides.env.insert("HWGATE_SOURCE".into(), "x".into());
    overrides.env.insert("HWGATE_SERIAL_BAUD".into(), "9600".into());
    assert_eq!(name(&overrides), "env");
    overrides.set.push(("gateway.name".into(), "flag".into()));
    let loaded = Config::load(&overrides).unwrap();
    assert_eq!(loaded.config.gateway.name, "flag");
    assert_eq!(loaded.config.gateway.log_dir, dir.path().join("l"));
    assert_eq!(loaded.config.journal.max_bytes, 2 << 20);
    assert_eq!(
        loaded.warnings,
        ["HWGATE_JOURNAL_MAX_BITES in the environment is no setting; did you mean HWGATE_JOURNAL_MAX_BYTES?"]
    );
    overrides.set.push(("gateway.nme".into(), "x".into()));
    let error = Config::load(&overrides).unwrap_err();
    assert_eq!(error.message(), "--set gateway.nme: [gateway] nme: no such key; did you mean name?");
    *overrides.set.last_mut().unwrap() = ("serial.baud".into(), "9600".into());
    let error = Config::load(&overrides).unwrap_err();
    assert_eq!(error.message(), "--set serial.baud: there may be several [[serial]]; set them in the file");
}

#[test]
fn a_listener_beyond_this_machine_is_a_warning_once_allowed() {
    let overrides = Overrides {
        set: vec![
            ("endpoints.logs".into(), "tcp://0.0.0.0:10000".into()),
            ("security.allow_insecure".into(), "true".into()),
        ],
        cwd: "/nowhere".into(),
        ..Overrides::default()
    };
    let loaded = Config::load(&overrides).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains("allow_insecure"));
}

#[test]
fn c36_a_mark_is_ignored_and_utf16_is_named() {
    assert_eq!(decode(b"\xef\xbb\xbfx"), Ok("x".to_owned()));
    for bytes in [&b"\xff\xfex\0"[..], b"\xfe\xff\0x", b"[\0x\0]\0"] {
        assert!(decode(bytes).unwrap_err().starts_with("UTF-16, expected UTF-8"));
    }
    assert_eq!(decode(b"a\n\xe4"), Err("line 2 is not UTF-8; save the file as UTF-8".into()));
}

#[test]
fn a_given_file_that_is_not_there_is_an_error() {
    let overrides =
        Overrides { config: Some("no.toml".into()), cwd: "/nowhere".into(), ..Overrides::default() };
    assert_eq!(Config::load(&overrides).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn every_key_takes_its_example_and_its_default() {
    fn both<T>(keys: &[Key<T>], target: &mut T) {
        for key in keys {
            for text in [key.example, key.default] {
                let line = format!("x = {text}");
                let Ok(table) = DeTable::parse(&line).map(Spanned::into_inner) else {
                    continue;
                };
                let value = raw(table["x"].get_ref());
                (key.set)(target, &value).unwrap_or_else(|reason| panic!("{}: {reason}", key.path()));
                assert!((key.get)(target).is_some(), "{}", key.path());
            }
        }
    }
    // In this order the defaults come last, so the result must be the default settings.
    let mut config = Config::unresolved();
    both(KEYS, &mut config);
    let mut log = LogConfig::default();
    both(LOG_KEYS, &mut log);
    both(ROTATE_KEYS, &mut Rotate::default());
    let mut serial = SerialConfig::new("", PortPath::SimLoop);
    both(SERIAL_KEYS, &mut serial);
    assert_eq!((serial.line, serial.framing), (LineSettings::default(), Framing::default()));
    both(USB_KEYS, &mut Usb::default());
    both(FRAMING_KEYS, &mut FramingParts::default());
    let default = Config::unresolved();
    for key in KEYS.iter().filter(|key| DeTable::parse(&format!("x = {}", key.default)).is_ok()) {
        assert_eq!((key.get)(&config), (key.get)(&default), "{}", key.path());
    }
}

#[test]
fn key_names_are_unique_and_found_in_the_list() {
    let mut all = all_keys();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(all.contains(&("log", "rotate")) && all.contains(&("journal", "max_bytes")));
}
