use super::*;
use crate::config::Zone;
use crate::error::Kind;
use crate::wire::{Level, TextRule};
use proptest::prelude::*;

fn config(format: Format) -> LogConfig {
    LogConfig {
        path: "gateway.log".into(),
        format,
        zone: Zone::Utc,
        eol: Eol::Lf,
        bom: false,
        level: Level::Trace,
        source: Vec::new(),
        rotate: None,
    }
}

const PRODUCER: [u8; 16] = *b"0123456789abcdef";

fn sample() -> Line<'static> {
    Line {
        record: Record {
            time: 1_796_079_842_123_456_789,
            level: Level::Warn,
            source: "updater",
            host: "kiosk-7",
            pid: Some(4242),
            rule: TextRule::Utf8,
            text: b"text",
            fields: r#"{"k":"v"}"#,
        },
        received: 1_796_079_843_000_000_001,
        client: "",
        producer: &PRODUCER,
        seq: 18,
    }
}

fn render(format: Format, line: &Line<'_>) -> String {
    let mut out = Vec::new();
    Formatter::new(&config(format)).unwrap().write(line, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn text_is_the_documented_line() {
    let line = sample();
    assert_eq!(
        render(Format::Text, &line),
        "2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater[4242] text {\"k\":\"v\"}\n"
    );
    let bare = Line { record: Record { pid: None, fields: "", ..line.record }, ..line };
    assert_eq!(render(Format::Text, &bare), "2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater text\n");
    let mut out = Vec::new();
    let crlf = LogConfig { eol: Eol::CrLf, ..config(Format::Text) };
    Formatter::with_clock(&crlf, Clock::with_offset(Some(|_| 3600))).unwrap().write(&bare, &mut out);
    assert_eq!(out, b"2026-12-01T00:04:02.123456+01:00 WARN  kiosk-7/updater text\r\n");
}

#[test]
fn the_sender_is_that_of_each_record() {
    let mut formatter = Formatter::new(&config(Format::Text)).unwrap();
    let senders = [
        ("h", "a", None),
        ("h", "a", None),
        ("ha", "", None),
        ("h", "a", Some(1)),
        ("", "", None),
        ("", "", None),
    ];
    for (host, source, pid) in senders {
        let line = Line { record: Record { host, source, pid, fields: "", ..sample().record }, ..sample() };
        let mut out = Vec::new();
        formatter.write(&line, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), render(Format::Text, &line));
    }
}

#[test]
fn json_has_everything_and_the_bytes_where_the_text_does_not_give_them() {
    let line = sample();
    assert_eq!(
        render(Format::Json, &line),
        concat!(
            r#"{"time":"2026-11-30T23:04:02.123456789Z","received":"2026-11-30T23:04:03.000000001Z","level":"warn","#,
            r#""source":"updater","host":"kiosk-7","pid":4242,"text":"text","fields":{"k":"v"},"#,
            r#""producer":"30313233-3435-3637-3839-616263646566","seq":18}"#,
            "\n"
        )
    );
    let record = Record { rule: TextRule::Bytes, text: b"a\"\\\xe4", fields: "not json\n", ..line.record };
    let odd = Line { record, producer: &[0; 16], client: "kiosk", ..line };
    let value: serde_json::Value = serde_json::from_str(&render(Format::Json, &odd)).unwrap();
    assert_eq!(value["text"], "a\"\\\\xe4");
    assert_eq!(value["raw_base64"], "YSJc5A==");
    assert_eq!(value["fields"], "not json\n");
    assert_eq!(value["client"], "kiosk");
    assert!(value.get("producer").is_none());
}

#[test]
fn logfmt_quotes_what_needs_it() {
    let line = sample();
    let fields = r#"{"a b":"x y","n":1,"o":{"p":"q"}}"#;
    let line = Line { record: Record { text: b"say \"hi\"\n", fields, ..line.record }, ..line };
    assert_eq!(
        render(Format::Logfmt, &line),
        concat!(
            r#"ts=2026-11-30T23:04:02.123456Z level=warn host=kiosk-7 source=updater pid=4242 "#,
            r#"text="say \"hi\"" a_b="x y" n=1 o="{\"p\":\"q\"}""#,
            "\n"
        )
    );
}

#[test]
fn a_template_writes_what_it_names() {
    let pattern = "{{{LEVEL}|{level}}} {time} {received} {host} {source} {pid} {text} {fields} <{client}> {producer} {seq}";
    assert_eq!(
        render(Format::Template(pattern.into()), &sample()),
        "{WARN |warn} 2026-11-30T23:04:02.123456Z 2026-11-30T23:04:03.000000Z kiosk-7 updater 4242 text {\"k\":\"v\"} <> \
         30313233-3435-3637-3839-616263646566 18\n"
    );
    let error = Formatter::new(&config(Format::Template("{tiem} {text}".into()))).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
    assert!(error.message().contains("{tiem}") && error.message().contains("{time}"), "{error}");
}

proptest! {
    #[test]
    fn any_record_is_one_physical_line(source: String, host: String, text: Vec<u8>, client: String,
                                       fields in "(\\{\\}|\\{ \n\"a\":\t\"[\u{85}\u{2028}\u{7f}x]*\"\\}|.*)", level in 0u8..6) {
        let record = Record {
            source: &source, host: &host, text: &text, fields: &fields, level: Level::from_number(level).unwrap(),
            rule: crate::wire::text::classify(&text, None), ..sample().record
        };
        let line = Line { record, client: &client, ..sample() };
        let template = "{time} {source} {host} {text} {fields} {client}\n".to_owned();
        for format in [Format::Text, Format::Json, Format::Logfmt, Format::Template(template)] {
            let json = format == Format::Json;
            let shown = render(format, &line);
            let shown = shown.strip_suffix('\n').unwrap();
            prop_assert!(!shown.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{shown:?}");
            if json {
                let value: serde_json::Value = serde_json::from_str(shown).unwrap();
                prop_assert_eq!(value["source"].as_str(), Some(&source[..]));
                if let Ok(object) = serde_json::from_str::<serde_json::Map<_, _>>(&fields) {
                    prop_assert_eq!(&value["fields"], &serde_json::Value::Object(object));
                }
            }
        }
    }
}

/// Not a test of anything: `cargo test --release rendering_speed -- --ignored --nocapture` prints the cost.
#[test]
#[ignore = "a measurement, for release builds"]
fn rendering_speed() {
    let text = [b'x'; 100];
    let line = Line { record: Record { text: &text, fields: "", ..sample().record }, ..sample() };
    for format in [Format::Text, Format::Json, Format::Logfmt] {
        let mut formatter = Formatter::new(&config(format.clone())).unwrap();
        let mut out = Vec::with_capacity(512 << 10);
        let mut best = f64::MAX;
        for _ in 0..20 {
            let start = std::time::Instant::now();
            for index in 0..100_000i64 {
                let record = Record { time: line.record.time + index * 1_000, ..line.record };
                formatter.write(&Line { record, ..line }, &mut out);
                if out.len() > 256 << 10 {
                    out.clear();
                }
            }
            best = best.min(start.elapsed().as_nanos() as f64 / 100_000.0);
        }
        println!("{format:?}: {best:.0} ns per record");
    }
}
