//! The settings as text: those in force for `hwgate check`, and a commented file for `hwgate init`.

use std::fmt::Write as _;

use super::Config;
use super::forward_keys::FORWARD_KEYS;
use super::framing_keys::FRAMING_KEYS;
use super::keys::{KEYS, Key, LOG_KEYS, ROTATE_KEYS, tables};
use super::load::Origins;
use super::serial::SerialConfig;
use super::serial_keys::{SERIAL_KEYS, USB_KEYS};

/// The settings in force as TOML that reads back as the same settings; behind each value that is no
/// default, where it came from.
pub fn effective(config: &Config, origins: &Origins) -> String {
    let mut text = String::new();
    for table in tables() {
        let _ = writeln!(text, "[{table}]");
        let keys = KEYS.iter().filter(|key| key.table == table);
        write_keys(&mut text, keys, config, table, origins);
        text.push('\n');
    }
    for (index, log) in config.logs.iter().enumerate() {
        let prefix = format!("log.{index}");
        text.push_str("[[log]]\n");
        write_keys(&mut text, LOG_KEYS.iter(), log, &prefix, origins);
        if let Some(rotate) = &log.rotate {
            text.push_str("[log.rotate]\n");
            write_keys(&mut text, ROTATE_KEYS.iter(), rotate, &format!("{prefix}.rotate"), origins);
        }
        text.push('\n');
    }
    for (index, serial) in config.serial.iter().enumerate() {
        text.push_str("[[serial]]\n");
        write_keys(&mut text, SERIAL_KEYS.iter(), serial, &format!("serial.{index}"), origins);
        text.push('\n');
    }
    for (index, forward) in config.forward.iter().enumerate() {
        text.push_str("[[forward]]\n");
        write_keys(&mut text, FORWARD_KEYS.iter(), forward, &format!("forward.{index}"), origins);
        text.push('\n');
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

fn write_keys<T: 'static>(
    text: &mut String,
    keys: impl Iterator<Item = &'static Key<T>>,
    settings: &T,
    prefix: &str,
    origins: &Origins,
) {
    for key in keys {
        let _ = match (key.get)(settings) {
            Some(value) => match origins.get(&format!("{prefix}.{}", key.name)) {
                Some(origin) => writeln!(text, "{} = {value}  # {origin}", key.name),
                None => writeln!(text, "{} = {value}", key.name),
            },
            None => writeln!(text, "# {} is not set", key.name),
        };
    }
}

/// A `[[serial]]` table with what a port is called, where it is and its rate.
pub fn serial_toml(serial: &SerialConfig) -> String {
    let mut text = "[[serial]]\n".to_owned();
    let keys = SERIAL_KEYS.iter().filter(|key| ["id", "path", "usb", "baud"].contains(&key.name));
    for (key, value) in keys.filter_map(|key| Some((key, (key.get)(serial)?))) {
        let _ = writeln!(text, "{} = {value}", key.name);
    }
    text
}

/// A settings file with every key, its meaning, what is allowed and its default, all commented out;
/// with `demo` followed by log files and a simulated port that show what there is.
pub fn template(demo: bool) -> String {
    let mut text = String::from(
        "# Settings of hwgate. All lines are optional: remove the '#' before a key and change its value.\n\
         # `hwgate check` says what is in force. Relative paths start at the folder of this file.\n\
         # Each key but those of [[log]], [[serial]] and [[forward]] may also be set as HWGATE_<TABLE>_<KEY> in the\n\
         # environment.\n",
    );
    for table in tables() {
        let _ = writeln!(text, "\n[{table}]");
        KEYS.iter().filter(|key| key.table == table).for_each(|key| explain(&mut text, key));
    }
    text.push_str("\n# One [[log]] for each set of files; without any there is gateway.log.\n");
    if demo {
        text.push_str(DEMO_LOGS);
        text.push_str("\n# All keys of a [[log]]:\n");
    }
    text.push_str("# [[log]]\n");
    LOG_KEYS.iter().for_each(|key| explain(&mut text, key));
    text.push_str(
        "#\n# When files are closed and old ones removed; needs size or every, or {date} in the path.\n",
    );
    text.push_str("# [log.rotate]\n");
    ROTATE_KEYS.iter().for_each(|key| explain(&mut text, key));
    text.push_str("\n# One [[serial]] for each serial port to open at start; without any there is none.\n");
    if demo {
        text.push_str(DEMO_SERIAL);
        text.push_str("\n# All keys of a [[serial]]:\n");
    }
    text.push_str("# [[serial]]\n");
    SERIAL_KEYS.iter().for_each(|key| explain(&mut text, key));
    text.push_str("#\n# In usb:\n");
    USB_KEYS.iter().for_each(|key| explain_inner(&mut text, key));
    text.push_str("#\n# In framing, of which the first five exclude each other:\n");
    FRAMING_KEYS.iter().for_each(|key| explain_inner(&mut text, key));
    text.push_str("\n# One [[forward]] for each forwarder; without any there is none.\n# [[forward]]\n");
    FORWARD_KEYS.iter().for_each(|key| explain(&mut text, key));
    text
}

/// What is written to it is read from it.
const DEMO_SERIAL: &str = r#"
[[serial]]
id = "scanner"
path = "sim:loop"
"#;

/// For keys of a table in one line, which cannot be switched on by themselves.
fn explain_inner<T>(text: &mut String, key: &Key<T>) {
    let _ =
        writeln!(text, "# - {}: {} Allowed: {}. Default: {}.", key.name, key.help, key.allowed, key.default);
}

/// Everything for people, the same as JSON for programs, and trouble by itself.
const DEMO_LOGS: &str = r#"
[[log]]
path = "gateway.log"
rotate = { size = "64MiB", every = "day", keep_files = 14, keep_bytes = "1GiB", compress = true }

[[log]]
path = "gateway.json"
format = "json"
rotate = { size = "64MiB", keep_files = 4 }

[[log]]
path = "trouble/{source}.log"
level = "warn"
rotate = { size = "8MiB", keep_files = 4 }
"#;

fn explain<T>(text: &mut String, key: &Key<T>) {
    // A default in words cannot stand as a value, so the example does.
    let value = if is_value(key.default) { key.default } else { key.example };
    let _ = writeln!(text, "# {} Allowed: {}. Default: {}.", key.help, key.allowed, key.default);
    let _ = writeln!(text, "# {} = {value}", key.name);
}

fn is_value(text: &str) -> bool {
    format!("x = {text}").parse::<toml::Table>().is_ok()
}

/// The rows of the reference in docs/CONFIG.md, in order; each is one line of a Markdown table.
pub fn reference() -> Vec<String> {
    fn row<T>(key: &Key<T>) -> String {
        let env = key.env().map_or("–".to_owned(), |env| format!("`{env}`"));
        let reload = if key.reload { "reload" } else { "restart" };
        format!(
            "| `{}` | {} | {} | {} | `{}` | {env} | {reload} |",
            key.name, key.help, key.default, key.allowed, key.example
        )
        .replace("{{", "`{{`")
        .replace("}}", "`}}`")
    }
    let single = KEYS.iter().map(row);
    let log = LOG_KEYS.iter().map(row).chain(ROTATE_KEYS.iter().map(row));
    let serial = SERIAL_KEYS.iter().map(row).chain(USB_KEYS.iter().map(row));
    let forward = FORWARD_KEYS.iter().map(row);
    single.chain(log).chain(serial).chain(FRAMING_KEYS.iter().map(row)).chain(forward).collect()
}

#[cfg(test)]
mod tests {
    use super::super::forward::ForwardConfig;
    use super::super::serial::PortPath;
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        let base = if cfg!(windows) { Path::new("C:\\base") } else { Path::new("/base") };
        let text = "endpoints.advertise = 'kiosk'\nintake.encoding = 'latin1'\njournal.max_age = '90m'\n\
                    [[log]]\ntemplate = \"{time} \\\"{{q}}\\\" {text}\"\nsource = ['a', 'b*']\neol = 'crlf'\n\
                    [[log]]\npath = '{date}.log'\nrotate = { keep_days = 3 }\n";
        let ports = "[[serial]]\nid = 'a'\npath = '/dev/ttyUSB0'\nbaud = 123457\nany_baud = true\ndata_bits = 7\n\
                     parity = 'even'\nstop_bits = 2\nflow = 'hardware'\ndtr = false\nrts = true\n\
                     framing = { delimiter = \"a\\u0000\\\"\", max = 77, timeout = '90s' }\n\
                     [[serial]]\nid = 'b'\nusb = { vid = 0x0403, pid = '6001', serial = \"A'1\" }\nframing = 'raw'\n\
                     [[serial]]\nid = 'c'\npath = 'sim:loop'\nframing = { delimiter_hex = 'ff 03' }\n\
                     [[serial]]\nid = 'd'\npath = '\\\\.\\COM10'\nframing = { fixed = 12 }\n\
                     [[serial]]\nid = 'e'\nusb = { vid = 1, pid = 2 }\nframing = { line = 'crlf' }\n\
                     [[serial]]\nid = 'f'\npath = 'COM3'\nframing = { raw = true, gap = '0ms', max = '1MiB' }\n";
        let forwards = "[[forward]]\ninput = 'tcp://127.0.0.1:1'\noutput = 'tcp://[::1]:0'\nsend_wait = '0ms'\n\
                        [[forward]]\nid = 'b'\ninput = 'tcp://127.0.0.1:0'\noutput = 'tcp://localhost:7'\n\
                        state = 'tcp://127.0.0.1:8'\nmonitor = 'tcp://127.0.0.1:9'\njournal = true\n\
                        receive_hwm = 1\nsend_hwm = 2\nmonitor_hwm = 3\nsend_wait = '250ms'\n";
        for text in ["", text, ports, forwards] {
            let config = Config::from_toml(text, base).unwrap();
            let printed = effective(&config, &Origins::new());
            assert_eq!(Config::from_toml(&printed, base).unwrap(), config, "{printed}");
        }
    }

    #[test]
    fn the_commented_file_is_the_default_and_stays_valid_line_by_line() {
        let base = Path::new("/base");
        assert_eq!(Config::from_toml(&template(false), base).unwrap(), Config::default_in(base));
        let demo = Config::from_toml(&template(true), base).unwrap();
        assert_eq!(demo.logs.len(), 3);
        assert_eq!(demo.serial, [SerialConfig::new("scanner", PortPath::SimLoop)]);
        // Each commented key may be switched on alone; those of [[log]], [[serial]] and [[forward]] all together.
        let text = template(false);
        let (single, _) = text.split_once("# [[forward]]").unwrap();
        for line in single.lines().filter(|line| line.starts_with("# ") && line.contains(" = ")) {
            let key = line.trim_start_matches("# ").split(' ').next().unwrap();
            if !KEYS.iter().any(|known| known.name == key) {
                continue;
            }
            let changed = text.replace(line, line.trim_start_matches("# "));
            let read = Config::from_toml(&changed, base);
            assert!(read.is_ok() || line.contains("max_text"), "{line}: {read:?}");
        }
        let (_, logs) = text.split_once("# [[log]]\n").unwrap();
        let (logs, serial) = logs.split_once("# [[serial]]\n").unwrap();
        let (serial, forward) = serial.split_once("# [[forward]]\n").unwrap();
        let is_setting =
            |line: &&str| line.starts_with("# [") || line.contains(" = ") && !line.contains(". ");
        let logs: Vec<&str> =
            logs.lines().filter(is_setting).map(|l| &l[2..]).filter(|l| !l.starts_with("template")).collect();
        let logs = Config::from_toml(&format!("[[log]]\n{}", logs.join("\n")), base).unwrap().logs;
        assert!(logs[0].rotate.is_some());
        let serial: Vec<&str> =
            serial.lines().filter(is_setting).map(|l| &l[2..]).filter(|l| !l.starts_with("path")).collect();
        let serial = Config::from_toml(&format!("[[serial]]\n{}", serial.join("\n")), base).unwrap().serial;
        assert!(matches!(serial[0].port, PortPath::Usb { .. }), "{serial:?}");
        assert_eq!((serial[0].dtr, &serial[0].framing), (Some(true), &Default::default()));
        let forward: Vec<&str> = forward.lines().filter(is_setting).map(|line| &line[2..]).collect();
        let forward =
            Config::from_toml(&format!("[[forward]]\n{}", forward.join("\n")), base).unwrap().forward;
        assert_eq!(forward, [ForwardConfig::new("tcp://127.0.0.1:5606", "tcp://127.0.0.1:5608")]);
    }

    #[test]
    fn the_documentation_has_every_key() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/CONFIG.md");
        let text = std::fs::read_to_string(path).unwrap();
        let missing: Vec<String> =
            reference().into_iter().filter(|row| !text.contains(row.as_str())).collect();
        assert!(missing.is_empty(), "add to docs/CONFIG.md:\n{}", missing.join("\n"));
        let (_, example) = text.split_once("```toml\n").unwrap();
        let config = Config::from_toml(example.split("```").next().unwrap(), Path::new("/base")).unwrap();
        assert_eq!((config.logs.len(), config.serial.len(), config.forward.len()), (2, 1, 1));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/forward/hwgate.toml");
        let config = Config::from_toml(&std::fs::read_to_string(path).unwrap(), Path::new("/base")).unwrap();
        assert!(config.forward[0].journal);
    }
}
