//! `hwgate ports`: which serial ports there are, and what to write into the settings to use one.

use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::output::{complain, say};
use crate::cli::{REPLY, Target};
use crate::config::print::serial_toml;
use crate::config::serial::SerialConfig;
use crate::device::serial::list;
use crate::error::{Kind, Result};

/// List the serial ports of the gateway's machine, without opening any
#[derive(Debug, clap::Args)]
pub struct Ports {
    /// As [[serial]] tables for the settings
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    /// As JSON: {"ports": as serial.list tells, "open": as serial.status tells}
    #[arg(long)]
    json: bool,
}

impl Ports {
    /// Asks the gateway; where none answers and none was named, looks for itself.
    pub fn run(&self, target: &Target) -> std::result::Result<(), Failure> {
        let found = match ask(target) {
            Err(error) if error.kind() == Kind::NotConnected && target.is_default() => {
                complain(&format!("{}; these are the ports of this machine", error.message()));
                json!({"ports": list::list()?, "open": []})
            }
            found => found?,
        };
        let ports = members(&found["ports"]);
        if self.json {
            say(&format!("{found:#}"));
        } else if self.toml {
            toml(ports)?.iter().for_each(|table| say(table));
        } else {
            if ports.is_empty() {
                say("no serial port was found; `sim:loop` is one that needs no hardware");
            }
            ports.iter().for_each(|port| say(&line(port, members(&found["open"]))));
        }
        Ok(())
    }
}

fn ask(target: &Target) -> Result<Value> {
    let mut requester = target.connect()?;
    let ports = requester.request("serial.list", &Value::Null, REPLY)?;
    let open = requester.request("serial.status", &Value::Null, REPLY)?;
    Ok(json!({"ports": ports["ports"], "open": open["ports"]}))
}

fn members(array: &Value) -> &[Value] {
    array.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A port in words: path, what it is, what to call it by, who has it.
fn line(port: &Value, open: &[Value]) -> String {
    let text = |name: &str| port[name].as_str().unwrap_or_default();
    let mut words = vec![format!("{:<14}", text("path")), text("kind").to_owned()];
    for name in ["usb_id", "manufacturer", "product", "serial"] {
        words.push(text(name).to_owned());
    }
    if let Some(by_id) = port["by_id"].as_str() {
        words.push(format!("as {by_id}"));
    }
    let has = |status: &&Value| status["device"] == port["path"] || status["path"] == port["path"];
    if let Some(status) = open.iter().find(has) {
        words.push(format!(
            "[{} is {}]",
            status["id"].as_str().unwrap_or_default(),
            status["state"].as_str().unwrap_or_default()
        ));
    }
    words.retain(|word| !word.is_empty());
    words.join("  ")
}

/// Tables for the settings, each with an id of its own.
fn toml(ports: &[Value]) -> Result<Vec<String>> {
    let mut tables = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let mut settings = port["open_as"].as_object().cloned().unwrap_or_default();
        settings.insert("id".to_owned(), format!("port{}", index + 1).into());
        let config = SerialConfig::from_json(settings)
            .map_err(|text| crate::Error::new(Kind::Internal, format!("serial.list: {text}")))?;
        let words: Vec<&str> =
            ["path", "manufacturer", "product"].iter().filter_map(|name| port[*name].as_str()).collect();
        tables.push(format!("# {}\n{}", words.join(", "), serial_toml(&config)));
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_used_as_settings() {
        let by_id = "/dev/serial/by-id/usb-ACME_A1";
        let ports = [
            json!({"path": "/dev/ttyUSB0", "kind": "usb", "usb_id": "0403:6001", "product": "Scanner", "by_id": by_id,
                   "open_as": {"path": by_id}}),
            json!({"path": "COM3", "kind": "usb", "open_as": {"usb": {"vid": 1027, "pid": 24577, "serial": "A1"}}}),
        ];
        let text = toml(&ports).unwrap().join("\n");
        let read: toml::Table = ::toml::from_str(&text).unwrap();
        assert_eq!(read["serial"].as_array().unwrap().len(), 2, "{text}");
        assert!(text.contains(by_id) && text.contains("port2"), "{text}");
        let open = [json!({"id": "scanner", "device": "/dev/ttyUSB0", "state": "open"})];
        assert_eq!(
            line(&ports[0], &open),
            format!("/dev/ttyUSB0    usb  0403:6001  Scanner  as {by_id}  [scanner is open]")
        );
    }
}
