//! `sim:loop`: no hardware. What is written is read, and what is injected.
//!
//! The lines are wired as in a loopback plug: RTS to CTS, DTR to DSR and CD.

use std::io;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::{Value, json};

use super::Lines;
use super::link::{Link, READS, Read};
use crate::Result;
use crate::config::serial::{LineSettings, SerialConfig};

/// The most that comes in one read.
const CHUNK: usize = 16_384;

pub(super) struct Loop {
    reads: Sender<Read>,
    dtr: bool,
    rts: bool,
}

/// A plug in no socket. Both lines are on unless the settings say otherwise, as drivers do it.
pub(super) fn open(config: &SerialConfig) -> (Loop, Receiver<Read>) {
    let (reads, receiver) = bounded(READS);
    (Loop { reads, dtr: config.dtr.unwrap_or(true), rts: config.rts.unwrap_or(true) }, receiver)
}

impl Link for Loop {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = &bytes[..bytes.len().min(CHUNK)];
        // The thread that writes is the one that reads, so that a full buffer must not hold it.
        let taken = self.reads.try_send(Read::Bytes(Instant::now(), some.to_vec()));
        Ok(taken.map_or(0, |()| some.len()))
    }

    fn set(&mut self, _: &LineSettings) -> Result<()> {
        Ok(())
    }

    fn set_lines(&mut self, lines: Lines) -> Result<()> {
        self.dtr = lines.dtr.unwrap_or(self.dtr);
        self.rts = lines.rts.unwrap_or(self.rts);
        Ok(())
    }

    fn lines(&mut self) -> Result<Value> {
        let Loop { dtr, rts, .. } = self;
        Ok(json!({"dtr": dtr, "rts": rts, "cts": rts, "dsr": dtr, "cd": dtr, "ri": false}))
    }

    fn set_break(&mut self, _: bool) -> Result<()> {
        Ok(())
    }

    fn is_sim(&self) -> bool {
        true
    }
}
