//! Promises that hold for every trigger and every text, by random examples.

use proptest::prelude::*;

use super::*;

/// 2027-01-01T00:00:00Z.
const YEAR: i64 = 1_798_761_600;

fn time(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap()
}

fn any_zone() -> impl Strategy<Value = Zone> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/Santiago",
        "Australia/Lord_Howe",
        "Africa/Cairo",
    ])
    .prop_map(|name| Zone::parse(name).unwrap())
}

/// Expressions of all densities, so that some windows hold many occurrences and some none.
fn any_cron() -> impl Strategy<Value = Rule> {
    let clock = prop_oneof![
        Just("* *".to_owned()),
        (0..60u32, 0..24u32).prop_map(|(minute, hour)| format!("{minute} {hour}")),
        (1..60u32, 1..5u32).prop_map(|(step, hour)| format!("*/{step} 0-{hour}")),
        (0..60u32, 1..60u32).prop_map(|(second, step)| format!("{second} */{step} *")),
        (0..60u32, 0..3u32).prop_map(|(minute, hour)| format!("0,{minute} {hour},{}", hour + 1)),
    ];
    let date = prop::sample::select(vec![
        "* * *", "1,15 * *", "L * 5", "15W * *", "* * 1-5", "*/2 * 0", "13 * 5", "28 3 *", "29 2 *",
        "30 2 *", "* * 5#5",
    ]);
    (clock, date).prop_map(|(clock, date)| Rule::Cron(CronExpr::parse(&format!("{clock} {date}")).unwrap()))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        4 => any_cron(),
        1 => (1u64..500_000, -100_000i64..100_000).prop_map(|(period, anchor)| Rule::Every {
            period: Duration::from_secs(period),
            anchor: time(YEAR + anchor),
        }),
        1 => (0i64..31_536_000).prop_map(|second| Rule::At(time(YEAR + second))),
    ]
}

prop_compose! {
    fn any_trigger()(
        rule in any_rule(),
        zone in any_zone(),
        start in prop::option::of(-1_000_000i64..20_000_000),
        until in prop::option::of(0i64..40_000_000),
        count in prop::option::of(0u64..5000),
        jitter in prop_oneof![Just(0u64), 0u64..100_000],
        skip: bool,
        dst_fold in prop::sample::select(vec![DstFold::First, DstFold::Last, DstFold::Both]),
    ) -> Trigger {
        Trigger::new(Definition {
            rule,
            zone,
            start: start.map(|second| time(YEAR + second)),
            until: until.map(|second| time(YEAR + second)),
            count,
            jitter: Duration::from_secs(jitter),
            dst_gap: if skip { DstGap::Skip } else { DstGap::Next },
            dst_fold,
        })
    }
}

proptest! {
    #[test]
    fn next_is_strictly_increasing_and_inside_the_bounds(trigger in any_trigger(), after in 0i64..31_536_000) {
        let mut last = time(YEAR + after);
        for next in trigger.occurrences_after(last).take(50) {
            prop_assert!(next > last);
            prop_assert!(trigger.definition().start.is_none_or(|start| start <= next));
            prop_assert!(trigger.definition().until.is_none_or(|until| next <= until));
            prop_assert_eq!(trigger.last_until(next), Some(next));
            prop_assert!(trigger.last_until(next - TimeDelta::seconds(1)).is_none_or(|previous| previous < next));
            prop_assert_eq!(trigger.count_between(last, next), 1);
            last = next;
        }
    }

    #[test]
    fn a_window_equals_a_naive_enumeration(
        trigger in any_trigger(),
        cursor in 0i64..31_536_000,
        length in -1000i64..200_000,
        limit in 0u64..300,
    ) {
        let (cursor, now) = (time(YEAR + cursor), time(YEAR + cursor + length));
        let window = trigger.window("s", cursor, now);
        let naive: Vec<_> = trigger
            .occurrences_after(cursor)
            .take_while(|at| *at <= now && trigger.due_time("s", *at) <= now)
            .collect();
        prop_assert_eq!(window.count(), naive.len() as u64);
        prop_assert_eq!(window.first_in(cursor, now), naive.first().copied());
        prop_assert_eq!(window.last_in(cursor, now), naive.last().copied());
        let skip = naive.len().saturating_sub(usize::try_from(limit).unwrap());
        prop_assert_eq!(window.newest(limit, cursor), &naive[skip..]);
        prop_assert!(window.through() >= cursor && window.through() <= cursor.max(now));
        let waiting = trigger.next_after(window.through()).filter(|next| *next <= now && now >= cursor);
        prop_assert!(waiting.is_none_or(|next| trigger.due_time("s", next) > now));
        for skipped in window.skipped_by_gap() {
            prop_assert!(skipped > cursor && skipped <= window.through() && !naive.contains(&skipped));
        }
    }

    #[test]
    fn no_text_panics_or_hangs(text in ".{0,60}", after: i64) {
        let _ = Zone::parse(&text);
        let _ = parse_every(&text);
        let _ = parse_time(&text, &Zone::utc(), time(YEAR));
        if let Ok(cron) = CronExpr::parse(&text) {
            let trigger = Trigger::new(Definition::new(Rule::Cron(cron)));
            let _ = trigger.next_after(DateTime::from_timestamp(after, 0).unwrap_or_default());
        }
    }

    #[test]
    fn texts_that_look_right_are_read_or_refused_and_searched_in_bounds(
        fields in prop::collection::vec("[0-9*/,LW#a-c-]{1,6}|\\*|[0-9]{1,2}|(mon|FEB|5L|1#3|15w|L-3|\\*/2)", 4..8),
        stamp in "[0-9]{4}-[01][0-9]-[0-3][0-9][T ]?[0-9:.]{0,9}[Z+-]?[0-9:]{0,5}",
        length in "\\+?[0-9]{1,20} ?[a-zM]{1,3}",
        after in any::<i64>(),
    ) {
        if let Ok(cron) = CronExpr::parse(&fields.join(" ")) {
            for zone in ["UTC", "America/New_York"] {
                let zone = Zone::parse(zone).unwrap();
                let trigger = Trigger::new(Definition { zone, ..Definition::new(Rule::Cron(cron.clone())) });
                let after = time(after.rem_euclid(LAST_SECOND));
                prop_assert!(trigger.next_after(after).is_none_or(|next| next > after));
                let _ = trigger.check();
            }
        }
        for text in [stamp, length] {
            let time = parse_time(&text, &Zone::parse("Africa/Cairo").unwrap(), time(YEAR));
            prop_assert!(time.is_err() || time.is_ok_and(|time| time.timestamp() <= LAST_SECOND));
            let _ = parse_every(&text);
        }
    }
}

proptest! {
    // Thousands of years each: fewer cases say as much.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_of_neighbouring_stretches_add_up(
        rule in any_rule(),
        zone in any_zone(),
        mut cuts in prop::array::uniform3(0i64..=LAST_SECOND),
    ) {
        cuts.sort_unstable();
        let trigger = Trigger::new(Definition { zone, ..Definition::new(rule) });
        let [a, b, c] = cuts.map(time);
        prop_assert_eq!(
            trigger.count_between(a, b) + trigger.count_between(b, c),
            trigger.count_between(a, c)
        );
    }

    #[test]
    fn count_ends_after_as_many_occurrences_as_it_says(rule in any_rule(), zone in any_zone(), count in 0u64..100_000) {
        let unbounded = Definition { zone, start: Some(time(YEAR)), ..Definition::new(rule) };
        let bounded = Trigger::new(Definition { count: Some(count), ..unbounded.clone() });
        let end = time(LAST_SECOND);
        let all = Trigger::new(unbounded).count_between(time(0), end);
        prop_assert_eq!(bounded.count_between(time(0), end), count.min(all));
        prop_assert_eq!(bounded.check().is_ok(), count.min(all) > 0);
    }
}

#[test]
fn the_most_distant_searches_are_quick() {
    // Bounds at the ends of all time, and expressions without a date, must not cost noticeable work.
    let started = std::time::Instant::now();
    for expr in ["0 0 30 2 *", "0 0 29 2 5#5", "* * * * * *", "0 0 31 4 1#1"] {
        for zone in ["UTC", "Europe/Berlin"] {
            let zone = Zone::parse(zone).unwrap();
            let rule = Rule::Cron(CronExpr::parse(expr).unwrap());
            let trigger = Trigger::new(Definition { zone, ..Definition::new(rule) });
            for t in [DateTime::<Utc>::MIN_UTC, time(0), time(LAST_SECOND), DateTime::<Utc>::MAX_UTC] {
                let _ = (trigger.next_after(t), trigger.last_until(t), trigger.count_between(time(0), t));
                let window = trigger.window("s", DateTime::<Utc>::MIN_UTC, t);
                let _ = (window.count(), window.newest(100, window.cursor()), window.through());
            }
        }
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
