//! Cron triggers against an oracle that shares nothing with them.
//!
//! The oracle keeps each random expression in the structured form that it was generated from, takes
//! the local time of every UTC minute of two years from `chrono-tz`, and decides minute by minute by
//! the plain meaning of each field. Gaps and folds are what that table shows: a jump forward or
//! back between neighbouring minutes. The product parses the text, and must find the same instants.

#![allow(clippy::unwrap_used)] // a test may

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::thread;

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Utc};
use wfctl::domain::trigger::{CronExpr, Definition, DstFold, DstGap, Rule, Trigger, Zone};

const EXPRESSIONS: u64 = 2000;
const SEED: u64 = 0x77_66_63_74_6c;

/// Zones with their first year; the table runs for two. Apia skipped a whole day in 2011.
const ZONES: [(&str, i32); 13] = [
    ("Europe/Berlin", 2027),
    ("America/New_York", 2027),
    ("America/Santiago", 2027),
    ("Africa/Cairo", 2027),
    ("Australia/Lord_Howe", 2027),
    ("America/Nuuk", 2027),
    ("Europe/Dublin", 2027),
    ("Africa/Casablanca", 2027),
    ("Asia/Kolkata", 2027),
    ("Pacific/Kiritimati", 2027),
    ("Antarctica/Troll", 2027),
    ("Pacific/Apia", 2011),
    ("America/St_Johns", 2010), // changed at one minute past midnight until 2011
];

/// The `SplitMix64` generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn range(&mut self, low: u32, high: u32) -> u32 {
        low + u32::try_from(self.next() % u64::from(high - low + 1)).unwrap()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.range(1, 100) <= percent
    }
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Any,
    AnyStep(u32),
    One(u32),
    Range(u32, u32),
    RangeStep(u32, u32, u32),
    Last,
    BeforeLast(u32),
    LastWorkday,
    Nearest(u32),
    Nth(u32, u32),
    LastOf(u32),
}

impl Item {
    fn numeric(random: &mut Random, min: u32, max: u32) -> Self {
        let low = random.range(min, max);
        let high = random.range(low, max);
        match random.range(0, 9) {
            0 => Self::Any,
            1 => Self::AnyStep(random.range(1, max)),
            2 | 3 => Self::Range(low, high),
            4 => Self::RangeStep(low, high, random.range(1, max)),
            _ => Self::One(low),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Any => "*".into(),
            Self::AnyStep(step) => format!("*/{step}"),
            Self::One(value) => format!("{value}"),
            Self::Range(low, high) => format!("{low}-{high}"),
            Self::RangeStep(low, high, step) => format!("{low}-{high}/{step}"),
            Self::Last => "L".into(),
            Self::BeforeLast(days) => format!("L-{days}"),
            Self::LastWorkday => "LW".into(),
            Self::Nearest(day) => format!("{day}W"),
            Self::Nth(weekday, nth) => format!("{weekday}#{nth}"),
            Self::LastOf(weekday) => format!("{weekday}L"),
        }
    }

    /// Whether the item names this value of a field that begins at `min`.
    fn holds(self, value: u32, min: u32) -> bool {
        match self {
            Self::Any => true,
            Self::AnyStep(step) => (value - min).is_multiple_of(step),
            Self::One(one) => value == one,
            Self::Range(low, high) => (low..=high).contains(&value),
            Self::RangeStep(low, high, step) => {
                (low..=high).contains(&value) && (value - low).is_multiple_of(step)
            }
            _ => false,
        }
    }

    fn is_single(self) -> bool {
        matches!(self, Self::One(_))
    }
}

#[derive(Debug)]
struct Field(Vec<Item>);

impl Field {
    fn random(random: &mut Random, percent_any: u32, mut item: impl FnMut(&mut Random) -> Item) -> Self {
        if random.chance(percent_any) {
            return Self(vec![Item::Any]);
        }
        let len = if random.chance(60) { 1 } else { random.range(2, 3) };
        Self((0..len).map(|_| item(random)).collect())
    }

    fn text(&self) -> String {
        self.0.iter().map(|item| item.text()).collect::<Vec<_>>().join(",")
    }

    fn holds(&self, value: u32, min: u32) -> bool {
        self.0.iter().any(|item| item.holds(value, min))
    }

    fn starts_with_star(&self) -> bool {
        matches!(self.0[0], Item::Any | Item::AnyStep(_))
    }
}

#[derive(Debug)]
struct Expression {
    seconds: Option<Field>,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Expression {
    fn random(random: &mut Random) -> Self {
        // Half of the hours are small, where most zones change their clocks.
        let early = random.chance(50);
        let fixed = random.chance(50);
        let hour_max = if early { 3 } else { 23 };
        let clock = |max: u32| {
            move |random: &mut Random| {
                if !fixed {
                    Item::numeric(random, 0, max)
                } else if random.chance(40) {
                    // Clocks change on the hour, or a few past it, and mostly at 2: the edges.
                    Item::One([0, 0, 1, 2][random.range(0, 3) as usize])
                } else {
                    Item::One(random.range(0, max))
                }
            }
        };
        Self {
            seconds: random
                .chance(20)
                .then(|| Field::random(random, 0, |random| Item::One(random.range(0, 59)))),
            minutes: Field::random(random, if fixed { 0 } else { 15 }, clock(59)),
            hours: Field::random(random, if fixed { 0 } else { 30 }, clock(hour_max)),
            days: Field::random(random, 55, |random| match random.range(0, 11) {
                0 => Item::Last,
                1 => Item::BeforeLast(random.range(1, 30)),
                2 => Item::LastWorkday,
                3 | 4 => Item::Nearest([1, 31, random.range(1, 31)][random.range(0, 2) as usize]),
                _ => Item::numeric(random, 1, 31),
            }),
            months: Field::random(random, 70, |random| Item::numeric(random, 1, 12)),
            weekdays: Field::random(random, 55, |random| match random.range(0, 7) {
                0 => Item::Nth(random.range(0, 7), random.range(1, 5)),
                1 => Item::LastOf(random.range(0, 7)),
                _ => Item::numeric(random, 0, 7),
            }),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(seconds) = &self.seconds {
            write!(text, "{} ", seconds.text()).unwrap();
        }
        for field in [&self.minutes, &self.hours, &self.days, &self.months] {
            write!(text, "{} ", field.text()).unwrap();
        }
        text + &self.weekdays.text()
    }

    fn is_fixed(&self) -> bool {
        self.minutes.0.iter().chain(&self.hours.0).all(|item| item.is_single())
    }

    fn seconds(&self) -> BTreeSet<i64> {
        match &self.seconds {
            None => BTreeSet::from([0]),
            Some(field) => (0..60).filter(|second| field.holds(*second, 0)).map(i64::from).collect(),
        }
    }

    fn holds_date(&self, date: NaiveDate) -> bool {
        if !self.months.holds(date.month(), 1) {
            return false;
        }
        let by_day = self.days.0.iter().any(|item| holds_day(*item, date));
        let by_weekday = self.weekdays.0.iter().any(|item| holds_weekday(*item, date));
        if self.days.starts_with_star() || self.weekdays.starts_with_star() {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        }
    }
}

fn days_of_month(date: NaiveDate) -> Vec<NaiveDate> {
    let first = date.with_day(1).unwrap();
    first.iter_days().take_while(|day| day.month() == date.month()).collect()
}

fn workdays(date: NaiveDate) -> Vec<NaiveDate> {
    days_of_month(date).into_iter().filter(|day| day.weekday().number_from_monday() <= 5).collect()
}

fn holds_day(item: Item, date: NaiveDate) -> bool {
    let days = days_of_month(date);
    match item {
        Item::Last => days.last() == Some(&date),
        Item::BeforeLast(back) => days.iter().rev().nth(back as usize) == Some(&date),
        Item::LastWorkday => workdays(date).last() == Some(&date),
        Item::Nearest(day) => date.with_day(day).is_some_and(|wanted| {
            workdays(date).into_iter().min_by_key(|day| (*day - wanted).num_days().abs()) == Some(date)
        }),
        _ => item.holds(date.day(), 1),
    }
}

fn holds_weekday(item: Item, date: NaiveDate) -> bool {
    let sunday_based = date.weekday().num_days_from_sunday();
    let alike = || days_of_month(date).into_iter().filter(|day| day.weekday() == date.weekday());
    match item {
        Item::Nth(weekday, nth) => weekday % 7 == sunday_based && alike().nth(nth as usize - 1) == Some(date),
        Item::LastOf(weekday) => weekday % 7 == sunday_based && alike().next_back() == Some(date),
        _ => item.holds(sunday_based, 0) || (sunday_based == 0 && item.holds(7, 0)),
    }
}

/// The local time of every UTC minute of two years.
struct Table {
    zone: Zone,
    start: DateTime<Utc>,
    first_date: NaiveDate,
    minutes: Vec<Stamp>,
    jumps: Vec<Jump>,
    /// The indices of the first minutes after a jump in either direction.
    changes: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Stamp {
    day: u16,
    hour: u8,
    minute: u8,
    pass: Pass,
}

#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Only,
    First,
    Second,
}

/// A jump forward: the missing local minutes, and the index of the first minute after them.
struct Jump {
    missing: Vec<NaiveDateTime>,
    index: usize,
}

impl Table {
    fn new(name: &str, year: i32) -> Self {
        let zone: chrono_tz::Tz = name.parse().unwrap();
        let start = NaiveDate::from_ymd_opt(year, 1, 1).unwrap().and_time(chrono::NaiveTime::MIN).and_utc();
        let first_date = start.date_naive() - Days::new(2);
        let end = start + Days::new(731);
        let mut locals = Vec::new();
        let mut now = start;
        while now < end {
            locals.push(now.with_timezone(&zone).naive_local());
            now += TimeDelta::minutes(1);
        }
        let minutes = locals.iter().map(|local| Stamp {
            day: u16::try_from((local.date() - first_date).num_days()).unwrap(),
            hour: u8::try_from(local.hour()).unwrap(),
            minute: u8::try_from(local.minute()).unwrap(),
            pass: Pass::Only,
        });
        let mut table = Self {
            zone: Zone::parse(name).unwrap(),
            start,
            first_date,
            minutes: minutes.collect(),
            jumps: Vec::new(),
            changes: Vec::new(),
        };
        table.find_changes(&locals);
        table
    }

    /// Jumps between neighbouring minutes, forward (gaps) and back (folds).
    fn find_changes(&mut self, locals: &[NaiveDateTime]) {
        for index in 1..locals.len() {
            let expected = locals[index - 1] + TimeDelta::minutes(1);
            let ahead = (locals[index] - expected).num_minutes();
            if ahead != 0 {
                self.changes.push(index);
            }
            if ahead > 0 {
                let missing = (0..ahead).map(|minute| expected + TimeDelta::minutes(minute)).collect();
                self.jumps.push(Jump { missing, index });
            } else if ahead < 0 {
                let back = usize::try_from(-ahead).unwrap();
                for minute in &mut self.minutes[index - back..index] {
                    minute.pass = Pass::First;
                }
                for minute in &mut self.minutes[index..index + back] {
                    minute.pass = Pass::Second;
                }
            }
        }
    }

    fn instant(&self, index: usize) -> i64 {
        self.start.timestamp() + 60 * i64::try_from(index).unwrap()
    }
}

/// What the oracle finds in a part of the table.
#[derive(Default)]
struct Truth {
    occurrences: BTreeSet<i64>,
    skipped: BTreeSet<i64>,
}

fn scan(
    table: &Table,
    expression: &Expression,
    gap: DstGap,
    fold: DstFold,
    part: std::ops::Range<usize>,
) -> Truth {
    let mut dates = vec![None; 736];
    let mut holds_date = |day: u16| {
        let date = table.first_date + Days::new(u64::from(day));
        *dates[usize::from(day)].get_or_insert_with(|| expression.holds_date(date))
    };
    let hours: Vec<bool> = (0..24).map(|hour| expression.hours.holds(hour, 0)).collect();
    let minutes: Vec<bool> = (0..60).map(|minute| expression.minutes.holds(minute, 0)).collect();
    let seconds = expression.seconds();
    let fixed = expression.is_fixed();
    let mut truth = Truth::default();
    for index in part.clone() {
        let minute = table.minutes[index];
        if !minutes[usize::from(minute.minute)] || !hours[usize::from(minute.hour)] || !holds_date(minute.day)
        {
            continue;
        }
        let counts = match (minute.pass, fold) {
            _ if !fixed => true,
            (Pass::Only, _) | (_, DstFold::Both) => true,
            (Pass::First, fold) => fold == DstFold::First,
            (Pass::Second, fold) => fold == DstFold::Last,
        };
        if counts {
            truth.occurrences.extend(seconds.iter().map(|second| table.instant(index) + second));
        }
    }
    for jump in table.jumps.iter().filter(|jump| fixed && part.contains(&jump.index)) {
        let lost = jump.missing.iter().any(|local| {
            minutes[local.minute() as usize]
                && hours[local.hour() as usize]
                && expression.holds_date(local.date())
        });
        let after = table.instant(jump.index);
        if lost && gap == DstGap::Next {
            truth.occurrences.insert(after);
        } else if lost && !truth.occurrences.contains(&after) {
            truth.skipped.insert(after);
        }
    }
    truth
}

fn time(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap()
}

/// Compares one expression in one part of the table.
fn compare(table: &Table, expression: &Expression, gap: DstGap, fold: DstFold, part: std::ops::Range<usize>) {
    let text = expression.text();
    let rule = Rule::Cron(CronExpr::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")));
    let zone = table.zone.clone();
    let trigger =
        Trigger::new(Definition { zone, dst_gap: gap, dst_fold: fold, ..Definition::new(rule.clone()) });
    let truth = scan(table, expression, gap, fold, part.clone());
    let (before, last) = (time(table.instant(part.start) - 1), time(table.instant(part.end) - 1));
    let place = || format!("{text} {:?} {gap:?} {fold:?} {before}..={last}", table.zone);

    let Rule::Cron(cron) = &rule else { unreachable!() };
    assert_eq!(cron.is_fixed(), expression.is_fixed(), "{}", place());
    let window = trigger.window("s", before, last);
    assert_eq!(window.count(), truth.occurrences.len() as u64, "count of {}", place());
    let skipped: Vec<_> = window.skipped_by_gap();
    assert!(
        skipped.iter().map(DateTime::timestamp).eq(truth.skipped.iter().copied()),
        "skipped of {}",
        place()
    );
    let found = trigger.last_until(last).filter(|last| *last > before).map(|at| at.timestamp());
    assert_eq!(found, truth.occurrences.last().copied(), "last of {}", place());

    let mut found = trigger.occurrences_after(before);
    for wanted in truth.occurrences.iter().take(400) {
        assert_eq!(found.next(), Some(time(*wanted)), "next of {}", place());
    }
    if truth.occurrences.len() <= 400 {
        assert!(found.next().is_none_or(|next| next > last), "one too many of {}", place());
    }
    let newest: Vec<_> = window.newest(300, before).iter().map(DateTime::timestamp).collect();
    let wanted = truth.occurrences.iter().rev().take(300).rev();
    assert!(newest.iter().eq(wanted), "newest of {}", place());
}

/// One expression: around each change of the clock, in one random stretch, and every twentieth one in
/// all of the two years.
fn check_expression(tables: &[Table], number: u64) {
    const DAY: usize = 1440;
    let mut random = Random(SEED ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let expression = Expression::random(&mut random);
    let table = &tables[usize::try_from(number).unwrap() % tables.len()];
    let gap = if random.chance(70) { DstGap::Next } else { DstGap::Skip };
    let fold = match random.range(0, 3) {
        0 => DstFold::Last,
        1 => DstFold::Both,
        _ => DstFold::First,
    };
    let end = table.minutes.len();
    if number.is_multiple_of(20) {
        compare(table, &expression, gap, fold, 0..end);
        return;
    }
    for &change in &table.changes {
        let part = change.saturating_sub(2 * DAY)..(change + 2 * DAY).min(end);
        compare(table, &expression, gap, fold, part);
    }
    let start = usize::try_from(random.next()).unwrap() % (end - 40 * DAY);
    compare(table, &expression, gap, fold, start..start + 40 * DAY);
}

#[test]
fn random_expressions_fire_when_the_oracle_says() {
    let workers = thread::available_parallelism().map_or(2, usize::from).min(8);
    let tables: Vec<Table> = thread::scope(|scope| {
        let making: Vec<_> =
            ZONES.iter().map(|(name, year)| scope.spawn(move || Table::new(name, *year))).collect();
        making.into_iter().map(|table| table.join().unwrap()).collect()
    });
    let with_both = tables.iter().filter(|table| {
        !table.jumps.is_empty() && table.minutes.iter().any(|minute| minute.pass == Pass::Second)
    });
    assert!(with_both.count() >= 10, "most zones change their clocks in both directions");
    thread::scope(|scope| {
        for worker in 0..workers {
            let tables = &tables;
            scope.spawn(move || {
                for number in (worker as u64..EXPRESSIONS).step_by(workers) {
                    check_expression(tables, number);
                }
            });
        }
    });
}
