//! What a segment begins with: who has sent how far, and who has read how far.
//!
//! MessagePack: `[1, [[producer, epoch, last seq, used], …], [[name, position, detail], …]]`, spread over
//! frames of at most 64 KiB. Start-up reads the newest one and what follows, never the whole backlog.

use std::collections::{BTreeMap, HashMap};

use rmp::encode::{self, ByteBuf};

use super::Position;
use crate::wire::msgpack::{DecodeError, Input};

/// The form that this version writes.
const VERSION: i64 = 1;
/// Producers beyond this number are forgotten, those unused for longest first.
pub const MAX_PRODUCERS: usize = 100_000;
/// Producers unused for longer are forgotten: 30 days in nanoseconds.
const MAX_UNUSED: i64 = 30 * 24 * 3600 * 1_000_000_000;

/// The last of a producer's records that is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The epoch of that record.
    pub epoch: u64,
    /// Its sequence number.
    pub last_seq: u64,
    /// When it came, in nanoseconds since 1970 by the server's clock.
    pub used: i64,
}

/// How far a consumer has read, and what it needs to go on there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The next frame it wants.
    pub position: Position,
    /// The consumer's own state, for instance a sink's checkpoint.
    pub detail: Vec<u8>,
}

/// All that must outlive the frames before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By producer id.
    pub producers: HashMap<[u8; 16], Producer>,
    /// By consumer name.
    pub consumers: BTreeMap<String, Consumer>,
}

impl Snapshot {
    /// Notes what a frame's header says of its producer; plain clients have none.
    pub fn note(&mut self, header: &super::Header) {
        if header.producer == [0; 16] {
            return;
        }
        let new = Producer { epoch: header.epoch, last_seq: header.last_seq, used: header.received };
        let known = self.producers.entry(header.producer).or_insert(new);
        if (new.epoch, new.last_seq) >= (known.epoch, known.last_seq) {
            *known = new;
        }
    }

    /// Forgets producers long unused, and the oldest beyond the limit; tells how many.
    pub fn forget(&mut self, now: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, producer| now.saturating_sub(producer.used) <= MAX_UNUSED);
        if self.producers.len() > MAX_PRODUCERS {
            let mut used: Vec<i64> = self.producers.values().map(|producer| producer.used).collect();
            used.sort_unstable();
            let oldest_kept = used[used.len() - MAX_PRODUCERS];
            self.producers.retain(|_, producer| producer.used >= oldest_kept);
        }
        before - self.producers.len()
    }

    /// The snapshot's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = ByteBuf::new();
        // Writing into memory cannot fail; the errors are uninhabited.
        let _ = encode::write_array_len(&mut out, 3);
        let _ = encode::write_sint(&mut out, VERSION);
        let _ = encode::write_array_len(&mut out, self.producers.len() as u32);
        for (id, producer) in &self.producers {
            let _ = encode::write_array_len(&mut out, 4);
            let _ = encode::write_bin(&mut out, id);
            let _ = encode::write_bin(&mut out, &producer.epoch.to_le_bytes());
            let _ = encode::write_bin(&mut out, &producer.last_seq.to_le_bytes());
            let _ = encode::write_sint(&mut out, producer.used);
        }
        let _ = encode::write_array_len(&mut out, self.consumers.len() as u32);
        for (name, consumer) in &self.consumers {
            let _ = encode::write_array_len(&mut out, 3);
            let _ = encode::write_str(&mut out, name);
            let _ = encode::write_bin(&mut out, &consumer.position.to_le_bytes());
            let _ = encode::write_bin(&mut out, &consumer.detail);
        }
        out.into_vec()
    }

    /// Reads what [`Snapshot::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
        fn number(bytes: &[u8]) -> Result<u64, DecodeError> {
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| DecodeError::Truncated)?))
        }
        let mut input = Input::new(bytes);
        let mut snapshot = Snapshot::default();
        if input.array_len()? != 3 || input.int(0)? != VERSION {
            return Err(DecodeError::Element(0));
        }
        for _ in 0..input.array_len()? {
            input.array_len()?;
            let id = input.bin(0)?.try_into().map_err(|_| DecodeError::Element(0))?;
            let epoch = number(input.bin(1)?)?;
            let last_seq = number(input.bin(2)?)?;
            snapshot.producers.insert(id, Producer { epoch, last_seq, used: input.int(3)? });
        }
        for _ in 0..input.array_len()? {
            input.array_len()?;
            let name = input.str(0)?.to_owned();
            let position = number(input.bin(1)?)?;
            snapshot.consumers.insert(name, Consumer { position, detail: input.bin(2)?.to_vec() });
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(last_seq: u64, used: i64) -> Producer {
        Producer { epoch: 1, last_seq, used }
    }

    #[test]
    fn a_snapshot_reads_back_and_its_cuts_do_not() {
        let mut snapshot = Snapshot::default();
        for id in 0..20 {
            snapshot.producers.insert([id; 16], producer(u64::MAX - u64::from(id), -1));
        }
        snapshot.consumers.insert("gateway.log".into(), Consumer { position: 1 << 40, detail: vec![0; 300] });
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes), Ok(snapshot));
        for cut in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn producers_are_forgotten_oldest_first() {
        let mut snapshot = Snapshot::default();
        for n in 0..MAX_PRODUCERS as u128 + 10 {
            snapshot.producers.insert(n.to_le_bytes(), producer(n as u64, MAX_UNUSED + n as i64));
        }
        snapshot.producers.insert([255; 16], producer(1, 0));
        assert_eq!(snapshot.forget(2 * MAX_UNUSED), 11);
        assert!(!snapshot.producers.contains_key(&9u128.to_le_bytes()));
        assert!(snapshot.producers.contains_key(&10u128.to_le_bytes()));
    }
}
