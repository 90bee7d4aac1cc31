//! From what the settings call a port to what the system calls it.

use std::path::Path;

use serialport::{SerialPortInfo, SerialPortType};

use super::list::hardware;
use crate::config::serial::PortPath;
use crate::{Error, Kind, Result};

/// Where a port was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What to open.
    pub path: String,
    /// The device itself, whatever links lead to it.
    pub device: String,
}

/// Looks a port up, without opening it, and refuses what cannot be one: opening a FIFO would wait, and serial software
/// has been seen to open, or even make, a file called COM10.
pub(super) fn find(port: &PortPath) -> Result<Found> {
    match port {
        PortPath::Path(path) if cfg!(windows) => {
            let name = windows_name(path)?;
            Ok(Found { device: name.clone(), path: name })
        }
        PortPath::Path(path) => file(path),
        PortPath::Usb { .. } => {
            let ports = hardware()?;
            let path = usb(port, &ports).ok_or_else(|| {
                let text = format!("{port}: no such device is plugged in; serial.list tells what there is");
                Error::new(Kind::NotFound, text)
            })?;
            if cfg!(windows) { Ok(Found { device: path.clone(), path }) } else { file(&path) }
        }
        PortPath::SimLoop => Err(Error::new(Kind::Internal, "a simulation has no path")),
    }
}

/// The path of the first port of the device.
fn usb(wanted: &PortPath, ports: &[SerialPortInfo]) -> Option<String> {
    let PortPath::Usb { vid, pid, serial } = wanted else { return None };
    let fits = |port: &&SerialPortInfo| match &port.port_type {
        SerialPortType::UsbPort(usb) => {
            (usb.vid, usb.pid) == (*vid, *pid) && (serial.is_none() || usb.serial_number == *serial)
        }
        _ => false,
    };
    ports.iter().find(fits).map(|port| port.port_name.clone())
}

/// Checks a path on Unix.
fn file(path: &str) -> Result<Found> {
    let invalid = |what: &str| {
        let text = format!("{path} is {what}, no serial port; serial.list tells what there is");
        Err(Error::new(Kind::InvalidArgument, text))
    };
    if path.is_empty() || path.contains('\0') {
        let text = format!("path {path:?}: expected the path of a device");
        return Err(Error::new(Kind::InvalidArgument, text));
    }
    let kind = match std::fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing(path)),
        Err(error) => return Err(Error::io(path, &error)),
    };
    if kind.is_dir() {
        return invalid("a folder");
    }
    if kind.is_file() {
        return invalid("a file");
    }
    #[cfg(unix)]
    if !std::os::unix::fs::FileTypeExt::is_char_device(&kind) {
        return invalid("a pipe, socket or disk");
    }
    let device = std::fs::canonicalize(path).map_err(|error| Error::io(path, &error))?;
    Ok(Found { path: path.to_owned(), device: device.to_string_lossy().into_owned() })
}

fn missing(path: &str) -> Error {
    let text = match std::fs::read_link(path) {
        Ok(target) => format!("{path} leads to {}, which is not there", target.display()),
        Err(_) if !Path::new(path).is_absolute() => {
            format!("{path} is not there; ports have paths such as /dev/ttyUSB0, serial.list tells them")
        }
        Err(_) => format!("{path} is not there; is the device plugged in? serial.list tells what is"),
    };
    Error::new(Kind::NotFound, text)
}

/// The one spelling of a Windows port: `COM3`, `com3`, `COM3 `, `\\.\COM3` are the same. The library adds the prefix,
/// without which COM10 would be a file.
///
/// INVALID_ARGUMENT for what cannot be the name of a port.
pub(super) fn windows_name(path: &str) -> Result<String> {
    let invalid = |why: &str| {
        let text = format!("{path:?} is no serial port: {why}; serial.list tells what there is");
        Err(Error::new(Kind::InvalidArgument, text))
    };
    let name =
        path.strip_prefix(r"\\.\").unwrap_or(path).trim_end_matches([' ', '.', ':']).to_ascii_uppercase();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-#.".contains(c)) {
        return invalid("expected a name such as COM3");
    }
    if let Some(number) = name.strip_prefix("COM") {
        let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        if plain && !number.parse::<u16>().is_ok_and(|number| (1..=4096).contains(&number))
            || number.starts_with('0')
        {
            return invalid("numbers begin with 1");
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serialport::UsbPortInfo;

    #[test]
    fn c44_each_com_spelling_is_the_same_port() {
        for path in ["COM10", "com10", r"\\.\COM10", r"\\.\com10", "COM10 ", "COM10:"] {
            assert_eq!(windows_name(path).unwrap(), "COM10", "{path:?}");
        }
        assert_eq!(windows_name("COM3").unwrap(), "COM3");
        assert_eq!(windows_name("CNCA0").unwrap(), "CNCA0");
        for path in
            ["COM0", "COM", "", r"C:\COM3", r"\\server\COM3", "COM3/x", "COM99999", "a\0b", r"\\.\\COM3"]
        {
            assert_eq!(windows_name(path).unwrap_err().kind(), Kind::InvalidArgument, "{path:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn c44_what_is_no_device_is_told_apart_without_opening_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("COM10"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
        std::os::unix::fs::symlink("/dev/null", path("by-id")).unwrap();
        let kind = |path: &str| file(path).unwrap_err().kind();
        for (path, wanted) in [
            (path("COM10"), Kind::InvalidArgument),
            (path("."), Kind::InvalidArgument),
            (path("missing"), Kind::NotFound),
            (path("dangling"), Kind::NotFound),
            ("a\0b".to_owned(), Kind::InvalidArgument),
            (String::new(), Kind::InvalidArgument),
        ] {
            assert_eq!(kind(&path), wanted, "{path:?}");
        }
        assert!(file(&path("dangling")).unwrap_err().message().contains("nowhere"));
        let found = Found { path: path("by-id"), device: "/dev/null".to_owned() };
        assert_eq!(file(&path("by-id")).unwrap(), found);
    }

    #[test]
    fn a_usb_device_is_found_by_its_numbers() {
        let port = |name: &str, serial: Option<&str>| SerialPortInfo {
            port_name: name.to_owned(),
            port_type: SerialPortType::UsbPort(UsbPortInfo {
                vid: 0x0403,
                pid: 0x6001,
                serial_number: serial.map(str::to_owned),
                manufacturer: None,
                product: None,
                interface: None,
            }),
        };
        let other = SerialPortInfo { port_name: "ttyS0".to_owned(), port_type: SerialPortType::PciPort };
        let ports = [other, port("ttyUSB0", None), port("ttyUSB1", Some("A1"))];
        let wanted =
            |pid, serial: Option<&str>| PortPath::Usb { vid: 0x0403, pid, serial: serial.map(str::to_owned) };
        assert_eq!(usb(&wanted(0x6001, None), &ports).as_deref(), Some("ttyUSB0"));
        assert_eq!(usb(&wanted(0x6001, Some("A1")), &ports).as_deref(), Some("ttyUSB1"));
        assert_eq!(usb(&wanted(0x6001, Some("B")), &ports), None);
        assert_eq!(usb(&wanted(0x6002, None), &ports), None);
    }
}
