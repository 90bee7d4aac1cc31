//! Which serial ports this machine has, without touching any.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use serialport::{SerialPortInfo, SerialPortType, UsbPortInfo};

use crate::config::serial::PortPath;
use crate::{Error, Kind, Result};

/// Where Linux tells of terminals.
const CLASS: &str = "/sys/class/tty";
/// Where udev keeps links with the names of USB devices.
const BY_ID: &str = "/dev/serial/by-id";

/// Every port, with what is known of it; see `serial.list`. Reads small files of the system and opens no port.
///
/// Each is an object of `path`, `kind` (`usb`, `pci`, `bluetooth` or `unknown`) and `open_as`: an object with either
/// `path` or `usb`, which names the port for `serial.open` and `[[serial]]` in the way that best outlives another
/// socket. Those of USB have `vid`, `pid` and `usb_id` as well, and `serial`, `manufacturer`, `product`, `interface`
/// and `by_id` where there are such. IO where the system does not tell.
pub fn list() -> Result<Vec<Value>> {
    Ok(entries(&hardware()?, Path::new(BY_ID)))
}

/// The ports that have hardware behind them, by path.
pub(super) fn hardware() -> Result<Vec<SerialPortInfo>> {
    // The library panics without it, and a container may well not have it.
    if cfg!(target_os = "linux") && !Path::new(CLASS).is_dir() {
        return Ok(Vec::new());
    }
    let ports = serialport::available_ports()
        .map_err(|error| Error::new(Kind::Io, format!("the list of serial ports: {error}")))?;
    Ok(with_hardware(ports, Path::new(CLASS)))
}

fn with_hardware(mut ports: Vec<SerialPortInfo>, class: &Path) -> Vec<SerialPortInfo> {
    ports.retain(|port| has_hardware(&port.port_name, class));
    ports.sort_by(|a, b| a.port_name.cmp(&b.port_name));
    ports
}

fn entries(ports: &[SerialPortInfo], by_id: &Path) -> Vec<Value> {
    let links = links(by_id);
    ports.iter().map(|port| entry(port, ports, &links)).collect()
}

/// Linux makes ttyS0 and so on for hardware that may be there; those of type 0 turned out to have none.
fn has_hardware(path: &str, class: &Path) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = fs::read_to_string(class.join(name).join("type")).unwrap_or_default();
    !(name.starts_with("ttyS") && kind.trim() == "0")
}

/// The links in a folder and what each leads to, by name.
fn links(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut links: Vec<_> =
        entries.filter_map(|link| Some((link.clone(), link.canonicalize().ok()?))).collect();
    links.sort();
    links
}

fn entry(port: &SerialPortInfo, all: &[SerialPortInfo], links: &[(PathBuf, PathBuf)]) -> Value {
    let real = Path::new(&port.port_name).canonicalize().ok();
    let link = links.iter().find(|(_, target)| Some(target) == real.as_ref());
    let by_id = link.and_then(|(link, _)| link.to_str());
    let path = |path: &str| PortPath::Path(path.to_owned());
    let mut entry = Map::new();
    entry.insert("path".to_owned(), port.port_name.as_str().into());
    let (kind, open_as) = match &port.port_type {
        SerialPortType::UsbPort(usb) => {
            let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Value::from);
            let members = [
                ("vid", Some(usb.vid.into())),
                ("pid", Some(usb.pid.into())),
                ("usb_id", Some(format!("{:04x}:{:04x}", usb.vid, usb.pid).into())),
                ("serial", text(&usb.serial_number)),
                ("manufacturer", text(&usb.manufacturer)),
                ("product", text(&usb.product)),
                ("interface", usb.interface.map(Value::from)),
                ("by_id", by_id.map(Value::from)),
            ];
            entry.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            ("usb", by_id.map(path).or_else(|| only(usb, all)))
        }
        SerialPortType::PciPort => ("pci", None),
        SerialPortType::BluetoothPort => ("bluetooth", None),
        SerialPortType::Unknown => ("unknown", None),
    };
    entry.insert("kind".to_owned(), kind.into());
    let open_as = open_as.unwrap_or_else(|| path(by_id.unwrap_or(&port.port_name)));
    entry.insert("open_as".to_owned(), open_as.to_json());
    json!(entry)
}

/// The numbers of a USB device where they lead to this port and no other of those that are there.
fn only(usb: &UsbPortInfo, all: &[SerialPortInfo]) -> Option<PortPath> {
    let serial = usb.serial_number.clone().filter(|serial| !serial.is_empty());
    let alike = |port: &&SerialPortInfo| match &port.port_type {
        SerialPortType::UsbPort(other) => {
            let same_serial = serial.is_none() || other.serial_number == serial;
            (other.vid, other.pid) == (usb.vid, usb.pid) && same_serial
        }
        _ => false,
    };
    let alone = all.iter().filter(alike).count() == 1;
    alone.then_some(PortPath::Usb { vid: usb.vid, pid: usb.pid, serial })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usb(path: &Path, serial: Option<&str>, interface: u8) -> SerialPortInfo {
        let port_type = SerialPortType::UsbPort(UsbPortInfo {
            vid: 0x0403,
            pid: 0x6001,
            serial_number: serial.map(str::to_owned),
            manufacturer: Some("ACME".to_owned()),
            product: Some(String::new()),
            interface: Some(interface),
        });
        SerialPortInfo { port_name: path.to_str().unwrap().to_owned(), port_type }
    }

    fn other(path: &Path, port_type: SerialPortType) -> SerialPortInfo {
        SerialPortInfo { port_name: path.to_str().unwrap().to_owned(), port_type }
    }

    #[test]
    fn this_machine_can_be_asked() {
        for port in list().unwrap() {
            let path = port["path"].as_str().unwrap();
            assert!(!path.is_empty() && port["kind"].is_string() && port["open_as"].is_object(), "{port}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn ports_have_their_stable_names_and_those_without_hardware_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (dev, class, by_id) = (root.join("dev"), root.join("class"), root.join("dev/serial/by-id"));
        fs::create_dir_all(&by_id).unwrap();
        for (name, kind) in [("ttyS0", "4\n"), ("ttyS1", "0\n"), ("ttyUSB0", "0\n"), ("ttyUSB1", "0\n")] {
            fs::create_dir_all(class.join(name)).unwrap();
            fs::write(class.join(name).join("type"), kind).unwrap();
            fs::write(dev.join(name), "").unwrap();
        }
        for (link, target) in [("usb-b", "../../ttyUSB0"), ("usb-a", "../../ttyUSB0"), ("gone", "../../none")]
        {
            std::os::unix::fs::symlink(target, by_id.join(link)).unwrap();
        }
        let ports = vec![
            usb(&dev.join("ttyUSB1"), Some("A1"), 0),
            usb(&dev.join("ttyUSB0"), None, 1),
            other(&dev.join("ttyS1"), SerialPortType::Unknown),
            other(&dev.join("ttyS0"), SerialPortType::PciPort),
        ];
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (s0, usb0, usb1) =
            (path(dev.join("ttyS0")), path(dev.join("ttyUSB0")), path(dev.join("ttyUSB1")));
        let link = path(by_id.join("usb-a"));
        let ports = with_hardware(ports, &class);
        let told = entries(&ports, &by_id);
        let wanted = json!([
            {"path": s0, "kind": "pci", "open_as": {"path": s0}},
            {"path": usb0, "kind": "usb", "vid": 0x0403, "pid": 0x6001, "usb_id": "0403:6001", "manufacturer": "ACME",
             "interface": 1, "by_id": link, "open_as": {"path": link}},
            {"path": usb1, "kind": "usb", "vid": 0x0403, "pid": 0x6001, "usb_id": "0403:6001", "serial": "A1",
             "manufacturer": "ACME", "interface": 0,
             "open_as": {"usb": {"vid": 0x0403, "pid": 0x6001, "serial": "A1"}}},
        ]);
        assert_eq!(Value::from(told), wanted);
        // Without links the one with a number of its own is still told from the other, which has nothing but its path.
        let told = entries(&ports, &root.join("none"));
        let open_as: Vec<&Value> = told.iter().map(|port| &port["open_as"]).collect();
        assert_eq!(open_as[2], &json!({"path": usb0}));
        assert_eq!(open_as[3], &json!({"usb": {"vid": 0x0403, "pid": 0x6001, "serial": "A1"}}));
    }
}
