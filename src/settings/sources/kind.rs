//! Which kind of server is meant, if both are configured.

use super::{Given, Precedence, Sources};
use crate::base::exit::{Failure, Reason};
use crate::db::Kind;
use crate::settings::server_url;

/// The variables that name a server to libpq. Without one of them libpq would use a local server, which is not a server for a fleet.
const NAMES_POSTGRES: [&str; 3] = ["PGHOST", "PGHOSTADDR", "PGSERVICE"];

/// Decides which kind of server is meant. The first of these rules that applies:
///
/// 1. The scheme of a URL decides, if several sources have one that of the strongest. `mysql://` and `postgres://` without a host are
///    URLs, too. What belongs to the other kind is ignored: URLs, `[client]` and `MYSQL_PWD`, or libpq's variables.
/// 2. A host or a socket among dblock's own settings, from the command line to `[dblock]`, is a MySQL server. So whoever has configured
///    dblock for MySQL may have any of libpq's variables for other programs.
/// 3. A host in the groups of other clients is a MySQL server, and one in libpq's variables (`PGHOST`, `PGHOSTADDR`, `PGSERVICE`) a
///    PostgreSQL server. If both are there, neither was meant for dblock in particular. It refuses to choose: on two hosts that differ in
///    a variable, two jobs would hold the same lock.
/// 4. Otherwise it is MySQL, of which no server is named.
///
/// # Errors
/// [`Reason::Configuration`]: rule 3, for both.
pub fn decide(sources: &Sources) -> Result<Kind, Failure> {
    if let Some(url) = sources.given("url") {
        // A malformed one is refused later.
        return Ok(server_url::kind(&url.value).unwrap_or(Kind::MySql));
    }
    let names_own = |(precedence, source): (Precedence, &super::Source)| {
        let names = source.get("host").is_some() || source.get("socket").is_some();
        precedence > Precedence::OtherClients && names
    };
    if sources.strongest_first().any(names_own) {
        return Ok(Kind::MySql);
    }
    let mysql = sources.source(Precedence::OtherClients).get("host");
    let mut variables = NAMES_POSTGRES.into_iter();
    let postgres = variables.find_map(|variable| Given::from_variable(variable, variable));
    match (mysql, postgres) {
        (Some(mysql), Some(postgres)) => Err(Failure::new(
            Reason::Configuration,
            format!(
                "two servers are named: {} names a MySQL server, and {} a PostgreSQL server; choose one with --url mysql:// or \
                 --url postgres://, or with DBLOCK_URL",
                mysql.place(),
                postgres.place()
            ),
        )),
        (None, Some(_)) => Ok(Kind::Postgres),
        (_, None) => Ok(Kind::MySql),
    }
}
