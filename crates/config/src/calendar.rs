//! Units of the calendar: `unit: month` with its `anchor` and `timezone`.

use super::actor::Scope;
use super::limit_source::{is_brought, number_source};
use diana_base::time::Span;
use diana_calendar::{Calendar, Unit, Zone};
use diana_document::{Fields, Node, Value, fold, quoted};
use diana_limiter::policy::LimitSource;

const NO_CALENDAR: &str = "only `unit: day`, `week`, `month` and `year` have it: leave it out";
const NO_ZONE: &str = "expected a time zone of the IANA database such as `Europe/Berlin`";
const UNRULED: &str = "the clocks of this zone follow no yearly rule in the years to come: write the zone of its present \
    offset, such as `Etc/GMT-2` for two hours ahead of UTC";
const DAY_OF_MONTH: &str = "only the day of a month comes with the request: write `unit: month`";
const OF_THE_RULE: &str = "requests bring the day, on which all quotas of the rule begin: leave it out";

const WEEKDAYS: [(&str, u8); 7] = [
    ("monday", 0),
    ("tuesday", 1),
    ("wednesday", 2),
    ("thursday", 3),
    ("friday", 4),
    ("saturday", 5),
    ("sunday", 6),
];

/// The unit of the calendar that `unit` names, if no span has the name as well.
pub(super) fn long_unit(text: &str) -> Option<Unit> {
    [Unit::Week, Unit::Month, Unit::Year].into_iter().find(|unit| fold(text) == unit.name())
}

/// The length of the longest period.
pub(super) fn longest(unit: Unit) -> Span {
    Span::from_secs(unit.days().saturating_mul(86_400))
}

/// Reads `anchor` and `timezone`. `Some(None)` if the unit is a span, as a day is without them.
pub(super) fn calendar(fields: &mut Fields) -> Option<Option<Calendar>> {
    let (anchor, zone) = (fields.take("anchor"), fields.take("timezone"));
    let unit = match fields.take("unit").as_ref().map(Node::value) {
        Some(Value::Text(text)) => {
            let is_day = || diana_document::unit(text) == Some(longest(Unit::Day));
            let is_given = anchor.is_some() || zone.is_some();
            long_unit(text).or_else(|| (is_given && is_day()).then_some(Unit::Day))
        }
        _ => None,
    };
    let Some(unit) = unit else {
        let mut complete = Some(None);
        for node in [anchor, zone].into_iter().flatten() {
            node.fail(NO_CALENDAR);
            complete = None;
        }
        return complete;
    };
    let zone = zone.map_or(Some(Zone::UTC), |node| self::zone(&node));
    let calendar = match anchor {
        Some(node) => self::anchor(&node, Calendar::new(unit)),
        None => Some(Calendar::new(unit)),
    };
    let calendar = Calendar { zone: zone?, ..calendar? };
    Some(Some(calendar))
}

fn zone(node: &Node) -> Option<Zone> {
    let name = node.text()?;
    match Zone::named(name) {
        Some(Ok(zone)) => return Some(zone),
        Some(Err(_)) => node.fail(UNRULED),
        None => {
            let names: Vec<String> = Zone::names().collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match node.meant(name, &names) {
                Some(meant) => {
                    node.fail(
                        ["unknown time zone ", &quoted(name), ", did you mean `", meant, "`?"].concat(),
                    );
                }
                None => node.fail(NO_ZONE),
            }
        }
    }
    None
}

fn anchor(node: &Node, calendar: Calendar) -> Option<Calendar> {
    let Value::Object(entries) = node.value() else {
        return node.expected("where a period begins, such as `{day: 15, hour: 6}`");
    };
    if entries.is_empty() {
        node.fail("an empty object changes nothing: leave it out");
    }
    let unit = calendar.unit;
    let mut keys = node.fields()?;
    let hour = number(keys.take("hour"), 0, 23, calendar.hour);
    let weekday = match keys.take("weekday").filter(|_| unit == Unit::Week) {
        Some(node) => node.choice("weekday", &WEEKDAYS),
        None => Some(calendar.weekday),
    };
    let day = match keys.take("day").filter(|_| matches!(unit, Unit::Month | Unit::Year)) {
        Some(node) if is_brought(&node) => {
            if unit == Unit::Year {
                node.fail(DAY_OF_MONTH);
            }
            number(node.fields()?.take("default"), 1, 31, calendar.day)
        }
        node => number(node, 1, 31, calendar.day),
    };
    let month = number(keys.take("month").filter(|_| unit == Unit::Year), 1, 12, calendar.month);
    for (key, of, is_here) in [
        ("weekday", "`unit: week` has it", unit == Unit::Week),
        ("day", "`unit: month` and `unit: year` have it", matches!(unit, Unit::Month | Unit::Year)),
        ("month", "`unit: year` has it", unit == Unit::Year),
    ] {
        if let Some(node) = keys.take(key).filter(|_| !is_here) {
            node.fail(of);
        }
    }
    keys.finish();
    Some(Calendar { hour: hour?, weekday: weekday?, day: day?, month: month?, ..calendar })
}

fn number(node: Option<Node>, least: u64, most: u64, default: u8) -> Option<u8> {
    match node {
        Some(node) => node.whole(least..=most).and_then(|number| u8::try_from(number).ok()),
        None => Some(default),
    }
}

/// Reads where the requests of a rule show the day on which their month begins.
pub(super) fn day_source(fields: &mut Fields, changes: &[&Node], scope: &mut Scope) -> Option<LimitSource> {
    let anchor = fields.take("anchor").filter(is_brought)?;
    let mut keys = anchor.fields()?.take("day").filter(is_brought)?.fields()?;
    let actor = number_source(&mut keys, scope);
    let default = keys.require("default");
    keys.finish();
    for (_, change) in changes.iter().filter_map(|changes| changes.entries()).flatten() {
        let own = change.fields().filter(|_| is_brought(&change)).and_then(|mut keys| keys.take("anchor"));
        own.into_iter().for_each(|node| node.fail(OF_THE_RULE));
    }
    default.and(Some(LimitSource { actor: actor?, max: 31 }))
}
