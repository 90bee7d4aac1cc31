//! The settings of a port as `serial.open` and `serial.set` take them and as events and answers tell them.

use serde_json::{Map, Value, json};

use super::serial::{Flow, Framing, LineEnd, LineSettings, Parity, PortPath, SerialConfig};
use super::serial_keys::{SERIAL_KEYS, apply, complete};
use super::value::{Raw, show_duration};

impl SerialConfig {
    /// Settings from the parameters of `serial.open`: the same names, values as in TOML. The error says which and why.
    pub fn from_json(settings: Map<String, Value>) -> Result<SerialConfig, String> {
        let mut config = SerialConfig::new("", PortPath::Path(String::new()));
        complete(|name| settings.get(name).is_some_and(|value| !value.is_null()))?;
        read(settings, &mut config)?;
        config.line.check_rate()?;
        Ok(config)
    }

    /// The settings without `id` and where the port is, as `serial.open` takes them: `baud`, `any_baud` where it is
    /// true, `data_bits`, `parity`, `stop_bits`, `flow`, `dtr` and `rts` where they are set, `framing`.
    pub fn to_json(&self) -> Value {
        let mut members = self.line.members();
        for (name, line) in [("dtr", self.dtr), ("rts", self.rts)] {
            members.extend(line.map(|on| (name.to_owned(), on.into())));
        }
        members.insert("framing".to_owned(), self.framing.to_json());
        members.into()
    }
}

/// Reads what is given; `null` is as good as absent.
fn read(settings: Map<String, Value>, config: &mut SerialConfig) -> Result<(), String> {
    let given = settings.into_iter().filter(|(_, value)| !value.is_null());
    given.into_iter().try_for_each(|(name, value)| apply(SERIAL_KEYS, &name, &Raw::from(value), config))
}

impl PortPath {
    /// `{"path": …}` or `{"usb": {"vid", "pid", "serial"?}}`, as `serial.open` takes it; numbers are numbers.
    pub fn to_json(&self) -> Value {
        match self {
            PortPath::Path(path) => json!({"path": path}),
            PortPath::SimLoop => json!({"path": "sim:loop"}),
            PortPath::Usb { vid, pid, serial: None } => json!({"usb": {"vid": vid, "pid": pid}}),
            PortPath::Usb { vid, pid, serial } => json!({"usb": {"vid": vid, "pid": pid, "serial": serial}}),
        }
    }
}

/// The settings that `serial.set` changes.
const LINE_NAMES: &[&str] = &["baud", "any_baud", "data_bits", "parity", "stop_bits", "flow"];

impl LineSettings {
    /// These with what `settings` names changed: `baud`, `any_baud`, `data_bits`, `parity`, `stop_bits`, `flow`.
    pub fn changed(&self, settings: &Map<String, Value>) -> Result<LineSettings, String> {
        if let Some(other) = settings.keys().find(|name| !LINE_NAMES.contains(&name.as_str())) {
            return Err(format!("{other:?} cannot be set; there are {}", LINE_NAMES.join(", ")));
        }
        let mut config = SerialConfig::new("", PortPath::SimLoop);
        config.line = self.clone();
        read(settings.clone(), &mut config)?;
        config.line.check_rate()?;
        Ok(config.line)
    }

    /// `baud`, `any_baud` where it is true, `data_bits`, `parity`, `stop_bits`, `flow`.
    pub fn to_json(&self) -> Value {
        self.members().into()
    }

    fn members(&self) -> Map<String, Value> {
        let parity = match self.parity {
            Parity::None => "none",
            Parity::Even => "even",
            Parity::Odd => "odd",
        };
        let flow = match self.flow {
            Flow::None => "none",
            Flow::Software => "software",
            Flow::Hardware => "hardware",
        };
        let any_baud = self.any_baud.then(|| ("any_baud", true.into()));
        let members = [
            ("baud", self.baud.into()),
            ("data_bits", self.data_bits.into()),
            ("parity", parity.into()),
            ("stop_bits", self.stop_bits.into()),
            ("flow", flow.into()),
        ];
        members.into_iter().chain(any_baud).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Framing {
    /// As `serial.open` takes it, with all that is a default: `{"line": "any", "max": 65536, "timeout": "1s"}`.
    pub fn to_json(&self) -> Value {
        match self {
            Framing::Line { end, max, timeout } => {
                let end = match end {
                    LineEnd::Any => "any",
                    LineEnd::Lf => "lf",
                    LineEnd::Cr => "cr",
                    LineEnd::CrLf => "crlf",
                };
                json!({"line": end, "max": max, "timeout": show_duration(*timeout)})
            }
            Framing::Delimiter { delimiter, max, timeout } => {
                let timeout = show_duration(*timeout);
                match std::str::from_utf8(delimiter) {
                    Ok(text) => json!({"delimiter": text, "max": max, "timeout": timeout}),
                    Err(_) => {
                        let hex: String = delimiter.iter().map(|byte| format!("{byte:02x}")).collect();
                        json!({"delimiter_hex": hex, "max": max, "timeout": timeout})
                    }
                }
            }
            Framing::Fixed { size, timeout } => json!({"fixed": size, "timeout": show_duration(*timeout)}),
            Framing::Raw { gap, max } => json!({"raw": true, "gap": show_duration(*gap), "max": max}),
        }
    }
}

#[cfg(test)]
#[path = "serial_tests.rs"]
mod tests;
