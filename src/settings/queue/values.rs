//! The values of the options of `dblock queue`.

use std::time::Duration;

use super::super::value;
use crate::base::exit::CONFLICT;
use crate::lock::Name;
use crate::queue::{Claim, JobState};

/// The most jobs for one command.
pub(super) const LARGEST_BATCH: u32 = 10_000;

pub(super) const MOST_SHARDS: u16 = 1024;
pub(super) const MOST_ATTEMPTS: u32 = 1_000_000;

/// A name by the rules of locks.
pub(super) fn name(text: &str, what: &str) -> Result<String, String> {
    let name = Name::parse(text).map_err(|wrong| format!("{what} {wrong}"))?;
    Ok(name.to_string())
}

pub(super) fn claim(text: &str) -> Result<Claim, String> {
    value::one_of(&Claim::ALL.map(|claim| (claim.word(), claim)), text)
}

pub(super) fn state(text: &str) -> Result<JobState, String> {
    value::one_of(&JobState::ALL.map(|state| (state.word(), state)), text)
}

pub(super) fn whole_seconds(text: &str) -> Result<Duration, String> {
    let span = value::duration(text)?;
    if span.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err(format!(
            "{} is not whole seconds",
            value::shown_safely(text)
        ))
    }
}

/// Longer than nothing, to the microsecond, as servers keep it.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    let span = value::duration(text)?;
    if span < Duration::from_micros(1) {
        return Err("must be longer than 0".to_owned());
    }
    Ok(span)
}

/// A job's id.
pub fn id(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(id @ 1..) => Ok(id),
        _ => Err(format!(
            "{} is not the id of a job, as dblock queue put prints it",
            value::shown_safely(text)
        )),
    }
}

/// Exit codes, separated by commas, without duplicates.
pub(super) fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    let mut codes = Vec::new();
    for code in text.split(',') {
        match code.parse::<u8>() {
            Ok(CONFLICT) => return Err("75 means that the job is tried again later".to_owned()),
            Ok(code @ 1..) if codes.contains(&code) => {}
            Ok(code @ 1..) => codes.push(code),
            _ => {
                return Err(format!(
                    "{} is not an exit code from 1 to 255",
                    value::shown_safely(code)
                ));
            }
        }
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_given_with_commas() {
        assert_eq!(exit_codes("1"), Ok(vec![1]));
        assert_eq!(exit_codes("255,3,3"), Ok(vec![255, 3]));
        for wrong in ["", "0", "75", "1,75", "256", "1,", "-1", "x", "1, 2"] {
            assert!(exit_codes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_a_number_from_1() {
        assert_eq!(id("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "0", "-1", "1.0", "18446744073709551616", "x"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
    }
}
