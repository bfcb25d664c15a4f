//! The findings about several servers: which locks exclude on each, and how far their clocks differ.

use std::time::Duration;

use super::durable::Rows;
use super::finding::Finding;
use crate::base::text::shown;
use crate::cron::EARLY;
use crate::db::server_facts::Product;
use crate::lock::DEFAULT_TTL;
use crate::lock::named::Unfit;
use crate::lock::rows::{Clock, disagreement};

/// What kind of server it is for locks.
#[derive(Debug)]
pub struct Assessment {
    /// Why its named locks would not exclude; empty if they would.
    pub unfit: Vec<Unfit>,
    /// Whether it refuses to give named locks.
    pub refuses: bool,
    /// Whether it takes no writes.
    pub read_only: bool,
    /// Whether it is in a replication group.
    pub in_group: bool,
    /// The server's product.
    pub product: Product,
    /// What is known about durable locks on it.
    pub rows: Rows,
}

/// A server other than the examined one.
pub struct Other {
    /// Its address.
    pub server: String,
    /// The findings, or why there are none.
    pub found: Result<Seen, String>,
}

/// The findings about another server.
pub struct Seen {
    /// What kind of server it is.
    pub assessment: Assessment,
    /// Whether it knows the named locks of the examined server.
    pub shares_locks: bool,
    /// Whether it sees a durable lock of the examined server; `None`: there was none to see.
    pub sees_row: Option<bool>,
    /// Its clock.
    pub clock: Option<Clock>,
}

impl Assessment {
    /// Whether it is one of several servers that take writes, each with its own named locks.
    pub fn is_clustered(&self) -> bool {
        let clustered = |why: &Unfit| matches!(why, Unfit::Galera | Unfit::MultiPrimary);
        self.product == Product::XtraDbCluster || self.unfit.iter().any(clustered)
    }

    /// Whether named locks exclude.
    pub fn named(&self) -> bool {
        self.unfit.is_empty() && !self.refuses && !self.read_only
    }

    /// Whether durable locks exclude.
    pub fn durable(&self) -> bool {
        self.rows == Rows::Work && self.could_be_durable()
    }

    /// Whether durable locks would exclude if the tables could be used.
    fn could_be_durable(&self) -> bool {
        let harmless = |why: &Unfit| matches!(why, Unfit::Galera | Unfit::MultiPrimary);
        self.promises_rows() && !self.read_only && self.unfit.iter().all(harmless)
    }

    /// Whether durable locks were seen to exclude on this product.
    pub fn promises_rows(&self) -> bool {
        !matches!(self.product, Product::TiDb | Product::Vitess)
    }

    /// What it is among the servers, as a word for programs.
    fn role(&self) -> &'static str {
        match self.unfit.first() {
            _ if self.read_only => "read-only",
            Some(Unfit::Galera) => "galera",
            Some(Unfit::MultiPrimary) => "multi-primary",
            _ if self.product == Product::XtraDbCluster => "galera",
            _ if self.in_group => "primary",
            _ => "single",
        }
    }

    /// Why named locks do not exclude.
    fn cause(&self) -> &'static str {
        match self.unfit.first() {
            _ if self.read_only => "it is read-only",
            Some(Unfit::Galera) => "named locks are each node's own",
            Some(Unfit::MultiPrimary) => "named locks are each member's own",
            Some(Unfit::OneLock) => "it keeps one lock for each session",
            Some(Unfit::TimeoutNotKept { .. } | Unfit::SessionsShared) => {
                "something in between shares sessions"
            }
            Some(Unfit::Pooler) => "a pooler is in between",
            Some(Unfit::NotKept | Unfit::Cockroach) => "its advisory locks do nothing",
            Some(Unfit::SeveralNodes) => "advisory locks are each node's own",
            Some(Unfit::ShortLived(_)) => "it ends sessions too soon",
            None if self.refuses => "it gives no named locks",
            None => "nothing is known against it",
        }
    }

    /// Which locks exclude, as text.
    fn in_words(&self) -> String {
        let (cause, can_be) = (self.cause(), self.could_be_durable());
        let durable = match &self.rows {
            _ if !self.promises_rows() => {
                format!("; durable ones are not promised on {}", self.product.name())
            }
            Rows::NotSetUp if can_be => "; durable ones after dblock init".to_owned(),
            _ => String::new(),
        };
        match (self.named(), self.durable()) {
            (true, true) => "named and durable locks".to_owned(),
            (true, false) => format!("named locks{durable}"),
            (false, true) => format!("durable locks alone: {cause}"),
            (false, false) => format!("none: {cause}{durable}"),
        }
    }

    fn found(&self, server: &str, value: &str) -> Finding {
        Finding::ok("excludes", &format!("{server}: {value}"))
            .with("server", server)
            .with("role", self.role())
            .with("named", self.named())
            .with("durable", self.durable())
    }

    /// The finding about the examined server.
    pub fn finding(&self, server: &str) -> Finding {
        let found = self.found(server, &self.in_words());
        if self.named() || self.durable() {
            found
        } else {
            found.unfit(&"has no lock that excludes")
        }
    }
}

impl Other {
    /// The finding about another server, compared with the examined one.
    pub fn finding(&self, examined: &str, its: &Assessment) -> Finding {
        let server = &self.server;
        let seen = match &self.found {
            Ok(seen) => seen,
            Err(why) => {
                let value = format!("{server}: not known");
                return Finding::ok("excludes", &value)
                    .with("server", &**server)
                    .warning(&format!(
                        "{why}; repair it, or remove it from the list: it is to take over when the others fail"
                    ));
            }
        };
        let assessment = &seen.assessment;
        if seen.shares_locks {
            return assessment.found(
                server,
                &format!("those of {examined}, whose locks it knows"),
            );
        }
        if assessment.read_only {
            let value = "none: it is read-only, and is passed over";
            return assessment.found(server, value);
        }
        let found = assessment.found(server, &assessment.in_words());
        let both_clustered = assessment.is_clustered() && its.is_clustered();
        match seen.sees_row {
            Some(true) => found,
            None if both_clustered => found,
            _ => found.warning(&format!(
                "it takes writes as {examined} does, and does not know its locks: two hosts could hold the lock at once; see \
                 that all replicas are read-only, and name servers of one set only"
            )),
        }
    }
}

/// The largest difference between the clocks of several servers; `None`: there are fewer than two.
pub fn clocks(clocks: &[(&str, Clock)]) -> Option<Finding> {
    let pairs = clocks
        .iter()
        .enumerate()
        .flat_map(|(at, one)| clocks[at + 1..].iter().map(move |other| (one, other)));
    let widest =
        pairs.max_by_key(|((_, one), (_, other))| one.ahead_of(*other).0.unsigned_abs())?;
    let ((one, clock), (other, its)) = widest;
    let (ahead, error) = clock.ahead_of(*its);
    let (first, last) = if ahead < 0 {
        (other, one)
    } else {
        (one, other)
    };
    let [apart, error] = [ahead.unsigned_abs(), error].map(Duration::from_micros);
    let value = if apart > error {
        let (apart, error) = (rounded(apart), rounded(error));
        format!(
            "{first} is {apart} ahead of {last} (give or take {error}); no two are further apart"
        )
    } else {
        format!("no difference, within {}", rounded(error))
    };
    let found = Finding::ok("clocks", &value)
        .with("servers", clocks.len())
        .with("seconds", apart.as_secs_f64())
        .with("error_seconds", error.as_secs_f64());
    Some(match disagreement(*clock, *its, DEFAULT_TTL) {
        None => found,
        Some(_) => found.warning(&format!(
            "that is more than a tenth of the default --ttl, {}: when one takes over from the other, a durable lock may expire that \
             much too soon; set the clocks right",
            shown(DEFAULT_TTL / 10)
        )),
    })
}

/// The difference between this host's clock and the server's.
pub fn host_clock(server: Clock) -> Finding {
    let (ahead, error) = Clock::of_this_host().ahead_of(server);
    let off = Duration::from_micros(ahead.unsigned_abs());
    let error = Duration::from_micros(error);
    let value = match ahead {
        _ if off <= error => format!("as the server's, within {}", rounded(error)),
        ..0 => format!("{} behind the server's", rounded(off)),
        0.. => format!("{} ahead of the server's", rounded(off)),
    };
    let seconds = off.as_secs_f64() * if ahead < 0 { -1.0 } else { 1.0 };
    let found = Finding::ok("host_clock", &value)
        .with("seconds", seconds)
        .with("error_seconds", error.as_secs_f64());
    match off > EARLY {
        false => found,
        true if ahead < 0 => found.note(
            "cron on this host starts its jobs that late; --once-at goes by the server's clock",
        ),
        true => found.note(
            "cron on this host starts its jobs more than half a minute early: --once-at goes by the server's clock, and takes them for \
             late ones of the tick before; set the clock right",
        ),
    }
}

/// In milliseconds if below a second, otherwise in seconds.
fn rounded(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        format!("{:.1} ms", span.as_secs_f64() * 1000.0)
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::base::clock::Moment;

    fn assessment(product: Product, unfit: &[Unfit], rows: Rows) -> Assessment {
        Assessment {
            unfit: unfit.to_vec(),
            refuses: false,
            read_only: false,
            in_group: false,
            product,
            rows,
        }
    }

    #[test]
    fn what_excludes_where_is_said() {
        use Product::{MariaDb, MySql, TiDb, Vitess, XtraDbCluster};
        let refusing = Assessment {
            refuses: true,
            ..assessment(XtraDbCluster, &[], Rows::Work)
        };
        let read_only = Assessment {
            read_only: true,
            ..assessment(MySql, &[], Rows::Work)
        };
        for (assessment, said) in [
            (
                assessment(MySql, &[], Rows::Work),
                "named and durable locks",
            ),
            (
                assessment(MySql, &[], Rows::NotSetUp),
                "named locks; durable ones after dblock init",
            ),
            (assessment(MySql, &[], Rows::Unusable), "named locks"),
            (
                assessment(MariaDb, &[Unfit::Galera], Rows::Work),
                "durable locks alone: named locks are each node's own",
            ),
            (
                assessment(MariaDb, &[Unfit::Galera], Rows::NotSetUp),
                "none: named locks are each node's own; durable ones after dblock init",
            ),
            (
                assessment(MySql, &[Unfit::MultiPrimary], Rows::Unusable),
                "none: named locks are each member's own",
            ),
            (refusing, "durable locks alone: it gives no named locks"),
            (read_only, "none: it is read-only"),
            (
                assessment(MySql, &[Unfit::OneLock], Rows::Work),
                "none: it keeps one lock for each session",
            ),
            (
                assessment(MySql, &[Unfit::SessionsShared], Rows::NotSetUp),
                "none: something in between shares sessions",
            ),
            (
                assessment(TiDb, &[], Rows::Work),
                "named locks; durable ones are not promised on TiDB",
            ),
            (
                assessment(Vitess, &[], Rows::NotSetUp),
                "named locks; durable ones are not promised on Vitess",
            ),
        ] {
            assert_eq!(assessment.in_words(), said);
        }
    }

    #[test]
    fn a_difference_is_told_where_it_is_larger_than_what_is_not_known() {
        let at = |micros, millis| {
            let answered = Moment::START + Duration::from_millis(millis);
            Clock::new(micros, Moment::START, answered)
        };
        let said = |found: Option<Finding>| {
            let found = found.expect("two clocks");
            let found = serde_json::to_value(found.for_programs()).expect("JSON");
            (found["value"].clone(), found["verdict"].clone())
        };
        assert!(clocks(&[("a", at(0, 0))]).is_none());
        let close = clocks(&[("a", at(0, 2)), ("b", at(500, 2))]);
        assert_eq!(
            said(close),
            ("no difference, within 2.0 ms".into(), "ok".into())
        );
        let apart = [
            ("a", at(0, 0)),
            ("b", at(-2_000_000, 0)),
            ("c", at(29_000_000, 0)),
        ];
        let (value, verdict) = said(clocks(&apart));
        assert_eq!(
            value,
            "c is 31.0 s ahead of b (give or take 0.0 ms); no two are further apart"
        );
        assert_eq!(verdict, "warning");
        let (_, verdict) = said(clocks(&apart[..2]));
        assert_eq!(verdict, "ok");
    }

    #[test]
    fn a_host_that_is_early_is_told_what_that_means_for_once_at() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after");
        let micros = i64::try_from(now.as_micros()).expect("not that late");
        let moment = Moment::now();
        for (seconds, value, has_advice) in [
            (-40, " s ahead of the server's", true),
            (40, " s behind the server's", true),
            (-20, " s ahead of the server's", false),
        ] {
            let server = Clock::new(micros + seconds * 1_000_000, moment, moment);
            let found = host_clock(server);
            let found = serde_json::to_value(found.for_programs()).expect("JSON");
            assert!(found["value"].as_str().expect("a text").ends_with(value));
            assert_eq!(found["verdict"], "ok");
            assert_eq!(found["advice"].is_string(), has_advice);
        }
    }
}
