//! How single values look to people: text from files, points in time, spans of time.
//!
//! Invariant: what [`escape`] returns cannot move a cursor, change a colour, start a line or reorder what is
//! read, whatever was in the file. Deliberately not here: the form of values in JSON and in files.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use chrono::{DateTime, SecondsFormat, Utc};
use unicode_width::UnicodeWidthStr as _;

/// `text` on one line and without anything that a terminal obeys; control characters become `\u{1b}` and the like.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// As [`escape`], but lines stay lines and tabs stay tabs: for text that has its own layout.
pub fn escape_lines(text: &str) -> String {
    text.split_inclusive(['\n', '\t'])
        .flat_map(|part| {
            let (body, end) = match part.as_bytes().last() {
                Some(b'\n' | b'\t') => part.split_at(part.len() - 1),
                _ => (part, ""),
            };
            [escape(body), Cow::Borrowed(end)]
        })
        .collect()
}

/// `text` folded to one line: runs of white space that hold a line end become one space. Then as [`escape`].
pub fn one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    escape(&lines.collect::<Vec<_>>().join(" ")).into_owned()
}

/// Control characters, line separators, and the marks that turn the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Makes the output of steps fit for a terminal: colours pass, whatever else a terminal obeys is escaped.
///
/// It comes in pieces of any length, so what may be the beginning of a character or colour is held back.
#[derive(Debug, Default)]
pub struct LogFilter {
    held: Vec<u8>,
    colored: bool,
}

/// The longest control sequence that is taken for a colour.
const MAX_COLOR: usize = 32;

/// What stands at the beginning of some bytes.
enum Head {
    /// More bytes are needed to tell.
    Unfinished,
    /// A colour of this length.
    Color(usize),
    /// A character.
    Char(char),
    /// A byte that is part of no character.
    Stray(u8),
}

impl LogFilter {
    /// What can be shown after `bytes` have come.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut shown = Vec::with_capacity(held.len());
        let mut at = 0;
        while at < held.len() {
            at += match head(&held[at..]) {
                Head::Unfinished => {
                    self.held = held[at..].to_vec();
                    break;
                }
                head => self.show(&head, &held[at..], &mut shown),
            };
        }
        shown
    }

    /// What is left, and the end of all colours.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        for byte in std::mem::take(&mut self.held) {
            self.show(&Head::Stray(byte), &[byte], &mut shown);
        }
        if std::mem::take(&mut self.colored) {
            shown.extend_from_slice(b"\x1b[0m");
        }
        shown
    }

    fn show(&mut self, head: &Head, bytes: &[u8], shown: &mut Vec<u8>) -> usize {
        match *head {
            Head::Unfinished => 0,
            Head::Color(len) => {
                self.colored = true;
                shown.extend_from_slice(&bytes[..len]);
                len
            }
            Head::Char(c) => {
                if is_unsafe(c) && !matches!(c, '\n' | '\t') {
                    shown.extend(c.escape_default().map(|c| c as u8));
                } else {
                    shown.extend_from_slice(&bytes[..c.len_utf8()]);
                }
                c.len_utf8()
            }
            Head::Stray(byte) => {
                shown.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
                1
            }
        }
    }
}

fn head(bytes: &[u8]) -> Head {
    let first = bytes[0];
    if let Some(rest) = bytes.strip_prefix(b"\x1b") {
        let Some(parameters) = rest.strip_prefix(b"[") else {
            return if rest.is_empty() { Head::Unfinished } else { Head::Char('\u{1b}') };
        };
        let is_parameter = |b: &u8| b.is_ascii_digit() || matches!(b, b';' | b':');
        let len = parameters.iter().take(MAX_COLOR).take_while(|b| is_parameter(b)).count();
        return match parameters.get(len) {
            Some(b'm') => Head::Color(len + 3),
            None if len < MAX_COLOR => Head::Unfinished,
            _ => Head::Char('\u{1b}'),
        };
    }
    let len = match first {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Head::Stray(first),
    };
    match std::str::from_utf8(&bytes[..len.min(bytes.len())]) {
        Ok(text) => text.chars().next().map_or(Head::Stray(first), Head::Char),
        Err(error) if error.error_len().is_none() => Head::Unfinished,
        Err(_) => Head::Stray(first),
    }
}

/// `2026-12-01 04:00:00Z`.
pub fn exact(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1)
}

/// `2026-12-01 04:00:00Z (3 min ago)`.
pub fn moment(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ({})", exact(at), relative(at, now))
}

/// `3 min ago`, `in 2 h`, `now`.
pub fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let distance = now.signed_duration_since(at).num_milliseconds();
    let span = Duration::from_millis(distance.unsigned_abs());
    if span < Duration::from_secs(1) {
        "now".to_owned()
    } else if distance > 0 {
        format!("{} ago", rough(span))
    } else {
        format!("in {}", rough(span))
    }
}

/// A span in its largest whole unit: `45 s`, `3 min`, `2 h`, `12 days`, `3 years`.
pub fn rough(span: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = span.as_secs();
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => format!("{} h", seconds / HOUR),
        DAY.. => match seconds / DAY {
            1 => "1 day".to_owned(),
            days @ 0..730 => format!("{days} days"),
            days => format!("{} years", days / 365),
        },
    }
}

/// A span as it elapses: `850ms`, `4.2s`, `3m05s`, `2h07m`.
pub fn elapsed(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..10 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `text` in lines of at most `width` columns, broken between words; a longer word has a line of its own, whole,
/// so that an id can still be copied.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let columns = word.width();
        match lines.last_mut().filter(|_| used + 1 + columns <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
                used += 1 + columns;
            }
            None => {
                lines.push(word.to_owned());
                used = columns;
            }
        }
    }
    lines
}

/// A word as a shell reads it back: quoted where it must be.
pub fn shell_word(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let evil = "a\u{1b}[31mb\r\n\u{9b}2J\u{7}\u{202e}c\u{2028}é";
        assert_eq!(escape(evil), r"a\u{1b}[31mb\r\n\u{9b}2J\u{7}\u{202e}c\u{2028}é");
        assert_eq!(escape_lines("a\n\tb\u{1b}c\n"), "a\n\tb\\u{1b}c\n");
        assert!(matches!(escape("Grüße, 世界 👩‍🚀"), Cow::Borrowed(_)));
    }

    #[test]
    fn logs_keep_their_colours_and_nothing_else() {
        let log = "\u{1b}[1;31mred\u{1b}[0m\té\n\u{1b}[2J\u{1b}]0;t\u{7}\r世".as_bytes();
        let want = "\u{1b}[1;31mred\u{1b}[0m\té\n\\u{1b}[2J\\u{1b}]0;t\\u{7}\\r世\u{1b}[0m";
        for size in 1..=log.len() {
            let mut filter = LogFilter::default();
            let mut shown: Vec<u8> = log.chunks(size).flat_map(|piece| filter.push(piece)).collect();
            shown.extend(filter.finish());
            assert_eq!(String::from_utf8(shown).unwrap(), want, "in pieces of {size}");
        }
        let mut filter = LogFilter::default();
        assert_eq!(filter.push(b"a\xff\xc3"), b"a\\xff");
        assert_eq!(filter.finish(), b"\\xc3");
        assert_eq!(
            filter.push(&[b"\x1b[".as_slice(), &[b'1'; 100]].concat()),
            [br"\u{1b}[".as_slice(), &[b'1'; 100]].concat()
        );
    }

    #[test]
    fn messages_of_many_lines_become_one() {
        assert_eq!(one_line("TOML parse error\n  |\n 3 | x\r\n\n"), "TOML parse error | 3 | x");
    }

    #[test]
    fn times_are_exact_and_relative() {
        let now = DateTime::from_timestamp(1_796_097_600, 0).unwrap();
        let at = |seconds: i64| DateTime::from_timestamp(1_796_097_600 + seconds, 0).unwrap();
        assert_eq!(moment(at(-180), now), "2026-12-01 03:57:00Z (3 min ago)");
        assert_eq!(moment(at(7200), now), "2026-12-01 06:00:00Z (in 2 h)");
        assert_eq!(relative(at(0), now), "now");
        assert_eq!(relative(at(-90_000), now), "1 day ago");
        assert_eq!(relative(DateTime::UNIX_EPOCH, now), "56 years ago");
    }

    #[test]
    fn spans_have_few_digits() {
        for (ms, want) in
            [(12, "12ms"), (4_250, "4.2s"), (59_999, "59s"), (185_000, "3m05s"), (7_620_000, "2h07m")]
        {
            assert_eq!(elapsed(Duration::from_millis(ms)), want);
        }
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrap("Publish the  report?", 12), ["Publish the", "report?"]);
        assert_eq!(wrap("see nightly@20261201T040000Z now", 8), ["see", "nightly@20261201T040000Z", "now"]);
        assert_eq!(wrap("世界 世界 世界", 9), ["世界 世界", "世界"]);
        assert_eq!(wrap("", 9), [""; 0]);
    }

    #[test]
    fn words_are_quoted_for_the_shell_where_they_must_be() {
        assert_eq!(shell_word("nightly@20261201T040000Z"), "nightly@20261201T040000Z");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
