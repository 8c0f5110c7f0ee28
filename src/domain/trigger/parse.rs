//! The grammar of cron expressions.
//!
//! Each field is a comma list; each item a value, a range, a step over a range or `*`, and in the day
//! fields one of the forms with `L`, `W` and `#`. Whatever implementations read differently is
//! refused with a hint. Deliberately not here: whether the dates that it names exist.

use super::calendar::DayRule;
use super::cron::CronExpr;
use super::error::{TriggerError, quote};

/// Longer expressions are refused before they are read.
const MAX_LEN: usize = 1000;

struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", min: 0, max: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY: Field = Field { name: "day-of-month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
const WEEKDAY: Field =
    Field { name: "weekday", min: 0, max: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

/// What is wrong with a field, and what to write instead.
struct Refusal {
    why: String,
    hint: String,
}

fn refuse<T>(why: impl Into<String>, hint: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { why: why.into(), hint: hint.into() })
}

impl Field {
    /// Adds what was refused where.
    fn read<T>(
        &self,
        text: &str,
        read: impl Fn(&Self, &str) -> Result<T, Refusal>,
    ) -> Result<T, TriggerError> {
        read(self, text).map_err(|Refusal { why, hint }| TriggerError::Field {
            field: self.name,
            text: quote(text),
            why,
            hint,
        })
    }

    /// A number, or a name, inside the bounds of the field.
    fn value(&self, text: &str) -> Result<u32, Refusal> {
        if let Some(index) = (0..).zip(self.names).find_map(|(i, name)| (*name == text).then_some(i)) {
            return Ok(index + self.min);
        }
        let (min, max) = (self.min, self.max);
        let Some(value) = number(text) else {
            let what = if self.names.is_empty() { "a number" } else { "a number or a three-letter name" };
            return match text {
                "" => refuse("a value is missing", format!("write {what} from {min} to {max}")),
                "?" => refuse("'?' is not part of cron", "write * for any"),
                _ => refuse(
                    format!("{:?} is not {what}", quote(text)),
                    format!("values are {min} to {max}, with * , - and / around them"),
                ),
            };
        };
        if value < min || value > max {
            let side = if value < min { format!("below {min}") } else { format!("above {max}") };
            return refuse(format!("{value} is {side}"), format!("use {min} to {max}"));
        }
        Ok(value)
    }

    /// `*`, `*/n`, `a`, `a-b`, `a-b/n`: the first value, the last, and the step.
    fn range(&self, text: &str) -> Result<(u32, u32, u32), Refusal> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let (first, last) = if range == "*" {
            (self.min, self.max)
        } else if let Some((first, last)) = range.split_once('-') {
            let first = self.value(first)?;
            // Sunday is 0 and 7, so a range of names that ends in it ends the week.
            let last = if last == "SUN" && first > 0 { 7 } else { self.value(last)? };
            if first > last {
                return refuse(
                    format!("the range {} runs backwards", quote(range)),
                    format!("split it: {first}-{},{}-{last}", self.max, self.min),
                );
            }
            (first, last)
        } else {
            let value = self.value(range)?;
            if step.is_some() {
                return refuse(
                    "a step needs a range or * before it",
                    format!(
                        "write {value}-{}/{} to step from {value} on",
                        self.max,
                        step.unwrap_or_default()
                    ),
                );
            }
            (value, value)
        };
        Ok((first, last, step.map_or(Ok(1), |step| self.step(step))?))
    }

    fn step(&self, text: &str) -> Result<u32, Refusal> {
        let hint = || format!("use a step from 1 to {}", self.max);
        match number(text) {
            None => refuse(format!("the step {:?} is not a number", quote(text)), hint()),
            Some(0) => refuse("a step of 0 never moves on", hint()),
            Some(step) if step > self.max => refuse(
                format!("the step {step} is beyond the field, whose highest value is {}", self.max),
                hint(),
            ),
            Some(step) => Ok(step),
        }
    }

    /// The values of one item as bits.
    fn item(&self, text: &str) -> Result<u64, Refusal> {
        let (first, last, step) = self.range(text)?;
        Ok((first..=last).step_by(step as usize).fold(0, |mask, value| mask | 1 << value))
    }

    /// The values of the whole field as bits.
    fn list(&self, text: &str) -> Result<u64, Refusal> {
        text.split(',').try_fold(0, |mask, item| Ok(mask | self.item(item)?))
    }
}

/// At most four digits, and nothing else.
fn number(text: &str) -> Option<u32> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// The bits of a field whose highest value is below 32.
fn low_bits(mask: u64) -> u32 {
    u32::try_from(mask).unwrap_or(0)
}

/// See [`CronExpr::parse`].
pub(super) fn expression(text: &str) -> Result<CronExpr, TriggerError> {
    let refuse_all =
        |why: String, hint: &str| TriggerError::Expression { text: quote(text), why, hint: hint.into() };
    if text.len() > MAX_LEN {
        return Err(refuse_all(format!("it is longer than {MAX_LEN} bytes"), "use more than one schedule"));
    }
    let upper = text.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_ascii_whitespace().collect();
    let written = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if let [name] = words[..]
        && name.starts_with('@')
    {
        let fields = nickname(name).map_err(|(why, hint)| refuse_all(why.into(), hint))?;
        return from_fields(written, &fields.split(' ').collect::<Vec<_>>(), "0");
    }
    match words[..] {
        [second, ref fields @ ..] if fields.len() == 5 => from_fields(written, fields, second),
        ref fields if fields.len() == 5 => from_fields(written, fields, "0"),
        [] => {
            Err(refuse_all("it is empty".into(), "write five fields: minute hour day-of-month month weekday"))
        }
        ref fields => Err(refuse_all(
            match fields.len() {
                1 => "it has 1 field".into(),
                count => format!("it has {count} fields"),
            },
            "write five fields (minute hour day-of-month month weekday), or six with seconds in front; \
             there is no field for years",
        )),
    }
}

fn nickname(name: &str) -> Result<&'static str, (&'static str, &'static str)> {
    Ok(match name {
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        "@REBOOT" => {
            return Err((
                "@reboot is a moment of the machine, not a time",
                "call wfctl run from a boot-time unit or from cron's own @reboot",
            ));
        }
        _ => {
            return Err((
                "there is no such name",
                "use @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
            ));
        }
    })
}

fn from_fields(text: String, fields: &[&str], second: &str) -> Result<CronExpr, TriggerError> {
    let &[minute, hour, day, month, weekday] = fields else {
        unreachable!("the caller counted five fields");
    };
    let seconds = SECOND.read(second, Field::list)?;
    let minutes = MINUTE.read(minute, Field::list)?;
    let hours = HOUR.read(hour, Field::list)?;
    let mut days = DayRule { both: day.starts_with('*') || weekday.starts_with('*'), ..DayRule::default() };
    for item in day.split(',') {
        days = DAY.read(item, |field, item| day_item(field, item, days.clone()))?;
    }
    let months = low_bits(MONTH.read(month, Field::list)?);
    for item in weekday.split(',') {
        days = WEEKDAY.read(item, |field, item| weekday_item(field, item, days.clone()))?;
    }
    let fixed = !minute.contains(['*', '-', '/']) && !hour.contains(['*', '-', '/']);
    Ok(CronExpr { text, seconds, minutes, hours, days, months, fixed })
}

/// Adds one item of the day-of-month field to the rule.
fn day_item(field: &Field, item: &str, mut rule: DayRule) -> Result<DayRule, Refusal> {
    if item == "L" {
        rule.from_last |= 1;
    } else if item == "LW" {
        rule.last_workday = true;
    } else if let Some(back) = item.strip_prefix("L-") {
        match number(back) {
            Some(back @ 1..=30) => rule.from_last |= 1 << back,
            _ => {
                return refuse(
                    "L- needs a number of days",
                    "write L-1 to L-30: days before the last of the month",
                );
            }
        }
    } else if let Some(day) = item.strip_suffix('W') {
        if day.contains(['-', '/', '*']) {
            return refuse("W takes a single day", "write 15W, or a list: 1W,15W");
        }
        rule.nearest |= 1 << field.value(day)?;
    } else {
        rule.days |= low_bits(field.item(item)?);
    }
    Ok(rule)
}

/// Adds one item of the weekday field to the rule.
fn weekday_item(field: &Field, item: &str, mut rule: DayRule) -> Result<DayRule, Refusal> {
    let single = |text: &str| {
        if text.contains(['-', '/', '*']) {
            return refuse("# and L take a single weekday", "write a list: 1#1,5#1");
        }
        Ok(1u8 << (field.value(text)? % 7))
    };
    if item == "L" {
        return refuse(
            "L needs a weekday before it",
            "write 5L for the last Friday; the last day of the month is L in the day-of-month field",
        );
    }
    if let Some((day, nth)) = item.split_once('#') {
        let day = single(day)?;
        match number(nth) {
            Some(nth @ 1..=5) => rule.nth[nth as usize - 1] |= day,
            None if nth == "L" => rule.last |= day,
            _ => return refuse("after # only 1 to 5 or L can stand", "write 5#2 for the second Friday"),
        }
    } else if let Some(day) = item.strip_suffix('L') {
        rule.last |= single(day)?;
    } else {
        let mask = low_bits(field.item(item)?);
        rule.weekdays |= u8::try_from((mask | mask >> 7) & 0x7f).unwrap_or(0); // 7 is Sunday too
    }
    Ok(rule)
}
