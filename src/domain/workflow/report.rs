//! What is wrong with a workflow file, and where: collected in any order, handed out by position.
//!
//! Invariants: lines and columns count from 1, columns count characters; making the list takes time
//! linear in the file however many errors there are. Deliberately not here: the name of the file.

/// One thing that is wrong with a workflow file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct WorkflowError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong, with which part, and why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Beyond this many errors no more names are suggested: it is the one thing that takes long.
const MAX_SUGGESTIONS: usize = 100;
const MAX_QUOTED: usize = 80;

/// The errors found so far in one text.
pub(super) struct Report<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    found: Vec<Found>,
}

struct Found {
    at: usize,
    message: String,
    hint: Option<String>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after_newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        // A byte order mark is no column of its own.
        let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Self { text, line_starts: std::iter::once(start).chain(after_newlines).collect(), found: Vec::new() }
    }

    pub(super) fn refuse(&mut self, at: usize, message: String) {
        self.found.push(Found { at, message, hint: None });
    }

    pub(super) fn refuse_with_hint(&mut self, at: usize, message: String, hint: impl Into<String>) {
        self.found.push(Found { at, message, hint: Some(hint.into()) });
    }

    /// How many errors there are.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// The line of a byte offset.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at).max(1)
    }

    /// The one of `names` that was probably meant by `wrong`.
    pub(super) fn nearest<'n>(&self, wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        if self.found.len() > MAX_SUGGESTIONS || wrong.len() > MAX_QUOTED {
            return None;
        }
        let limit = (wrong.chars().count() / 3).clamp(1, 3);
        let wrong = wrong.to_lowercase();
        names
            .map(|name| (strsim::osa_distance(&wrong, &name.to_lowercase()), name))
            .filter(|(distance, name)| *distance <= limit && *distance < name.len())
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, name)| name)
    }

    /// The errors by position.
    pub(super) fn into_errors(mut self) -> Vec<WorkflowError> {
        self.found.sort_by_key(|found| found.at);
        let found = std::mem::take(&mut self.found);
        // Counting goes on from the error before on the same line, so that no line is counted twice.
        let (mut from, mut column) = (0, 1);
        let mut errors = Vec::with_capacity(found.len());
        for Found { at, message, hint } in found {
            let line = self.line_of(at);
            let line_start = self.line_starts[line - 1];
            if line_start >= from {
                (from, column) = (line_start, 1);
            }
            let mut end = at.clamp(from, self.text.len().max(from));
            while !self.text.is_char_boundary(end) && end > from {
                end -= 1;
            }
            column += self.text.get(from..end).map_or(0, |skipped| skipped.chars().count());
            from = end;
            errors.push(WorkflowError { line, column, message, hint });
        }
        errors
    }
}

/// Text from the file as it is quoted in messages: one line, not too long, no control characters.
pub(super) fn quote(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let text = "\u{feff}é = 1\n\nßß = 2";
        let mut report = Report::new(text);
        for at in [text.len(), 0, 3, text.find('1').unwrap(), text.find('2').unwrap(), 10_000] {
            report.refuse(at, String::new());
        }
        let places: Vec<_> = report.into_errors().iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(1, 1), (1, 1), (1, 5), (3, 6), (3, 7), (3, 7)]);
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        let report = Report::new("");
        let names = ["timeout", "run", "retry"];
        assert_eq!(report.nearest("timout", names.into_iter()), Some("timeout"));
        assert_eq!(report.nearest("Run", names.into_iter()), Some("run"));
        assert_eq!(report.nearest("x", names.into_iter()), None);
        assert_eq!(report.nearest("zzzzzz", names.into_iter()), None);
    }
}
