//! A time of day in which nodes may go down; who starts must be able to finish in it.

use std::time::Duration;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::Gate;

/// On these days from this time for so long, by the clocks of a place.
///
/// When those clocks are put forward over the start, it is as much later as they are (02:30 is 03:30); when they are
/// put back over it, the first of the two times counts. The length is time that goes by, whatever clocks do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Days on which it begins.
    pub days: Vec<Weekday>,
    /// When it begins.
    pub start: Time,
    /// How long it is; a week at most.
    pub length: Duration,
    /// Whose clocks.
    pub zone: TimeZone,
}

/// One opening of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opening {
    from: Timestamp,
    until: Timestamp,
}

impl Opening {
    /// The first moment from which the whole work fits.
    fn fits_from(&self, now: Timestamp, work: Duration) -> Option<Timestamp> {
        let begin = self.from.max(now);
        (begin.checked_add(work).ok()? <= self.until).then_some(begin)
    }
}

pub(super) fn window(window: &Window, now: Timestamp, work: Duration) -> Gate {
    let begins = window.around(now).into_iter().filter_map(|opening| opening.fits_from(now, work)).min();
    match begins {
        Some(begin) if begin == now => Gate::Open,
        Some(begin) => Gate::Closed {
            why: format!(
                "the next maintenance window that has {} min left begins {}",
                work.as_secs().div_ceil(60),
                begin.to_zoned(window.zone.clone()).strftime("%A %F %R %Z")
            ),
            try_again_in: Duration::try_from(begin.duration_since(now)).ok(),
        },
        None => Gate::Closed {
            why: format!(
                "the work is expected to take {} min, and the maintenance window is {} min long",
                work.as_secs().div_ceil(60),
                window.length.as_secs() / 60
            ),
            try_again_in: None,
        },
    }
}

impl Window {
    /// The openings from those that may still be open to those of the week to come.
    fn around(&self, now: Timestamp) -> Vec<Opening> {
        let today = now.to_zoned(self.zone.clone()).date();
        (-8_i64..=8).filter_map(|days| self.on(today.checked_add(Span::new().days(days)).ok()?)).collect()
    }

    fn on(&self, date: Date) -> Option<Opening> {
        if !self.days.contains(&date.weekday()) {
            return None;
        }
        let from = date.to_datetime(self.start).to_zoned(self.zone.clone()).ok()?.timestamp();
        Some(Opening { from, until: from.checked_add(self.length).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Weekday::{Monday, Saturday, Sunday};

    const HOUR: Duration = Duration::from_secs(3600);

    fn berlin(days: &[Weekday], start: &str, hours: u32) -> Window {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        Window { days: days.to_vec(), start: start.parse().unwrap(), length: HOUR * hours, zone }
    }

    /// Minutes until it opens; 0 if it is open.
    fn minutes(of: &Window, now: &str, work: Duration) -> Option<u64> {
        match window(of, now.parse().unwrap(), work) {
            Gate::Open => Some(0),
            Gate::Closed { try_again_in, .. } => try_again_in.map(|time| time.as_secs() / 60),
            Gate::Unknown { why } => panic!("{why}"),
        }
    }

    #[test]
    fn who_starts_must_be_able_to_finish() {
        // 2026-12-05 is a Saturday; Berlin is an hour ahead of UTC.
        let night = berlin(&[Saturday], "22:00", 4);
        assert_eq!(minutes(&night, "2026-12-05T20:59:00Z", HOUR), Some(1));
        assert_eq!(minutes(&night, "2026-12-05T21:00:00Z", HOUR), Some(0));
        // Sunday, still in the window of Saturday.
        assert_eq!(minutes(&night, "2026-12-06T00:00:00Z", HOUR), Some(0));
        assert_eq!(minutes(&night, "2026-12-06T00:01:00Z", HOUR), Some(7 * 24 * 60 - 181));
        assert_eq!(minutes(&night, "2026-12-05T21:00:00Z", 5 * HOUR), None);
    }

    #[test]
    fn the_next_one_is_told_by_the_clocks_of_the_place() {
        let night = berlin(&[Monday], "01:00", 1);
        let Gate::Closed { why, .. } = window(&night, "2026-12-05T12:00:00Z".parse().unwrap(), HOUR) else {
            panic!()
        };
        assert!(why.ends_with("begins Monday 2026-12-07 01:00 CET"), "{why}");
    }

    #[test]
    fn a_start_that_the_clocks_skip_is_an_hour_later() {
        // 2027-03-28: 02:00 CET is 03:00 CEST, at 01:00 UTC.
        let night = berlin(&[Sunday], "02:30", 2);
        assert_eq!(minutes(&night, "2027-03-28T00:59:00Z", HOUR), Some(31));
        assert_eq!(minutes(&night, "2027-03-28T01:30:00Z", HOUR), Some(0));
        assert_eq!(minutes(&night, "2027-03-28T02:30:00Z", HOUR), Some(0));
        assert_ne!(minutes(&night, "2027-03-28T02:31:00Z", HOUR), Some(0));
    }

    #[test]
    fn a_start_that_comes_twice_is_the_first_and_the_length_is_time_that_goes_by() {
        // 2026-10-25: 03:00 CEST is 02:00 CET, at 01:00 UTC.
        let night = berlin(&[Sunday], "02:30", 2);
        assert_eq!(minutes(&night, "2026-10-25T00:30:00Z", HOUR), Some(0));
        assert_eq!(minutes(&night, "2026-10-25T01:30:00Z", HOUR), Some(0));
        assert_ne!(minutes(&night, "2026-10-25T01:31:00Z", HOUR), Some(0));
    }
}
