//! Real ports, through the `serialport` crate. What that crate leaves to its users is dealt with here and nowhere else:
//!
//! - A write on Unix waits until everything is taken, for ever if nothing is: the file is made non-blocking.
//! - A wait for bytes holds up a write on Windows: there it is short.
//! - `flush` may wait for ever: it is never called; closing asks how much is left instead.
//! - Dropping any clone takes the exclusive mode from all: both halves are dropped together.
//! - Parity and data bits that a driver does not take are not told: they are read back.
//! - Busy, and on Windows also missing, is "no device": told apart by what the system lists.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use serde_json::{Value, json};
use serialport::{ClearBuffer, DataBits, ErrorKind, FlowControl, SerialPort, StopBits};

use super::Lines;
use super::link::{Link, READS, Read, WRITE_SLICE};
use crate::config::serial::{Flow, LineSettings, Parity, SerialConfig};
use crate::{Error, Kind, Result};

#[cfg(windows)]
type Port = serialport::COMPort;
#[cfg(unix)]
type Port = serialport::TTYPort;

/// How long a wait for bytes lasts. On Windows a write waits for it.
const READ_WAIT: Duration = Duration::from_millis(if cfg!(windows) { 10 } else { 100 });
/// The most that is read at once.
const CHUNK: usize = 16_384;
/// The most that is written at once: what fits the drivers' buffers, so that time-outs are met.
const SLICE: usize = 4096;
/// How long closing waits for the last bytes while the device takes some, and while it takes none.
const LAST_BYTES: Duration = Duration::from_secs(2);
const NO_PROGRESS: Duration = Duration::from_millis(300);

/// A real port that is open.
pub(super) struct Native {
    port: Port,
    path: String,
    dtr: Option<bool>,
    rts: Option<bool>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

/// Opens `path`, for this process alone, and starts to read.
pub(super) fn open(path: &str, config: &SerialConfig) -> Result<(Native, Receiver<Read>)> {
    let line = &config.line;
    let mut builder = serialport::new(path, line.baud)
        .data_bits(data_bits(line))
        .parity(parity(line))
        .stop_bits(stop_bits(line))
        .flow_control(flow(line))
        .timeout(WRITE_SLICE);
    if let Some(dtr) = config.dtr {
        builder = builder.dtr_on_open(dtr);
    }
    let port = Port::open(&builder).map_err(|error| failed(path, &error))?;
    not_blocking(&port).map_err(|error| Error::io(path, &error))?;
    let mut reading = port.try_clone_native().map_err(|error| failed(path, &error))?;
    reading.set_timeout(READ_WAIT).map_err(|error| failed(path, &error))?;

    let stop = Arc::new(AtomicBool::new(false));
    let (sender, reads) = bounded(READS);
    let stopped = stop.clone();
    let reader = std::thread::Builder::new()
        .name(format!("{}-read", config.id))
        .spawn(move || read(reading, &stopped, &sender))
        .map_err(|error| Error::new(Kind::Internal, format!("{path}: no thread to read: {error}")))?;
    let mut native =
        Native { port, path: path.to_owned(), dtr: config.dtr, rts: None, stop, reader: Some(reader) };
    native.tell_what_was_not_taken(line);
    if let Some(error) = config.rts.and_then(|rts| native.set_rts(rts).err()) {
        log::warn!("serial {}: rts: {}", config.id, error.message());
    }
    Ok((native, reads))
}

#[cfg(unix)]
fn not_blocking(port: &Port) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::os::fd::AsRawFd;
    let flags = fcntl(port.as_raw_fd(), FcntlArg::F_GETFL)?;
    fcntl(port.as_raw_fd(), FcntlArg::F_SETFL(OFlag::from_bits_truncate(flags) | OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(windows)]
fn not_blocking(_: &Port) -> io::Result<()> {
    Ok(())
}

/// The body of the thread that reads.
fn read(mut port: Port, stop: &AtomicBool, reads: &Sender<Read>) {
    let mut buffer = vec![0; CHUNK];
    while !stop.load(Ordering::Acquire) {
        let read = match port.read(&mut buffer) {
            Ok(0) => Read::Lost("the device is gone".to_owned()),
            Ok(count) => Read::Bytes(Instant::now(), buffer[..count].to_vec()),
            Err(error) if passes(&error) => continue,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Read::Lost("the device is gone".to_owned())
            }
            Err(error) => Read::Lost(format!("reading failed: {error}")),
        };
        let last = matches!(read, Read::Lost(_));
        let mut next = Some(read);
        // A full channel is a gateway that is busy: the system's buffer fills meanwhile.
        while let Some(read) = next.take() {
            match reads.send_timeout(read, READ_WAIT) {
                Err(SendTimeoutError::Timeout(read)) if !stop.load(Ordering::Acquire) => next = Some(read),
                Err(_) => return,
                Ok(()) => {}
            }
        }
        if last {
            return;
        }
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Native {
    fn failed(&self, error: &serialport::Error) -> Error {
        failed(&self.path, error)
    }

    /// Drivers may take settings and ignore them.
    fn tell_what_was_not_taken(&self, line: &LineSettings) {
        let differs = [
            ("data_bits", self.port.data_bits().is_ok_and(|bits| bits != data_bits(line))),
            ("parity", self.port.parity().is_ok_and(|now| now != parity(line))),
            ("stop_bits", self.port.stop_bits().is_ok_and(|bits| bits != stop_bits(line))),
        ];
        for (name, _) in differs.iter().filter(|(_, differs)| *differs) {
            log::warn!("serial {}: the driver does not take {name} as set", self.path);
        }
    }

    fn set_rts(&mut self, on: bool) -> Result<()> {
        self.port.write_request_to_send(on).map_err(|error| self.failed(&error))?;
        self.rts = Some(on);
        Ok(())
    }

    /// Waits until the last bytes are out, or do not go out.
    fn drain(&self) {
        let start = Instant::now();
        let mut progress = (start, u32::MAX);
        while let Ok(left @ 1..) = self.port.bytes_to_write() {
            if left < progress.1 {
                progress = (Instant::now(), left);
            }
            if progress.0.elapsed() >= NO_PROGRESS || start.elapsed() >= LAST_BYTES {
                // Without this the system's close would wait for them, some half a minute.
                let _ = self.port.clear(ClearBuffer::Output);
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Link for Native {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.port.write(&bytes[..bytes.len().min(SLICE)]) {
            Err(error) if passes(&error) => Ok(0),
            result => result,
        }
    }

    fn set(&mut self, line: &LineSettings) -> Result<()> {
        let port = &mut self.port;
        let mut set = || {
            port.set_baud_rate(line.baud)?;
            port.set_data_bits(data_bits(line))?;
            port.set_parity(parity(line))?;
            port.set_stop_bits(stop_bits(line))?;
            port.set_flow_control(flow(line))
        };
        set().map_err(|error| self.failed(&error))?;
        self.tell_what_was_not_taken(line);
        Ok(())
    }

    fn set_lines(&mut self, lines: Lines) -> Result<()> {
        if let Some(dtr) = lines.dtr {
            self.port.write_data_terminal_ready(dtr).map_err(|error| self.failed(&error))?;
            self.dtr = Some(dtr);
        }
        lines.rts.map_or(Ok(()), |rts| self.set_rts(rts))
    }

    fn lines(&mut self) -> Result<Value> {
        let port = &mut self.port;
        let mut ask = || -> serialport::Result<Value> {
            Ok(json!({
                "dtr": self.dtr,
                "rts": self.rts,
                "cts": port.read_clear_to_send()?,
                "dsr": port.read_data_set_ready()?,
                "cd": port.read_carrier_detect()?,
                "ri": port.read_ring_indicator()?,
            }))
        };
        ask().map_err(|error| failed(&self.path, &error))
    }

    fn set_break(&mut self, on: bool) -> Result<()> {
        let done = if on { self.port.set_break() } else { self.port.clear_break() };
        done.map_err(|error| self.failed(&error))
    }

    fn is_sim(&self) -> bool {
        false
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        self.drain();
        self.stop.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// What an error of the library means. Its texts are stable: names of the system's errors.
fn failed(path: &str, error: &serialport::Error) -> Error {
    let told = |kind, text: &str| Error::new(kind, format!("{path}: {text}"));
    match error.kind() {
        ErrorKind::NoDevice if cfg!(windows) && !listed(path) => {
            told(Kind::NotFound, "there is no such port; serial.list tells what there is")
        }
        ErrorKind::NoDevice => told(Kind::Busy, "another program has it open"),
        ErrorKind::InvalidInput => told(Kind::InvalidArgument, "the driver refuses these settings"),
        ErrorKind::Io(io::ErrorKind::NotFound) => told(Kind::NotFound, "it is not there"),
        ErrorKind::Io(io::ErrorKind::PermissionDenied) => {
            Error::new(Kind::Permission, format!("{path}: no permission to open it{}", group_hint(path)))
        }
        ErrorKind::Io(kind) => Error::io(path, &io::Error::new(kind, error.to_string())),
        ErrorKind::Unknown => match error.description.as_str() {
            "Not a typewriter" | "Inappropriate ioctl for device" => {
                told(Kind::InvalidArgument, "this is no serial port, or one without such lines")
            }
            "I/O error" | "No such device" | "No such device or address" => {
                told(Kind::NoDevice, "there is no hardware behind it, or it is gone")
            }
            "Invalid argument" => told(Kind::InvalidArgument, "the driver refuses these settings"),
            text => told(Kind::Io, text),
        },
    }
}

/// Whether the system knows the port; "access denied" and "no such file" come as one error on Windows.
fn listed(name: &str) -> bool {
    super::list::hardware()
        .is_ok_and(|ports| ports.iter().any(|port| port.port_name.eq_ignore_ascii_case(name)))
}

/// Who may open a device, in words.
fn group_hint(path: &str) -> String {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        let gid = std::os::unix::fs::MetadataExt::gid(&metadata).to_string();
        let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let name = groups.lines().find_map(|line| {
            let mut parts = line.split(':');
            let name = parts.next()?;
            (parts.nth(1) == Some(&gid)).then(|| name.to_owned())
        });
        let group = name.unwrap_or(gid);
        return format!(
            "; add the gateway's user to group {group} (usermod -aG {group} USER) and start it anew"
        );
    }
    let _ = path;
    String::new()
}

fn data_bits(line: &LineSettings) -> DataBits {
    match line.data_bits {
        5 => DataBits::Five,
        6 => DataBits::Six,
        7 => DataBits::Seven,
        _ => DataBits::Eight,
    }
}

fn parity(line: &LineSettings) -> serialport::Parity {
    match line.parity {
        Parity::None => serialport::Parity::None,
        Parity::Even => serialport::Parity::Even,
        Parity::Odd => serialport::Parity::Odd,
    }
}

fn stop_bits(line: &LineSettings) -> StopBits {
    if line.stop_bits == 2 { StopBits::Two } else { StopBits::One }
}

fn flow(line: &LineSettings) -> FlowControl {
    match line.flow {
        Flow::None => FlowControl::None,
        Flow::Software => FlowControl::Software,
        Flow::Hardware => FlowControl::Hardware,
    }
}
