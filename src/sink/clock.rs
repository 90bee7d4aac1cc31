//! Time stamps at the speed of a copy: the date and time to the second are made once a second.

use chrono::{Local, Offset, TimeZone};

use crate::config::Zone;

/// Seconds east of UTC at a second since 1970.
pub(super) type OffsetAt = fn(i64) -> i32;

/// No zone changes its offset at another moment than a full quarter of an hour.
const QUARTER: i64 = 900;

/// Writes time stamps, and tells days and hours, in one zone.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    offset_at: Option<OffsetAt>,
    quarter: i64,
    offset: i32,
    second: i64,
    text: [u8; 19],
    suffix: [u8; 6],
}

impl Clock {
    pub(super) fn new(zone: Zone) -> Clock {
        Clock::with_offset(match zone {
            Zone::Utc => None,
            Zone::Local => Some(local_offset),
        })
    }

    /// A clock of any zone.
    pub(super) fn with_offset(offset_at: Option<OffsetAt>) -> Clock {
        Clock { offset_at, quarter: i64::MIN, offset: 0, second: i64::MIN, text: [0; 19], suffix: *b"Z     " }
    }

    /// Seconds since 1970 as the clocks on the wall of the zone show them.
    fn wall(&mut self, second: i64) -> i64 {
        if let Some(offset_at) = self.offset_at
            && self.quarter != second.div_euclid(QUARTER)
        {
            self.quarter = second.div_euclid(QUARTER);
            // A stamp has whole minutes.
            self.offset = offset_at(second) / 60 * 60;
            let minutes = self.offset.unsigned_abs() / 60;
            self.suffix[0] = if self.offset < 0 { b'-' } else { b'+' };
            two_digits(&mut self.suffix[1..3], minutes / 60);
            self.suffix[3] = b':';
            two_digits(&mut self.suffix[4..6], minutes % 60);
        }
        second + i64::from(self.offset)
    }

    /// The number of the day in the zone, counted from 1970-01-01.
    pub(super) fn day(&mut self, nanos: i64) -> i64 {
        self.wall(nanos.div_euclid(1_000_000_000)).div_euclid(86_400)
    }

    /// The number of the hour in the zone, counted from 1970-01-01T00.
    pub(super) fn hour(&mut self, nanos: i64) -> i64 {
        self.wall(nanos.div_euclid(1_000_000_000)).div_euclid(3_600)
    }

    /// Appends `2026-11-30T23:04:02.123456Z`, or with the zone's offset instead of `Z`.
    pub(super) fn write_micros(&mut self, nanos: i64, out: &mut Vec<u8>) {
        self.write::<6>(nanos, out);
    }

    /// Appends `2026-11-30T23:04:02.123456789Z`, or with the zone's offset instead of `Z`.
    pub(super) fn write_nanos(&mut self, nanos: i64, out: &mut Vec<u8>) {
        self.write::<9>(nanos, out);
    }

    fn write<const DIGITS: usize>(&mut self, nanos: i64, out: &mut Vec<u8>) {
        let second = nanos.div_euclid(1_000_000_000);
        if second != self.second {
            let wall = self.wall(second);
            write_second(wall, &mut self.text);
            self.second = second;
        }
        let mut stamp = [0; 35];
        stamp[..19].copy_from_slice(&self.text);
        stamp[19] = b'.';
        let fraction = nanos.rem_euclid(1_000_000_000) as u32;
        // Six digits, and three more that are overwritten where they are not wanted.
        let (micros, rest) = (fraction / 1_000, fraction % 1_000);
        two_digits(&mut stamp[20..22], micros / 10_000);
        two_digits(&mut stamp[22..24], micros / 100 % 100);
        two_digits(&mut stamp[24..26], micros % 100);
        two_digits(&mut stamp[26..28], rest / 10);
        stamp[28] = b'0' + (rest % 10) as u8;
        stamp[20 + DIGITS..26 + DIGITS].copy_from_slice(&self.suffix);
        let zone = if self.offset_at.is_some() { 6 } else { 1 };
        out.extend_from_slice(&stamp[..20 + DIGITS + zone]);
    }
}

fn local_offset(second: i64) -> i32 {
    Local.timestamp_opt(second, 0).single().map_or(0, |time| time.offset().fix().local_minus_utc())
}

fn two_digits(to: &mut [u8], value: u32) {
    to[0] = b'0' + (value / 10 % 10) as u8;
    to[1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of the day with this number, by the method of
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
pub(super) fn civil(day: i64) -> (u32, u32, u32) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    // Nanoseconds in an i64 reach from 1677 to 2262.
    (year as u32, month as u32, day as u32)
}

fn write_second(wall: i64, text: &mut [u8; 19]) {
    let (year, month, day) = civil(wall.div_euclid(86_400));
    let second = wall.rem_euclid(86_400) as u32;
    *text = *b"0000-00-00T00:00:00";
    two_digits(&mut text[0..2], year / 100);
    two_digits(&mut text[2..4], year);
    two_digits(&mut text[5..7], month);
    two_digits(&mut text[8..10], day);
    two_digits(&mut text[11..13], second / 3_600);
    two_digits(&mut text[14..16], second / 60 % 60);
    two_digits(&mut text[17..19], second % 60);
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, SecondsFormat};
    use proptest::prelude::*;

    fn nanos(clock: &mut Clock, time: i64) -> String {
        let mut out = Vec::new();
        clock.write_nanos(time, &mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn stamps_are_those_of_chrono(times: Vec<i64>) {
            let (mut utc, mut local) = (Clock::new(Zone::Utc), Clock::new(Zone::Local));
            for time in times {
                let expected = DateTime::from_timestamp_nanos(time);
                prop_assert_eq!(nanos(&mut utc, time), expected.to_rfc3339_opts(SecondsFormat::Nanos, true));
                let here = expected.with_timezone(&Local);
                if here.offset().fix().local_minus_utc() % 60 == 0 {
                    let expected = here.to_rfc3339_opts(SecondsFormat::Nanos, false);
                    prop_assert_eq!(nanos(&mut local, time), expected);
                }
            }
        }
    }

    #[test]
    fn a_zone_shows_its_offset_and_its_own_midnight() {
        let mut clock = Clock::with_offset(Some(|_| -12_600));
        let time = 1_796_083_442_123_456_789;
        let mut out = Vec::new();
        clock.write_micros(time, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "2026-11-30T20:34:02.123456-03:30");
        let mut utc = Clock::new(Zone::Utc);
        let midnight = utc.day(time) * 86_400_000_000_000;
        assert_eq!(clock.day(midnight), utc.day(midnight) - 1);
        assert_eq!(clock.hour(midnight), utc.hour(midnight) - 4, "half past eight in the evening");
    }
}
