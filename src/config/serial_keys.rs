//! The keys of `[[serial]]` and of its table `usb`, also the parameters of `serial.open`.

use super::framing_keys::{FRAMING_KEYS, FramingParts, framing};
use super::keys::{Key, YES_NO, set, show_choice};
use super::serial::{Flow, Parity, PortPath, SerialConfig};
use super::value::{Raw, Read, quote, show_text};
use crate::wire::nearest;

const PARITIES: &[(&str, Parity)] = &[("none", Parity::None), ("even", Parity::Even), ("odd", Parity::Odd)];
const FLOWS: &[(&str, Flow)] =
    &[("none", Flow::None), ("software", Flow::Software), ("hardware", Flow::Hardware)];

/// The keys of each `[[serial]]`.
pub static SERIAL_KEYS: &[Key<SerialConfig>] = &[
    Key {
        table: "serial",
        name: "id",
        help: "What clients call the port; events come as serial/ID/rx/ and so on.",
        default: "none, it must be given",
        allowed: "1 to 64 of A-Z a-z 0-9 . _ -, each once in whatever case, not \"audio\"",
        example: "\"scanner\"",
        reload: true,
        set: |s, raw| {
            let id = id(raw)?;
            if id.eq_ignore_ascii_case("audio") {
                return Err(format!("{} is no id of a port", quote(&id)));
            }
            set(&mut s.id, id)
        },
        get: |s| Some(show_text(&s.id)),
    },
    Key {
        table: "serial",
        name: "path",
        help: "The device, best a link below /dev/serial/by-id, which outlives another socket; looked up anew at each opening. \"sim:loop\" needs no hardware and reads what is written.",
        default: "none, either path or usb must be given",
        allowed: "a path, a name such as COM3, or \"sim:loop\"",
        example: "\"/dev/ttyUSB0\"",
        reload: true,
        set: |s, raw| set(&mut s.port, port_path(raw.text()?)?),
        get: |s| match &s.port {
            PortPath::Path(path) => Some(show_text(path)),
            PortPath::SimLoop => Some(show_text("sim:loop")),
            PortPath::Usb { .. } => None,
        },
    },
    Key {
        table: "serial",
        name: "usb",
        help: "The first port of a USB device with these numbers, instead of path.",
        default: "none, either path or usb must be given",
        allowed: "a table of vid, pid and perhaps serial",
        example: "{ vid = 0x0403, pid = 0x6001, serial = \"A1\" }",
        reload: true,
        set: |s, raw| set(&mut s.port, parts(USB_KEYS, raw, Usb::default())?.port()?),
        get: |s| match &s.port {
            PortPath::Usb { vid, pid, serial } => {
                let usb = Usb { vid: Some(*vid), pid: Some(*pid), serial: serial.clone() };
                Some(show_parts(USB_KEYS, &usb))
            }
            _ => None,
        },
    },
    Key {
        table: "serial",
        name: "baud",
        help: "Bits a second.",
        default: "9600",
        allowed: "an integer from 50 to 4000000, a usual one unless any_baud",
        example: "115200",
        reload: true,
        set: |s, raw| set(&mut s.line.baud, raw.integer(50, 4_000_000)? as u32),
        get: |s| Some(s.line.baud.to_string()),
    },
    Key {
        table: "serial",
        name: "any_baud",
        help: "Whether a rate that is not usual is taken; the hardware may still refuse it or come near it only.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: true,
        set: |s, raw| set(&mut s.line.any_baud, raw.bool()?),
        get: |s| Some(s.line.any_baud.to_string()),
    },
    Key {
        table: "serial",
        name: "data_bits",
        help: "Bits in a character.",
        default: "8",
        allowed: "an integer from 5 to 8",
        example: "7",
        reload: true,
        set: |s, raw| set(&mut s.line.data_bits, raw.integer(5, 8)? as u8),
        get: |s| Some(s.line.data_bits.to_string()),
    },
    Key {
        table: "serial",
        name: "parity",
        help: "The parity bit.",
        default: "\"none\"",
        allowed: "\"none\", \"even\" or \"odd\"",
        example: "\"even\"",
        reload: true,
        set: |s, raw| set(&mut s.line.parity, raw.choice(PARITIES)?),
        get: |s| show_choice(PARITIES, &s.line.parity),
    },
    Key {
        table: "serial",
        name: "stop_bits",
        help: "Stop bits after a character.",
        default: "1",
        allowed: "1 or 2",
        example: "2",
        reload: true,
        set: |s, raw| set(&mut s.line.stop_bits, raw.integer(1, 2)? as u8),
        get: |s| Some(s.line.stop_bits.to_string()),
    },
    Key {
        table: "serial",
        name: "flow",
        help: "Flow control: none, XON and XOFF (which then cannot be data), or RTS and CTS.",
        default: "\"none\"",
        allowed: "\"none\", \"software\" or \"hardware\"",
        example: "\"hardware\"",
        reload: true,
        set: |s, raw| set(&mut s.line.flow, raw.choice(FLOWS)?),
        get: |s| show_choice(FLOWS, &s.line.flow),
    },
    Key {
        table: "serial",
        name: "dtr",
        help: "The DTR line after opening; some devices reset when it changes.",
        default: "not set: as the driver leaves it",
        allowed: YES_NO,
        example: "true",
        reload: true,
        set: |s, raw| set(&mut s.dtr, Some(raw.bool()?)),
        get: |s| s.dtr.map(|on| on.to_string()),
    },
    Key {
        table: "serial",
        name: "rts",
        help: "The RTS line after opening.",
        default: "not set: as the driver leaves it",
        allowed: YES_NO,
        example: "false",
        reload: true,
        set: |s, raw| set(&mut s.rts, Some(raw.bool()?)),
        get: |s| s.rts.map(|on| on.to_string()),
    },
    Key {
        table: "serial",
        name: "framing",
        help: "How bytes that are read become frames.",
        default: "\"line\"",
        allowed: "\"line\", \"raw\" or a table",
        example: "{ line = \"any\", max = 4096 }",
        reload: true,
        set: |s, raw| set(&mut s.framing, framing(raw)?),
        get: |s| Some(show_parts(FRAMING_KEYS, &FramingParts::of(&s.framing))),
    },
];

/// The keys of `usb`.
pub static USB_KEYS: &[Key<Usb>] = &[
    Key {
        table: "usb",
        name: "vid",
        help: "The vendor's number.",
        default: "none, it must be given",
        allowed: "an integer from 0 to 65535, or its four hexadecimal digits as text",
        example: "0x0403",
        reload: true,
        set: |usb, raw| set(&mut usb.vid, Some(usb_number(raw)?)),
        get: |usb| usb.vid.map(|number| format!("{number:#06x}")),
    },
    Key {
        table: "usb",
        name: "pid",
        help: "The product's number.",
        default: "none, it must be given",
        allowed: "an integer from 0 to 65535, or its four hexadecimal digits as text",
        example: "\"6001\"",
        reload: true,
        set: |usb, raw| set(&mut usb.pid, Some(usb_number(raw)?)),
        get: |usb| usb.pid.map(|number| format!("{number:#06x}")),
    },
    Key {
        table: "usb",
        name: "serial",
        help: "The device's own serial number.",
        default: "not set: any",
        allowed: "text",
        example: "\"A1\"",
        reload: true,
        set: |usb, raw| set(&mut usb.serial, Some(some_text(raw)?.to_owned())),
        get: |usb| usb.serial.as_deref().map(show_text),
    },
];

/// `usb` as it is written.
#[derive(Clone, Debug, Default)]
pub struct Usb {
    vid: Option<u16>,
    pid: Option<u16>,
    serial: Option<String>,
}

impl Usb {
    fn port(self) -> Read<PortPath> {
        match (self.vid, self.pid) {
            (Some(vid), Some(pid)) => Ok(PortPath::Usb { vid, pid, serial: self.serial }),
            (None, _) => Err("vid is missing".to_owned()),
            (_, None) => Err("pid is missing".to_owned()),
        }
    }
}

/// What clients call a thing.
pub(super) fn id(raw: &Raw) -> Read<String> {
    let id = raw.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if id.is_empty() || id.len() > 64 || !id.chars().all(plain) {
        return Err(format!("{} is no id", quote(id)));
    }
    Ok(id.to_owned())
}

/// Whether what must be given is, where `given` tells it of a key.
pub(super) fn complete(given: impl Fn(&str) -> bool) -> Read<()> {
    match (given("id"), given("path"), given("usb")) {
        (false, ..) => Err("id: it must be given".to_owned()),
        (_, false, false) => Err("path: either path or usb must be given".to_owned()),
        (_, true, true) => Err("usb: give either path or usb".to_owned()),
        _ => Ok(()),
    }
}

/// Reads one value into `target`; the error begins with the name.
pub(super) fn apply<T>(keys: &[Key<T>], name: &str, raw: &Raw, target: &mut T) -> Read<()> {
    let Some(key) = keys.iter().find(|key| key.name == name) else {
        let hint = match nearest(name, keys.iter().map(|key| key.name)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")),
        };
        return Err(format!("{}: no such key; {hint}", name.escape_debug().take(100).collect::<String>()));
    };
    (key.set)(target, raw).map_err(|reason| format!("{name}: {reason}; allowed: {}", key.allowed))
}

/// Reads a table within a value.
pub(super) fn parts<T>(keys: &[Key<T>], raw: &Raw, mut target: T) -> Read<T> {
    let Raw::Table(table) = raw else { return Err(format!("{} where a table is expected", raw.show())) };
    table.iter().try_for_each(|(name, value)| apply(keys, name, value, &mut target))?;
    Ok(target)
}

fn show_parts<T>(keys: &[Key<T>], parts: &T) -> String {
    let given = keys.iter().filter_map(|key| Some(format!("{} = {}", key.name, (key.get)(parts)?)));
    format!("{{ {} }}", given.collect::<Vec<_>>().join(", "))
}

fn port_path(text: &str) -> Read<PortPath> {
    match text.strip_prefix("sim:") {
        Some("loop") => Ok(PortPath::SimLoop),
        Some(_) => Err(format!("{} is no simulated port, there is sim:loop", quote(text))),
        None if text.is_empty() || text.len() > 4096 || text.contains(char::is_control) => {
            Err(format!("{} is no path", quote(text)))
        }
        None => Ok(PortPath::Path(text.to_owned())),
    }
}

fn some_text(raw: &Raw) -> Read<&str> {
    match raw.text()? {
        text if text.is_empty() || text.len() > 255 => Err(format!("{} is no serial number", quote(text))),
        text => Ok(text),
    }
}

fn usb_number(raw: &Raw) -> Read<u16> {
    match raw {
        Raw::Text(text) => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let plain = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u16::from_str_radix(digits, 16).ok().filter(|_| plain);
            number.ok_or_else(|| format!("{} is no number of a USB device", quote(text)))
        }
        raw => Ok(raw.integer(0, 0xffff)? as u16),
    }
}
