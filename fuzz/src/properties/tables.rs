//! No text makes the reader of tables panic, and every mistake has a place and says what to write instead.
//!
//! The text takes the place of a part of a table without mistakes: its first two bytes say which.

use arraybridge_table::{Problems, Source, read};

const TABLE: &str = r#"[g]
title = "G"
classes = ["g.A"]
dtypes = ["standard"]
import = { op = "module.from_dlpack(data)" }
guards = [{ why = "lazy", when = "data.lazy[0](1, a=-2) == (None, 'x')" }]
[g.device]
count = "module.count()"
at = "module.at(index)"
scope = "device"
"#;

/// Reads a table, and checks every message.
pub fn check(data: &[u8]) {
    let [from, length, text @ ..] = data else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let from = usize::from(*from) % TABLE.len();
    let to = (from + usize::from(*length)).min(TABLE.len());
    let text = [&TABLE[..from], text, &TABLE[to..]].concat();
    let sources = [Source { label: "t.toml".into(), text }];
    let messages = read(&sources).map_or_else(Problems::messages, |_| Vec::new());
    for message in &messages {
        let mut parts = message.splitn(4, ':');
        assert_eq!(parts.next(), Some("t.toml"), "{message}");
        for _ in 0..2 {
            let number = parts.next().and_then(|number| number.parse::<usize>().ok());
            assert!(number.is_some_and(|number| number > 0), "no place: {message}");
        }
        assert!(
            parts.next().is_some_and(|text| text.contains("; ")),
            "nothing to write: {message}"
        );
    }
}
