//! Why a trigger, a zone, a time or a duration was refused.
//!
//! Every variant names the part, quotes it, says what is wrong with it, and can give a hint on what
//! to write instead. Deliberately not here: exit codes, and the colour of any of this.

/// A text that is not a usable trigger, zone, time or duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// One field of a cron expression.
    #[error("{field} field {text:?}: {why}")]
    Field {
        /// Which field, for example "minute" or "day-of-month".
        field: &'static str,
        /// The field as written, cut to 80 characters.
        text: String,
        /// Which rule it breaks.
        why: String,
        /// What to write instead.
        hint: String,
    },
    /// A cron expression as a whole: the number of fields, or an unknown `@name`.
    #[error("cron expression {text:?}: {why}")]
    Expression {
        /// The expression as written, cut to 80 characters.
        text: String,
        /// Which rule it breaks.
        why: String,
        /// What to write instead.
        hint: String,
    },
    /// A time zone that the IANA database does not have.
    #[error("unknown time zone {text:?}")]
    Zone {
        /// The name as written, cut to 80 characters.
        text: String,
        /// The nearest known name, or what kind of name is wanted.
        hint: String,
    },
    /// A point in time.
    #[error("time {text:?}: {why}")]
    Time {
        /// The time as written, cut to 80 characters.
        text: String,
        /// Which rule it breaks.
        why: String,
        /// What to write instead.
        hint: String,
    },
    /// The length of a period or of a relative time.
    #[error("duration {text:?}: {why}")]
    Duration {
        /// The duration as written, cut to 80 characters.
        text: String,
        /// Which rule it breaks.
        why: String,
        /// What to write instead.
        hint: String,
    },
    /// A well-formed trigger without a single occurrence.
    #[error("this trigger can never fire: {why}")]
    NeverFires {
        /// What rules every time out.
        why: String,
        /// What to change.
        hint: String,
    },
}

impl TriggerError {
    /// What to write instead, as a sentence without a full stop.
    pub fn hint(&self) -> &str {
        match self {
            Self::Field { hint, .. }
            | Self::Expression { hint, .. }
            | Self::Zone { hint, .. }
            | Self::Time { hint, .. }
            | Self::Duration { hint, .. }
            | Self::NeverFires { hint, .. } => hint,
        }
    }
}

/// At most 80 characters of `text`, for quoting it in an error.
pub(super) fn quote(text: &str) -> String {
    text.chars().take(80).collect()
}
