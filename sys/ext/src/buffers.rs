//! Short messages must not keep large receive buffers alive.
//!
//! libzmq 4.3.5 takes a buffer of some 18 KiB for each read from a connection, and messages of 34 to 8,191 bytes refer to
//! their place in it (`shared_message_memory_allocator`). Messages that came singly and wait in a queue keep a buffer each:
//! 100,000 of them, of 100 bytes, hold 1.8 GB.

use crate::Incoming;

/// Shorter messages are in `zmq_msg_t` itself, longer ones have memory of their own.
const IN_BUFFER: std::ops::Range<usize> = 34..8192;
/// With so many frames in a buffer it may stay: a frame then holds about a KiB at most.
const CROWDED: u32 = 16;

/// Copies frames out of receive buffers that few share.
#[derive(Debug, Default)]
pub struct ReceiveBuffers {
    /// Where the last frame was.
    last: usize,
    /// Frames seen in its buffer, and in the one before it.
    frames: [u32; 2],
    /// Whether there are many in this one, by a guess from the two before it: between two full buffers there is a frame
    /// that was cut by the end of one, and has memory of its own.
    crowded: bool,
}

impl ReceiveBuffers {
    /// Gives the bytes of a message memory of their own, if it would keep a buffer nearly for itself. What else belongs to
    /// it, such as its peer's address, may be lost.
    pub fn leave(&mut self, message: &mut [Incoming]) {
        for frame in message {
            let bytes = frame.bytes();
            if !IN_BUFFER.contains(&bytes.len()) {
                continue;
            }
            let here = bytes.as_ptr() as usize;
            if here.wrapping_sub(self.last) < IN_BUFFER.end {
                self.frames[0] += 1;
            } else {
                self.crowded = self.frames.iter().any(|count| *count >= CROWDED);
                self.frames = [1, self.frames[0]];
            }
            self.last = here;
            if !self.crowded {
                frame.detach();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resident memory of this process, in bytes.
    fn memory() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn messages_that_come_singly_take_little_memory() {
        let context = zmq::Context::new();
        let mut pull = context.socket(zmq::PULL).unwrap();
        pull.bind("tcp://127.0.0.1:*").unwrap();
        let push = context.socket(zmq::PUSH).unwrap();
        push.connect(&pull.get_last_endpoint().unwrap().unwrap()).unwrap();
        let mut buffers = ReceiveBuffers::default();
        let mut kept = Vec::new();
        let before = memory();
        for number in 0..5000_u32 {
            let text = format!("{number:0100}");
            push.send(&text, 0).unwrap();
            let mut frame = Incoming::new();
            frame.receive(&mut pull, 0).unwrap();
            buffers.leave(std::slice::from_mut(&mut frame));
            assert_eq!(frame.bytes(), text.as_bytes());
            kept.push(frame);
        }
        let each = memory().saturating_sub(before) / kept.len();
        assert!(each < 1024, "{each} bytes for a message of 100");
        for (number, frame) in kept.iter().enumerate() {
            assert_eq!(frame.bytes(), format!("{number:0100}").as_bytes());
        }
    }
}
