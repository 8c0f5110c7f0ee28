//! Aligned columns without borders, fitted to the width of the terminal.
//!
//! Invariant: every cell is escaped, so no text from a file reaches the terminal as it is. Deliberately not
//! here: whether colours are on and how wide the terminal is, which [`super::output`] knows.

use std::{fmt::Write as _, time::Duration};

use chrono::{DateTime, Utc};
use comfy_table::{
    Attribute, CellAlignment, ColumnConstraint, ContentArrangement, Table as Layout, Width, presets::NOTHING,
};

use unicode_width::UnicodeWidthStr as _;

use super::text;

/// The narrowest that a column gets which gives way.
const WRAPPED_WIDTH: u16 = 12;
const WRAPPED: usize = WRAPPED_WIDTH as usize;
/// Between two columns.
const GAP: usize = 2;

/// What becomes of a cell that is wider than its column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Nothing: ids and times stay whole, to be read and copied.
    Whole,
    /// It goes on in the next line.
    Wrap,
    /// Nothing, and it stands on the right: numbers.
    Number,
}

/// What a value means, told by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// It went well: green.
    Good,
    /// It went wrong: red.
    Bad,
    /// Somebody has to act: yellow.
    Waiting,
    /// It is at work: cyan.
    Busy,
    /// Of little interest: dim.
    Dim,
}

impl Tone {
    /// The tone of a word for a status, outcome or decision.
    pub fn of_status(word: &str) -> Self {
        match word {
            "completed" | "ok" | "free" | "retried" | "admitted" => Self::Good,
            "failed" | "error" | "timeout" | "ambiguous" | "corrupt" | "abandoned" => Self::Bad,
            "interrupted" | "paused" | "draining" | "blocked" | "missed" | "skipped" => Self::Waiting,
            "running" | "executing" | "live" => Self::Busy,
            "cancelled" | "removed" | "queued" => Self::Dim,
            _ => Self::Plain,
        }
    }

    /// The control sequence that begins it; empty for plain text.
    pub(super) fn start(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Waiting => "\u{1b}[33m",
            Self::Busy => "\u{1b}[36m",
            Self::Dim => "\u{1b}[2m",
        }
    }
}

/// One value of a row.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A value in a tone.
    pub fn toned(text: &str, tone: Tone) -> Self {
        Self { text: text::escape(text).into_owned(), tone }
    }

    /// A status, in its own tone.
    pub fn status(word: &str) -> Self {
        Self::toned(word, Tone::of_status(word))
    }

    /// A point in time, exact and relative; `-` where there is none.
    pub fn moment(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Self {
        at.map_or_else(Self::none, |at| Self::from(text::moment(at, now)))
    }

    /// A span of time.
    pub fn elapsed(span: Duration) -> Self {
        Self::from(text::elapsed(span))
    }

    /// No value: `-`.
    pub fn none() -> Self {
        Self::toned("-", Tone::Dim)
    }

    /// A value, or `-`.
    pub fn optional<T: ToString>(value: Option<T>) -> Self {
        value.map_or_else(Self::none, |value| Self::from(value.to_string()))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(&text, Tone::Plain)
    }
}

/// A table under construction.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Fit)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&'static str, Fit)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, with one cell a column.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a row has one cell a column");
        self.rows.push(cells.into());
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table, with colours or without, at most `width` wide where a column can give way. Where
    /// none can give way enough, each row becomes lines of names and values.
    pub fn render(&self, width: Option<u16>, colors: bool) -> String {
        match width {
            Some(width) if self.narrowest() > usize::from(width) => self.records(width.into(), colors),
            _ => self.columns(width, colors),
        }
    }

    /// How wide the table is when every column that can give way has done so.
    fn narrowest(&self) -> usize {
        let columns = self.columns.iter().enumerate().map(|(index, (name, fit))| {
            let content = self.rows.iter().map(|row| row[index].text.width()).max().unwrap_or(0);
            let content = content.max(name.width());
            match fit {
                Fit::Wrap => content.min(WRAPPED),
                Fit::Whole | Fit::Number => content,
            }
        });
        columns.sum::<usize>() + GAP * self.columns.len().saturating_sub(1)
    }

    fn records(&self, width: usize, colors: bool) -> String {
        let names = self.columns.iter().map(|(name, _)| name.width()).max().unwrap_or(0) + GAP;
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            for ((name, _), cell) in self.columns.iter().zip(row) {
                let mut name = *name;
                for line in text::wrap(&cell.text, width.saturating_sub(names)) {
                    let (start, end) = if colors && cell.tone != Tone::Plain {
                        (cell.tone.start(), "\u{1b}[0m")
                    } else {
                        ("", "")
                    };
                    let _ = writeln!(text, "{name:<names$}{start}{line}{end}");
                    name = "";
                }
            }
        }
        text
    }

    fn columns(&self, width: Option<u16>, colors: bool) -> String {
        let mut layout = Layout::new();
        layout.load_style(NOTHING).set_truncation_indicator("…");
        if colors {
            layout.enforce_styling();
            layout.style_text_only();
        } else {
            layout.force_no_tty();
        }
        match width {
            Some(width) => layout.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => layout.set_content_arrangement(ContentArrangement::Disabled),
        };
        let heading = |(name, _): &(&str, Fit)| comfy_table::Cell::new(name).add_attribute(Attribute::Bold);
        layout.set_header(self.columns.iter().map(heading));
        for row in &self.rows {
            layout.add_row(row.iter().map(layout_cell));
        }
        for (column, (_, fit)) in layout.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2)); // GAP
            match fit {
                Fit::Wrap => {
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(WRAPPED_WIDTH)))
                }
                Fit::Whole | Fit::Number => column.set_constraint(ColumnConstraint::ContentWidth),
            };
            if *fit == Fit::Number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for line in layout.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn layout_cell(cell: &Cell) -> comfy_table::Cell {
    let layout = comfy_table::Cell::new(&cell.text);
    match cell.tone {
        Tone::Plain => layout,
        Tone::Good => layout.fg(comfy_table::Color::DarkGreen),
        Tone::Bad => layout.fg(comfy_table::Color::DarkRed),
        Tone::Waiting => layout.fg(comfy_table::Color::DarkYellow),
        Tone::Busy => layout.fg(comfy_table::Color::DarkCyan),
        Tone::Dim => layout.add_attribute(Attribute::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[("RUN", Fit::Whole), ("STATUS", Fit::Whole), ("QUESTION", Fit::Wrap)]);
        table.row([
            "nightly-report@20261201T040000Z".into(),
            Cell::status("interrupted"),
            "Publish the report that the whole department waits for?\u{1b}[2J".into(),
        ]);
        table.row(["b".into(), Cell::status("failed"), Cell::none()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_ids_stay_whole() {
        assert_eq!(
            sample().render(Some(80), false),
            "RUN                              STATUS       QUESTION\n\
             nightly-report@20261201T040000Z  interrupted  Publish the report that the\n\
             \x20                                             whole department waits\n\
             \x20                                             for?\\u{1b}[2J\n\
             b                                failed       -\n"
        );
        assert_eq!(sample().render(None, false).lines().count(), 3);
    }

    #[test]
    fn colours_are_there_only_when_they_are_on() {
        assert!(!sample().render(Some(80), false).contains('\u{1b}'));
        assert!(sample().render(Some(80), true).contains("\u{1b}["));
        assert!(!sample().render(Some(80), true).contains("\u{1b}[2J"));
    }

    #[test]
    fn a_narrow_terminal_breaks_nothing() {
        assert_eq!(
            sample().render(Some(40), false),
            "RUN       nightly-report@20261201T040000Z\n\
             STATUS    interrupted\n\
             QUESTION  Publish the report that the\n\
             \x20         whole department waits\n\
             \x20         for?\\u{1b}[2J\n\
             \n\
             RUN       b\n\
             STATUS    failed\n\
             QUESTION  -\n"
        );
        for width in [1, 5, 20, 40] {
            assert!(
                sample().render(Some(width), false).contains("nightly-report@20261201T040000Z"),
                "{width}"
            );
        }
    }
}
