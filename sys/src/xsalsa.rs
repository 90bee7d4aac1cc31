//! The key stream of XSalsa20: its first [`FIRST`] bytes at once, then the rest onto a text.
//!
//! The salsa20 crate computes one block at a time. On x86-64 four are computed side by side here, which
//! is what makes CURVE's throughput (README.md has figures); elsewhere the crate does the work.

use zeroize::Zeroizing;

/// Four blocks: a log line and its authenticator's key need no more.
pub(crate) const FIRST: usize = 256;

#[cfg(target_arch = "x86_64")]
pub(crate) use four::Stream;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::Stream;

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{FIRST, Zeroizing};
    use salsa20::XSalsa20;
    use salsa20::cipher::{KeyIvInit, StreamCipher};

    pub(crate) struct Stream(XSalsa20);

    impl Stream {
        /// The stream and its first bytes.
        pub(crate) fn new(key: &[u8; 32], nonce: &[u8; 24]) -> (Self, Zeroizing<[u8; FIRST]>) {
            let mut cipher = XSalsa20::new(key.into(), nonce.into());
            let mut first = Zeroizing::new([0; FIRST]);
            cipher.apply_keystream(&mut *first);
            (Self(cipher), first)
        }

        /// Applies the bytes after the first to the text. To be called once.
        pub(crate) fn apply(mut self, text: &mut [u8]) {
            self.0.apply_keystream(text);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod four {
    use super::{FIRST, Zeroizing};
    use salsa20::cipher::consts::U10;
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_loadu_si128, _mm_or_si128, _mm_set_epi32, _mm_set1_epi32, _mm_slli_epi32,
        _mm_srli_epi32, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64, _mm_xor_si128,
    };
    use zeroize::Zeroize;

    /// "expand 32-byte k"
    const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

    /// Salsa20's matrix; words 8 and 9 are the number of the next block.
    pub(crate) struct Stream([u32; 16]);

    impl Drop for Stream {
        fn drop(&mut self) {
            self.0.zeroize();
        }
    }

    impl Stream {
        /// The stream and its first bytes.
        pub(crate) fn new(key: &[u8; 32], nonce: &[u8; 24]) -> (Self, Zeroizing<[u8; FIRST]>) {
            let word = |bytes: &[u8], i: usize| {
                u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
            };
            let input: [u8; 16] = std::array::from_fn(|i| nonce[i]);
            let mut derived = salsa20::hsalsa::<U10>(key.into(), &input.into());
            let mut matrix = [0; 16];
            for i in 0..4 {
                matrix[5 * i] = CONSTANTS[i];
                matrix[1 + i] = word(&derived, i);
                matrix[11 + i] = word(&derived, 4 + i);
            }
            matrix[6] = word(nonce, 4);
            matrix[7] = word(nonce, 5);
            derived.zeroize();

            let mut stream = Self(matrix);
            let mut first = Zeroizing::new([0; FIRST]);
            stream.apply_four(&mut first);
            (stream, first)
        }

        /// Applies the bytes after the first to the text. To be called once.
        pub(crate) fn apply(mut self, text: &mut [u8]) {
            let (fours, rest) = text.as_chunks_mut();
            for four in fours {
                self.apply_four(four);
            }
            if !rest.is_empty() {
                let mut stream = Zeroizing::new([0; FIRST]);
                self.apply_four(&mut stream);
                for (byte, stream) in rest.iter_mut().zip(stream.iter()) {
                    *byte ^= stream;
                }
            }
        }

        fn apply_four(&mut self, text: &mut [u8; FIRST]) {
            // SAFETY: every x86-64 processor has SSE2.
            unsafe { apply_four(&mut self.0, text) }
        }
    }

    /// Combines the next four blocks of the stream with the text. Vector `i` holds word `i` of each.
    #[target_feature(enable = "sse2")]
    fn apply_four(matrix: &mut [u32; 16], text: &mut [u8; FIRST]) {
        let mut x: [__m128i; 16] = std::array::from_fn(|i| _mm_set1_epi32(matrix[i].cast_signed()));
        let number = u64::from(matrix[8]) | u64::from(matrix[9]) << 32;
        let low = |n: u64| ((number + n) as u32).cast_signed();
        let high = |n: u64| (((number + n) >> 32) as u32).cast_signed();
        x[8] = _mm_set_epi32(low(3), low(2), low(1), low(0));
        x[9] = _mm_set_epi32(high(3), high(2), high(1), high(0));
        (matrix[8], matrix[9]) = ((number + 4) as u32, ((number + 4) >> 32) as u32);
        let start = x;

        macro_rules! step {
            ($to:literal, $a:literal, $b:literal, $left:literal) => {
                let sum = _mm_add_epi32(x[$a], x[$b]);
                let turned =
                    _mm_or_si128(_mm_slli_epi32::<$left>(sum), _mm_srli_epi32::<{ 32 - $left }>(sum));
                x[$to] = _mm_xor_si128(x[$to], turned);
            };
        }
        macro_rules! quarter_round {
            ($a:literal, $b:literal, $c:literal, $d:literal) => {
                step!($b, $a, $d, 7);
                step!($c, $b, $a, 9);
                step!($d, $c, $b, 13);
                step!($a, $d, $c, 18);
            };
        }
        for _ in 0..10 {
            quarter_round!(0, 4, 8, 12);
            quarter_round!(5, 9, 13, 1);
            quarter_round!(10, 14, 2, 6);
            quarter_round!(15, 3, 7, 11);
            quarter_round!(0, 1, 2, 3);
            quarter_round!(5, 6, 7, 4);
            quarter_round!(10, 11, 8, 9);
            quarter_round!(15, 12, 13, 14);
        }

        // Four words of four blocks at a time, turned so that a vector is four words of one block.
        let (parts, _) = text.as_chunks_mut::<16>();
        for i in 0..4 {
            let [a, b, c, d]: [__m128i; 4] =
                std::array::from_fn(|word| _mm_add_epi32(x[4 * i + word], start[4 * i + word]));
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            let blocks = [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(ab_high, cd_high),
                _mm_unpackhi_epi64(ab_high, cd_high),
            ];
            for (block, stream) in blocks.into_iter().enumerate() {
                let part: *mut __m128i = parts[4 * block + i].as_mut_ptr().cast();
                // SAFETY: the part is 16 bytes, borrowed for us alone; these two need no alignment.
                unsafe { _mm_storeu_si128(part, _mm_xor_si128(_mm_loadu_si128(part), stream)) };
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// No message is that long, but the carry must not be lost.
        #[test]
        fn the_block_number_has_64_bits() {
            let mut joined = Stream([7; 16]);
            (joined.0[8], joined.0[9]) = (u32::MAX - 1, 3);
            let mut across = [0; FIRST];
            joined.apply_four(&mut across);
            assert_eq!(joined.0[8..10], [2, 4]);
            let mut after = Stream([7; 16]);
            (after.0[8], after.0[9]) = (0, 4);
            let mut blocks = [0; FIRST];
            after.apply_four(&mut blocks);
            assert_eq!(across[128..], blocks[..128]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_salsa20_crate() {
        for len in (0..1100).chain([65_535, 65_536, 100_001]) {
            let key = std::array::from_fn(|i| (i * 7 + len) as u8);
            let nonce = std::array::from_fn(|i| (i * 11 + len / 3) as u8);
            let (ours, first) = Stream::new(&key, &nonce);
            let (theirs, expected_first) = portable::Stream::new(&key, &nonce);
            assert_eq!(first, expected_first);
            let mut text: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut expected = text.clone();
            ours.apply(&mut text);
            theirs.apply(&mut expected);
            assert!(text == expected, "{len} bytes");
        }
    }
}
