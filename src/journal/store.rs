//! The journal as its users see it: append, roll, positions, figures.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::frame::{Frame, Header, MAX_BODY};
use super::recovery::{self, Recovery};
use super::segment::{self, Segment};
use super::snapshot::{Consumer, Producer, Snapshot};
use super::sync::SyncState;
use super::{Options, Position, Reader, sync};
use crate::util::{guard, make_dir, now};
use crate::{Error, Kind, Result};

/// Frames kept in memory for readers that keep up, in bytes. A sink that stalls for longer reads from
/// disk, which is the page cache as a rule.
const RECENT_BYTES: usize = 8 << 20;

/// A durable append-only log. All methods may be called from any thread.
pub struct Journal {
    pub(super) options: Options,
    /// Held while a frame is written, so that a slow disk keeps nobody from reading or asking.
    writer: Mutex<Writer>,
    pub(super) shared: Mutex<Shared>,
    /// Something was appended, or readers shall look at something else.
    pub(super) grown: Condvar,
    pub(super) sync: Arc<SyncState>,
    sync_thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) counters: Counters,
    /// Held as long as the journal is open.
    _lock: File,
}

pub(super) struct Writer {
    file: Arc<File>,
    salt: u32,
    base: Position,
    len: u64,
    /// A failed write that could not be taken back, or a failed sync: go on in a new segment.
    roll: bool,
    /// When the segment was begun.
    begun: Instant,
    /// The last append found the journal full, so that the next one does not wait for room again.
    pub full: bool,
    closed: bool,
}

/// What readers and askers see; held only briefly.
pub(super) struct Shared {
    /// Oldest first; the last one is being appended to.
    pub segments: VecDeque<Segment>,
    pub recent: VecDeque<Arc<Frame>>,
    recent_bytes: usize,
    /// From here on `recent` lacks nothing.
    pub recent_from: Position,
    pub end: Position,
    pub snapshot: Snapshot,
    /// Consumers that hold back retention.
    pub holding: std::collections::BTreeSet<String>,
    pub wakes: u64,
    pub closed: bool,
}

#[derive(Default)]
pub(super) struct Counters {
    frames: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    pub removed_segments: AtomicU64,
    forgotten_producers: AtomicU64,
}

/// Figures of a journal; counts are of this run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Stats {
    /// Frames appended.
    pub frames: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Batches refused because of a full or failing disk.
    pub refused: u64,
    /// The oldest position that can still be read.
    pub start: Position,
    /// Where the next frame goes.
    pub end: Position,
    /// What lies before this is synced.
    pub durable: Position,
    /// Segments on disk.
    pub segments: usize,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Segments removed by retention.
    pub removed_segments: u64,
    /// Producers known.
    pub producers: usize,
    /// Producers forgotten because they were unused for long, or too many.
    pub forgotten_producers: u64,
    /// Syncs done.
    pub syncs: u64,
    /// Syncs that failed; each began a new segment.
    pub failed_syncs: u64,
    /// How long the last sync took, in microseconds.
    pub last_sync_us: u64,
}

impl Journal {
    /// Opens or makes the journal in `options.dir` and tells what was found.
    ///
    /// Reads the newest snapshot and what follows, so that it takes no longer for a longer backlog.
    ///
    /// # Errors
    /// ADDR_IN_USE when another process has it open, PERMISSION, DISK_FULL or IO when the directory
    /// cannot be used.
    pub fn open(options: Options) -> Result<(Arc<Journal>, Recovery)> {
        let dir = options.dir.clone();
        let failed = |error| Error::io(format!("journal {}", dir.display()), &error);
        make_dir(&dir, 0o700).map_err(failed)?;
        let lock = lock(&dir)?;
        let recovered = recovery::recover(&dir)?;
        let (file, active) =
            segment::create(&dir, recovered.next, &recovered.snapshot, now()).map_err(failed)?;
        for base in recovered.empty {
            std::fs::remove_file(segment::path(&dir, base)).map_err(failed)?;
        }
        let file = Arc::new(file);
        let end = active.end();
        let writer = Writer {
            file: file.clone(),
            salt: active.salt,
            base: active.base,
            len: active.len,
            roll: false,
            begun: Instant::now(),
            full: false,
            closed: false,
        };
        let mut segments: VecDeque<Segment> = recovered.segments.into();
        segments.push_back(active);
        let journal = Arc::new(Journal {
            writer: Mutex::new(writer),
            shared: Mutex::new(Shared {
                segments,
                recent: VecDeque::new(),
                recent_bytes: 0,
                recent_from: end,
                end,
                snapshot: recovered.snapshot,
                holding: Default::default(),
                wakes: 0,
                closed: false,
            }),
            grown: Condvar::new(),
            sync: Arc::new(SyncState::new(end)),
            sync_thread: Mutex::new(None),
            counters: Counters::default(),
            options,
            _lock: lock,
        });
        *guard(&journal.sync_thread) = Some(sync::spawn(&journal)?);
        Ok((journal, recovered.report))
    }

    /// Writes `body` as one frame. When this returns, the frame outlives the process; `urgent` starts a
    /// sync at once, otherwise one starts within [`Options::sync_interval`].
    ///
    /// Waits for the disk, and for other appends.
    ///
    /// # Errors
    /// DISK_FULL when there is no space, or when a consumer has not yet read what would have to be
    /// removed; IO; TOO_LARGE; CLOSED. Nothing of the batch is then in the journal.
    pub fn append(&self, header: &Header, body: &[u8], urgent: bool) -> Result<Arc<Frame>> {
        if body.len() > MAX_BODY {
            return Err(Error::new(
                Kind::TooLarge,
                format!("a batch of {} bytes; the most is {MAX_BODY}", body.len()),
            ));
        }
        let mut writer = guard(&self.writer);
        let appended = self.write(&mut writer, header, body);
        let frame = match appended {
            Ok(frame) => Arc::new(frame),
            Err(error) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        self.counters.frames.fetch_add(1, Ordering::Relaxed);
        self.counters.records.fetch_add(header.records.into(), Ordering::Relaxed);
        self.counters.bytes.fetch_add(frame.bytes().len() as u64, Ordering::Relaxed);
        self.publish(&frame);
        self.sync.written(&writer.file, frame.end, urgent);
        Ok(frame)
    }

    fn write(&self, writer: &mut Writer, header: &Header, body: &[u8]) -> Result<Frame> {
        if writer.closed {
            return Err(Error::new(Kind::Closed, "the journal is closed"));
        }
        if self.sync.take_failure() {
            writer.roll = true;
        }
        // A segment that is never full would never be old enough to go.
        let old = writer.begun.elapsed() >= self.options.max_age / 8;
        if writer.roll || old || writer.len >= self.options.segment_limit() {
            self.roll(writer)?;
        }
        let frame = Frame::new(writer.base + writer.len, writer.salt, header, body);
        self.wait_for_room(writer, frame.bytes().len() as u64)?;
        let mut result = (&*writer.file).write_all(frame.bytes());
        while let Err(error) = &result
            && error.kind() == std::io::ErrorKind::StorageFull
            && self.take_back(writer)
            && self.remove_oldest()
        {
            result = (&*writer.file).write_all(frame.bytes());
        }
        if let Err(error) = result {
            if !self.take_back(writer) {
                writer.roll = true;
            }
            return Err(Error::io(format!("journal {}", self.options.dir.display()), &error));
        }
        writer.len += frame.bytes().len() as u64;
        Ok(frame)
    }

    /// Cuts off what a failed write left, so that the next frame follows the last intact one.
    fn take_back(&self, writer: &Writer) -> bool {
        writer.file.set_len(writer.len).is_ok() && (&*writer.file).seek(SeekFrom::Start(writer.len)).is_ok()
    }

    /// Begins a new segment, headed by all that is known.
    fn roll(&self, writer: &mut Writer) -> Result<()> {
        let base = writer.base + writer.len;
        let snapshot = {
            let mut shared = guard(&self.shared);
            let forgotten = shared.snapshot.forget(now());
            self.counters.forgotten_producers.fetch_add(forgotten as u64, Ordering::Relaxed);
            shared.snapshot.clone()
        };
        let (file, segment) = loop {
            match segment::create(&self.options.dir, base, &snapshot, now()) {
                Ok(created) => break created,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull && self.remove_oldest() => {}
                Err(error) => {
                    return Err(Error::io(format!("journal {}", self.options.dir.display()), &error));
                }
            }
        };
        *writer = Writer {
            file: Arc::new(file),
            salt: segment.salt,
            base,
            len: segment.len,
            roll: false,
            begun: Instant::now(),
            ..*writer
        };
        let mut shared = guard(&self.shared);
        shared.end = segment.end();
        shared.segments.push_back(segment);
        drop(shared);
        self.retain();
        Ok(())
    }

    /// Gives a written frame to readers.
    fn publish(&self, frame: &Arc<Frame>) {
        let mut shared = guard(&self.shared);
        shared.end = frame.end;
        shared.snapshot.note(&frame.header);
        if let Some(segment) = shared.segments.back_mut() {
            segment.len = frame.end - segment.base;
            segment.newest = frame.header.received;
        }
        shared.recent_bytes += frame.bytes().len();
        shared.recent.push_back(frame.clone());
        while shared.recent_bytes > RECENT_BYTES
            && let Some(oldest) = shared.recent.pop_front()
        {
            shared.recent_bytes -= oldest.bytes().len();
            shared.recent_from = oldest.end;
        }
        drop(shared);
        self.grown.notify_all();
    }

    /// The most that all segments may take, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.options.max_bytes
    }

    /// Where the next frame goes. Positions of frames may jump: one is never before the end of another.
    pub fn end(&self) -> Position {
        guard(&self.shared).end
    }

    /// The oldest position that can still be read.
    pub fn start(&self) -> Position {
        let shared = guard(&self.shared);
        shared.segments.front().map_or(shared.end, |segment| segment.base)
    }

    /// Where each segment begins, oldest first; a reader may begin at any of them.
    pub fn segment_starts(&self) -> Vec<Position> {
        guard(&self.shared).segments.iter().map(|segment| segment.base).collect()
    }

    /// What lies before this is synced.
    pub fn durable(&self) -> Position {
        self.sync.durable()
    }

    /// Waits until all before `position` is synced; false when the time passed or a sync failed first.
    pub fn wait_durable(&self, position: Position, timeout: Duration) -> bool {
        self.sync.wait(position, Instant::now() + timeout)
    }

    /// Bytes from `position` to the end, without the jumps between runs.
    pub fn backlog(&self, position: Position) -> u64 {
        let shared = guard(&self.shared);
        shared.segments.iter().map(|s| s.end().saturating_sub(position.max(s.base))).sum()
    }

    /// What the journal holds of a producer's numbering.
    pub fn producer(&self, id: &[u8; 16]) -> Option<Producer> {
        guard(&self.shared).snapshot.producers.get(id).copied()
    }

    /// A reader that begins with the first frame at or after `from`.
    pub fn reader(self: &Arc<Self>, from: Position) -> Reader {
        Reader::new(self.clone(), from)
    }

    /// Notes how far `consumer` has read. From the first call on its position holds back retention.
    /// `detail` is what it needs to go on there; both are repeated at the head of each segment.
    pub fn set_position(&self, consumer: &str, position: Position, detail: Vec<u8>) {
        let mut shared = guard(&self.shared);
        shared.holding.insert(consumer.to_owned());
        shared.snapshot.consumers.insert(consumer.to_owned(), Consumer { position, detail });
    }

    /// Forgets a consumer, which then holds nothing back.
    pub fn remove_position(&self, consumer: &str) {
        let mut shared = guard(&self.shared);
        shared.holding.remove(consumer);
        shared.snapshot.consumers.remove(consumer);
    }

    /// What is known of a consumer: from [`Journal::set_position`], or from the snapshot found at start.
    pub fn recovered_position(&self, consumer: &str) -> Option<(Position, Vec<u8>)> {
        let shared = guard(&self.shared);
        shared.snapshot.consumers.get(consumer).map(|known| (known.position, known.detail.clone()))
    }

    /// The consumers known.
    pub fn consumers(&self) -> Vec<String> {
        guard(&self.shared).snapshot.consumers.keys().cloned().collect()
    }

    /// Makes all waiting readers return, so that their threads look at what else they have to do.
    pub fn wake(&self) {
        guard(&self.shared).wakes += 1;
        self.grown.notify_all();
    }

    /// Ends as a killed process would: nothing more is written.
    #[cfg(test)]
    pub(crate) fn crash(&self) {
        guard(&self.writer).closed = true;
    }

    /// Figures for people and monitors.
    pub fn stats(&self) -> Stats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = guard(&self.shared);
        Stats {
            frames: count(&self.counters.frames),
            records: count(&self.counters.records),
            bytes: count(&self.counters.bytes),
            refused: count(&self.counters.refused),
            start: shared.segments.front().map_or(shared.end, |segment| segment.base),
            end: shared.end,
            durable: self.sync.durable(),
            segments: shared.segments.len(),
            disk_bytes: shared.segments.iter().map(|segment| segment.len).sum(),
            removed_segments: count(&self.counters.removed_segments),
            producers: shared.snapshot.producers.len(),
            forgotten_producers: count(&self.counters.forgotten_producers),
            syncs: self.sync.syncs(),
            failed_syncs: self.sync.failures(),
            last_sync_us: self.sync.last_us(),
        }
    }

    /// Syncs what was written and takes nothing more. Readers read on to the end. Waits for the disk.
    pub fn close(&self) -> Result<()> {
        let file = {
            let mut writer = guard(&self.writer);
            let file = writer.file.clone();
            if !writer.closed {
                // A last snapshot, so that the newest positions are known even if the consumers' own
                // checkpoints are lost. Without space for it there are these checkpoints.
                let _ = self.roll(&mut writer);
                writer.closed = true;
            }
            file
        };
        self.sync.stop();
        // The sync thread itself may be the one that lets the last reference go.
        if let Some(thread) = guard(&self.sync_thread).take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        guard(&self.shared).closed = true;
        self.grown.notify_all();
        file.sync_data().map_err(|error| Error::io(format!("journal {}", self.options.dir.display()), &error))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let failed = |error| Error::io(path.display(), &error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            Kind::AddrInUse,
            format!("journal {}: another process has it open; is another gateway running?", dir.display()),
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
