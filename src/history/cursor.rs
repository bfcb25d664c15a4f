//! Where a page of the history ends, and the next one begins. Neither the time at which a run was requested nor its id ever changes, so a
//! walk from page to page shows each run that there was at its beginning once, whatever is written meanwhile.

use std::fmt::{self, Display, Formatter};

use crate::base::text::ServerTime;

/// The digits of a run's id.
const ID: usize = 32;

/// Whether a text may be a run's id.
pub fn is_run_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The last run of a page: the next page has the runs that are older.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCursor {
    /// When it was requested, in microseconds since 1970.
    pub requested: i64,
    /// Its id, as two runs may have been requested in the same microsecond.
    pub run: String,
}

impl RunCursor {
    /// The one of a run.
    pub fn of(requested: ServerTime, run: &str) -> Self {
        Self {
            requested: requested.micros(),
            run: run.to_owned(),
        }
    }

    /// The one that was printed so; `None`: none was.
    pub fn parse(text: &str) -> Option<Self> {
        let (requested, run) = text.split_once('-')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let requested = Some(requested)
            .filter(|text| is_number(text))?
            .parse()
            .ok()?;
        is_run_id(run).then(|| Self {
            requested,
            run: run.to_owned(),
        })
    }
}

impl Display for RunCursor {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}-{}", self.requested, self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::sql::time;

    #[test]
    fn what_is_printed_is_read_and_nothing_else() {
        let run = "0123456789abcdef0123456789abcdef";
        let at = time(1_795_693_641_356_167);
        let cursor = RunCursor::of(ServerTime(at), run);
        assert_eq!(cursor.to_string(), format!("1795693641356167-{run}"));
        assert_eq!(RunCursor::parse(&cursor.to_string()), Some(cursor));
        let short = &run[1..];
        for wrong in [
            String::new(),
            run.to_owned(),
            format!("-{run}"),
            format!("+1-{run}"),
            format!("1-{short}"),
            format!("1-{short}'"),
            format!("99999999999999999999-{run}"),
        ] {
            assert_eq!(RunCursor::parse(&wrong), None, "{wrong}");
        }
    }
}
