//! `wfctl.toml`: the settings of a store, read strictly and edited with their comments kept.

use std::{path::Path, time::Duration};

use serde::Deserialize;

use super::{StoreError, atomic, disk::Disk, layout, lock::StoreLock};
use crate::domain::{
    duration::{format_duration, parse_duration},
    trigger::Zone,
};

/// The store format that this program reads and writes.
pub const FORMAT: u32 = 1;
/// The largest capacity; more than any machine has processes for.
pub const MAX_CAPACITY: u32 = 10_000;

/// The settings of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many runs may execute at once.
    pub capacity: u32,
    /// The zone of triggers that name none.
    pub timezone: String,
    /// How long a step has between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How long a command waits for the store lock.
    pub lock_timeout: Duration,
    /// How long finished runs are kept; none: for ever.
    pub keep: Option<Duration>,
    /// Whether the store may be on a network file system.
    pub allow_network_fs: bool,
}

/// A setting's name, its value as text, and what it is for.
pub const KEYS: [(&str, &str); 7] = [
    ("format", "the format of the store; only the program changes it"),
    ("capacity", "how many runs may execute at once"),
    ("timezone", "the zone of triggers that name none"),
    ("grace", "time between SIGTERM and SIGKILL"),
    ("lock_timeout", "how long a command waits for the store lock"),
    ("keep", "how long finished runs are kept, or \"forever\""),
    ("allow_network_fs", "allow a store on a network file system"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    format: u32,
    capacity: Option<i64>,
    timezone: Option<String>,
    grace: Option<String>,
    lock_timeout: Option<String>,
    keep: Option<String>,
    allow_network_fs: Option<bool>,
}

/// The number of CPUs, the default capacity.
pub fn default_capacity() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)).min(MAX_CAPACITY)
}

/// The text of a new store's settings.
pub fn initial(capacity: Option<u32>) -> String {
    let capacity = match capacity {
        Some(capacity) => format!("capacity = {capacity}"),
        None => "# capacity = 4            # default: the number of CPUs".to_owned(),
    };
    format!(
        "# Settings of this wfctl store; see wfctl-store(5). `wfctl config` reads and sets them.\n\
         format = {FORMAT}\n\
         {capacity}\n\
         # timezone = \"UTC\"\n\
         # grace = \"10s\"           # between SIGTERM and SIGKILL\n\
         # lock_timeout = \"10s\"\n\
         # keep = \"90d\"            # finished runs; \"forever\" is allowed\n"
    )
}

/// Reads the settings.
///
/// # Errors
/// [`StoreError::Settings`] when the file is no settings file, [`StoreError::Format`] when it is of a
/// newer format.
pub fn load(disk: &dyn Disk) -> Result<Settings, StoreError> {
    let bytes =
        disk.read(Path::new(layout::SETTINGS)).map_err(|e| StoreError::io("read", layout::SETTINGS, e))?;
    let text = String::from_utf8(bytes).map_err(|_| settings_error("it is not UTF-8"))?;
    parse(&text)
}

/// Checks a settings text.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str) -> Result<Settings, StoreError> {
    // A newer format may have keys that this program does not know, so it is looked at first.
    #[derive(Deserialize)]
    struct Format {
        format: Option<u32>,
    }
    let readable = |e: toml::de::Error| settings_error(e.to_string().trim().replace('\n', " "));
    match toml::from_str::<Format>(text).map_err(readable)?.format {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => return Err(StoreError::Format { found, known: FORMAT }),
        Some(found) => return Err(settings_error(format!("format = {found} was never in use"))),
        None => return Err(settings_error("it names no format")),
    }
    let raw: Raw = toml::from_str(text).map_err(readable)?;
    debug_assert_eq!(raw.format, FORMAT);
    let duration = |key: &str, value: Option<String>, default: u64| match value {
        None => Ok(Duration::from_secs(default)),
        Some(text) => parse_duration(&text).map_err(|e| settings_error(format!("{key}: {e}"))),
    };
    let capacity = match raw.capacity {
        None => default_capacity(),
        Some(n) => u32::try_from(n)
            .ok()
            .filter(|n| (1..=MAX_CAPACITY).contains(n))
            .ok_or_else(|| settings_error(format!("capacity: {n} is not between 1 and {MAX_CAPACITY}")))?,
    };
    let timezone = raw.timezone.unwrap_or_else(|| "UTC".to_owned());
    Zone::parse(&timezone).map_err(|e| settings_error(format!("timezone: {e}")))?;
    let keep = match raw.keep.as_deref() {
        Some("forever") => None,
        Some(text) => Some(parse_duration(text).map_err(|e| settings_error(format!("keep: {e}")))?),
        None => Some(Duration::from_secs(90 * 24 * 60 * 60)),
    };
    Ok(Settings {
        capacity,
        timezone,
        grace: duration("grace", raw.grace, 10)?,
        lock_timeout: duration("lock_timeout", raw.lock_timeout, 10)?,
        keep,
        allow_network_fs: raw.allow_network_fs.unwrap_or(false),
    })
}

/// Sets one setting in the text of the file, leaving comments and order as they are. The result is
/// checked as a whole.
///
/// # Errors
/// [`StoreError::Settings`] when there is no such setting or the value does not suit it.
pub fn set(text: &str, key: &str, value: &str) -> Result<String, StoreError> {
    if key == "format" {
        return Err(settings_error("format: only the program itself changes it"));
    }
    let mut document: toml_edit::DocumentMut =
        text.parse().map_err(|e: toml_edit::TomlError| settings_error(e.to_string()))?;
    let new: toml_edit::Value = match key {
        "capacity" => value
            .parse::<i64>()
            .map_err(|_| settings_error(format!("capacity: {value:?} is no number")))?
            .into(),
        "allow_network_fs" => value
            .parse::<bool>()
            .map_err(|_| settings_error(format!("allow_network_fs: {value:?} is neither true nor false")))?
            .into(),
        _ => value.into(),
    };
    match document.get_mut(key).and_then(toml_edit::Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        None => document[key] = toml_edit::value(new),
    }
    let text = document.to_string();
    parse(&text)?;
    Ok(text)
}

/// Replaces the settings file.
///
/// # Errors
/// When it cannot be written.
pub fn save(lock: &StoreLock<'_>, disk: &dyn Disk, text: &str) -> Result<(), StoreError> {
    atomic::write(lock, disk, Path::new(layout::SETTINGS), text.as_bytes())
}

impl Settings {
    /// The value of a setting as text; none where there is no such setting.
    pub fn get(&self, key: &str) -> Option<String> {
        Some(match key {
            "format" => FORMAT.to_string(),
            "capacity" => self.capacity.to_string(),
            "timezone" => self.timezone.clone(),
            "grace" => format_duration(self.grace),
            "lock_timeout" => format_duration(self.lock_timeout),
            "keep" => self.keep.map_or_else(|| "forever".to_owned(), format_duration),
            "allow_network_fs" => self.allow_network_fs.to_string(),
            _ => return None,
        })
    }
}

fn settings_error(why: impl Into<String>) -> StoreError {
    StoreError::Settings { why: why.into() }
}
