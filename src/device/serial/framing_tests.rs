use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn line(end: LineEnd, max: usize) -> Framing {
    Framing::Line { end, max, timeout: SECOND }
}

fn delimiter(delimiter: &[u8], max: usize) -> Framing {
    Framing::Delimiter { delimiter: delimiter.to_vec(), max, timeout: SECOND }
}

/// The frames of these pieces, shown as text: `…` for truncated, `?` for partial; then those bytes skipped.
fn frames(framing: &Framing, pieces: &[&[u8]]) -> (Vec<String>, u64) {
    let mut framer = Framer::new(framing);
    let mut frames = Vec::new();
    pieces.iter().for_each(|piece| framer.push(piece, &mut frames));
    frames.extend(framer.flush());
    assert_eq!(framer.timeout(), None);
    (frames.iter().map(show).collect(), framer.skipped())
}

fn show(frame: &Frame) -> String {
    let flags = ["…", "?"].into_iter().zip([frame.truncated, frame.partial]).filter(|(_, set)| *set);
    String::from_utf8_lossy(&frame.bytes).into_owned() + &flags.map(|(flag, _)| flag).collect::<String>()
}

#[test]
fn c20_lines_come_whole_however_they_are_cut() {
    let mut framer = Framer::new(&line(LineEnd::Any, 65_536));
    let mut got = Vec::new();
    let pieces: [&[u8]; 8] =
        [b"us", b"er:4", b":1\r", b"\nT=2", b"1\rT=22\n\r\n", b"\xc3", b"\xa9\n", b"tail"];
    let counts = pieces.map(|piece| {
        framer.push(piece, &mut got);
        got.len()
    });
    // The CR ends the line at once, its LF makes no second end; an empty line is an empty frame.
    assert_eq!(counts, [0, 0, 1, 1, 4, 4, 5, 5]);
    assert_eq!(framer.timeout(), Some(SECOND));
    got.extend(framer.flush());
    assert_eq!(got.iter().map(show).collect::<Vec<_>>(), ["user:4:1", "T=21", "T=22", "", "é", "tail?"]);
    assert_eq!((framer.timeout(), framer.flush()), (None, None));
}

#[test]
fn each_line_end_ends_its_own_lines() {
    let text: &[&[u8]] = &[b"a\rb\nc\r\nd\n\re"];
    let of = |end| frames(&line(end, 99), text).0;
    assert_eq!(of(LineEnd::Any), ["a", "b", "c", "d", "", "e?"]);
    assert_eq!(of(LineEnd::Lf), ["a\rb", "c\r", "d", "\re?"]);
    assert_eq!(of(LineEnd::Cr), ["a", "b\nc", "\nd\n", "e?"]);
    assert_eq!(of(LineEnd::CrLf), ["a\rb\nc", "d\n\re?"]);
}

#[test]
fn a_line_feed_belongs_to_the_cr_before_it_even_after_silence() {
    let mut framer = Framer::new(&line(LineEnd::Any, 99));
    let mut got = Vec::new();
    framer.push(b"a\r", &mut got);
    assert_eq!((got.len(), framer.timeout(), framer.flush()), (1, None, None));
    framer.push(b"", &mut got);
    framer.push(b"\n", &mut got);
    assert_eq!(got.len(), 1);
    framer.push(b"\n", &mut got);
    assert_eq!(got.last(), Some(&Frame::default()));
}

#[test]
fn delimiters_are_found_across_pieces_and_within_themselves() {
    for pieces in [&[&b"abababc"[..]][..], &[b"abab", b"abc"], &[b"a", b"b", b"a", b"b", b"a", b"b", b"c"]] {
        assert_eq!(frames(&delimiter(b"ababc", 99), pieces), (vec!["ab".to_owned()], 0));
    }
    assert_eq!(frames(&delimiter(b"\xff\x03", 9), &[b"x\xff", b"\x03\xff\x03y"]).0, ["x", "", "y?"]);
    assert_eq!(frames(&delimiter(b"aab", 9), &[b"aaa", b"ab"]).0, ["aa"]);
}

#[test]
fn a_frame_of_the_longest_length_is_whole_and_a_longer_one_is_cut_at_once() {
    assert_eq!(
        frames(&line(LineEnd::Any, 3), &[b"abc\nabcd\nabcdef\r\nx\n"]),
        (vec!["abc".into(), "abc…".into(), "abc…".into(), "x".into()], 4)
    );
    let mut framer = Framer::new(&delimiter(b"--", 3));
    let mut got = Vec::new();
    framer.push(b"abc-", &mut got);
    assert_eq!(got, []);
    framer.push(b"d", &mut got);
    assert_eq!((show(&got[0]), framer.timeout()), ("abc…".into(), Some(SECOND)));
    framer.push(b"eeeeeeeeeeeee-", &mut got);
    framer.push(b"-f--", &mut got);
    assert_eq!((got.len(), show(&got[1]), framer.skipped()), (2, "f".into(), 15));
}

#[test]
fn silence_ends_the_skipping_without_a_frame() {
    let mut framer = Framer::new(&delimiter(b"--", 3));
    let mut got = Vec::new();
    framer.push(b"abcdef-", &mut got);
    assert_eq!((got.len(), framer.flush(), framer.skipped()), (1, None, 4));
    framer.push(b"-x--", &mut got);
    assert_eq!(show(&got[1]), "-x");
    // What might have become the end never did.
    framer.push(b"abc-", &mut got);
    assert_eq!(framer.flush().map(|frame| show(&frame)), Some("abc…?".into()));
    assert_eq!(framer.skipped(), 5);
}

#[test]
fn fixed_and_raw() {
    let fixed = Framing::Fixed { size: 3, timeout: SECOND };
    assert_eq!(frames(&fixed, &[b"a", b"bcdefgh", b"i", b"j"]).0, ["abc", "def", "ghi", "j?"]);
    let raw = |gap| Framing::Raw { gap, max: 4 };
    assert_eq!(frames(&raw(SECOND), &[b"ab", b"c", b"defghi"]).0, ["abcd", "efgh", "i"]);
    assert_eq!(frames(&raw(Duration::ZERO), &[b"ab", b"c", b"", b"defgh"]).0, ["ab", "c", "defg", "h"]);
}

/// What frames shall be, byte by byte, with all input in view.
fn expected(end: LineEnd, delimiter: &[u8], max: usize, input: &[u8]) -> (Vec<Frame>, u64) {
    let (mut frames, mut skipped, mut rest) = (Vec::new(), 0, input);
    while !rest.is_empty() {
        let ends: Vec<&[u8]> =
            if end == LineEnd::Any { vec![b"\r\n", b"\r", b"\n"] } else { vec![delimiter] };
        let found = (0..rest.len()).find_map(|at| {
            ends.iter().find(|end| rest[at..].starts_with(end)).map(|end| (at, at + end.len()))
        });
        let (length, after) = found.unwrap_or((rest.len(), rest.len()));
        let cut = length.min(max);
        skipped += (length - cut) as u64;
        let bytes = rest[..cut].to_vec();
        frames.push(Frame { bytes, truncated: length > cut, partial: found.is_none() });
        rest = &rest[after..];
    }
    (frames, skipped)
}

/// Input of few letters, so that ends and the beginnings of ends are frequent.
fn input() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..120)
}

fn framing() -> impl Strategy<Value = (LineEnd, Vec<u8>)> {
    let delimiters = prop::collection::vec(prop::sample::select(b"ab".to_vec()), 1..6);
    prop_oneof![
        Just((LineEnd::Any, Vec::new())),
        Just((LineEnd::CrLf, b"\r\n".to_vec())),
        Just((LineEnd::Lf, b"\n".to_vec())),
        delimiters.prop_map(|delimiter| (LineEnd::Cr, delimiter)),
    ]
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_frames((end, bytes) in framing(), max in 1..20usize, input in input(),
                                       sizes in prop::collection::vec(0..12usize, 1..40)) {
        let framing =
            if end == LineEnd::Any { line(end, max) } else { delimiter(&bytes, max) };
        let (mut framer, mut single) = (Framer::new(&framing), Framer::new(&framing));
        let (mut got, mut got_single) = (Vec::new(), Vec::new());
        let (mut rest, mut sizes) = (&input[..], sizes.iter().cycle());
        let mut stuck = 0;
        while !rest.is_empty() {
            let size = if stuck > 40 { 7 } else { *sizes.next().unwrap() };
            stuck += 1;
            let (piece, after) = rest.split_at(size.min(rest.len()));
            framer.push(piece, &mut got);
            piece.iter().for_each(|byte| single.push(&[*byte], &mut got_single));
            // The same at each seam, not only in the end; and no more is held than a frame and an end.
            prop_assert_eq!((&got, framer.skipped()), (&got_single, single.skipped()));
            prop_assert!(framer.held.len() < max + bytes.len().max(1));
            rest = after;
        }
        let (wanted, skipped) = expected(end, &bytes, max, &input);
        if let Some(last) = framer.flush() {
            // One truncated before its end came is not known to be partial; see `flush`.
            got.push(last);
        } else if let (Some(wanted), Some(got)) = (wanted.last(), got.last_mut()) {
            got.partial = wanted.partial;
        }
        prop_assert_eq!((got, framer.skipped()), (wanted, skipped));
    }

    #[test]
    fn frames_and_ends_together_are_the_input((end, bytes) in framing(), input in input()) {
        prop_assume!(end != LineEnd::Any);
        let mut framer = Framer::new(&delimiter(&bytes, 1 << 20));
        let mut frames = Vec::new();
        framer.push(&input, &mut frames);
        let last = framer.flush();
        let mut all: Vec<u8> = frames.iter().flat_map(|frame| [&frame.bytes[..], &bytes].concat()).collect();
        all.extend(last.into_iter().flat_map(|frame| frame.bytes));
        prop_assert_eq!(all, input);
    }

    #[test]
    fn sized_frames_are_the_input_too(size in 1..9usize, raw: bool, pieces in prop::collection::vec(input(), 0..9)) {
        let framing = match raw {
            true => Framing::Raw { gap: SECOND, max: size },
            false => Framing::Fixed { size, timeout: SECOND },
        };
        let mut framer = Framer::new(&framing);
        let mut frames = Vec::new();
        pieces.iter().for_each(|piece| framer.push(piece, &mut frames));
        prop_assert!(frames.iter().all(|frame| frame.bytes.len() == size && !frame.partial && !frame.truncated));
        let last = framer.flush();
        prop_assert!(last.iter().all(|frame| frame.bytes.len() < size && frame.partial != raw));
        frames.extend(last);
        let all: Vec<u8> = frames.into_iter().flat_map(|frame| frame.bytes).collect();
        prop_assert_eq!(all, pieces.concat());
    }
}

/// A figure for people: `cargo test --release --lib framing -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed_of_short_lines() {
    let chunk = b"0123456789012345678\n".repeat(3277);
    for framing in [line(LineEnd::Any, 65_536), line(LineEnd::Lf, 65_536), delimiter(b"8\n", 65_536)] {
        let (mut framer, mut frames) = (Framer::new(&framing), Vec::new());
        let begin = std::time::Instant::now();
        for _ in 0..1000 {
            framer.push(&chunk, &mut frames);
            frames.clear();
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("{framing:?}: {:.0} MB/s", chunk.len() as f64 / 1e3 / seconds);
    }
}
