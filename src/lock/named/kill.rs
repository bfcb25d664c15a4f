//! Ending a holder: whoever ends one takes a marker first, so that no dblock takes the slot meanwhile, and the holder's own learns
//! by it that it is not to come back.

use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::inspect::{Inspector, quoted};
use super::request::LOOK_AGAIN_AT_KILLER;
use super::statements::{keep_session, literal, take, take_a_kill};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::text::{in_seconds, shown};
use crate::db::{Client, Fault, cell, client};
use crate::lock::{LONGEST_TTL, MOST_SLOTS, Name, Wait, gone, kill as sign_of_kill, sign};

/// How long the server keeps the marker of a host that has vanished.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Holders that lost their sessions with a server come back within that time, as a rule.
const JUST_STARTED: Duration = Duration::from_secs(30);

/// How long the server may take to end a session that was killed, where nobody will tell of a command's end.
const LONGEST_END: Duration = Duration::from_secs(10);

/// The errors of `KILL`: there is no such session, and it is not this account's.
const NO_SUCH_SESSION: u16 = 1094;
const NOT_YOURS: [u16; 2] = [1095, 1227];

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was done, and what came of it.
    pub line: String,
    /// Whether nothing was heard of the command's end in time.
    pub unheard: bool,
}

impl Done {
    fn heard(line: String) -> Self {
        let unheard = false;
        Self { line, unheard }
    }

    fn unheard(line: String) -> Self {
        let unheard = true;
        Self { line, unheard }
    }
}

/// What was heard of a holder's command.
enum Heard {
    /// It has ended.
    End,
    /// It is being ended, and that was not over in time.
    Begin,
    /// Nothing in time.
    Nothing,
}

/// Ends a holder.
pub struct Killing<'a> {
    /// The session that asks.
    pub inspector: &'a mut Inspector,
    /// The lock.
    pub name: &'a Name,
    /// Which of its slots; `None`: the one that is held.
    pub slot: Option<u32>,
    /// How long to wait until the command has ended.
    pub wait: Wait,
    /// Whether nobody is ended.
    pub dry_run: bool,
    /// How long the holder's dblock may take to come back.
    pub connect_timeout: Duration,
}

impl Killing<'_> {
    /// Ends it, as far as that is asked for.
    ///
    /// # Errors
    /// What kept it from being done.
    pub fn end(&mut self) -> Result<Done, Fault> {
        let name = self.name;
        let slot = self.slot()?;
        let what = format!("slot {slot} of {name}");
        // All at once: who has the slot while it is marked is only waiting for the end of the one that is meant.
        let [killer, ending, victim] = self.owners([
            name.kill_on_server(slot),
            name.end_on_server(slot),
            name.slot_on_server(slot),
        ])?;
        if let Some(other) = killer.or(ending) {
            return self.leave_it_to(other, slot);
        }
        let Some(victim) = victim else {
            let what = match self.slot {
                Some(_) => what,
                None => name.to_string(),
            };
            let started = match self.uptime()? {
                Some(span) if span < JUST_STARTED => format!(
                    "; but the server was started {} ago, and a holder from before may come back",
                    in_seconds(span)
                ),
                _ => String::new(),
            };
            return Ok(Done::heard(format!(
                "{what} is free: nobody was ended{started}"
            )));
        };
        let holder = self.client(victim)?;
        let is_dblock = self.inspector.owner(&sign(victim))? == Some(victim);
        let who = match (holder.dblock(), is_dblock) {
            (Some((_, claims)), _) => {
                let user = claims.os_user.as_ref();
                let user = user.map_or_else(String::new, |user| format!(", user {user}"));
                format!("{holder}{user}, connection {victim}")
            }
            (None, true) => format!("a dblock, {holder}"),
            (None, false) => format!("{holder}, which is no dblock"),
        };
        if self.dry_run {
            return Ok(Done::heard(format!("{what} is held by {who}; not ended")));
        }
        let begun = Moment::now();
        self.inspector.ask(&keep_session(IDLE_LIMIT))?;
        // The second is for one that was granted the slot, and has not believed it yet.
        let markers = [name.kill_on_server(slot), sign_of_kill(victim)];
        if !self.mark(&markers)? {
            let killer = self.inspector.owner(&markers[0])?.unwrap_or_default();
            return self.leave_it_to(killer, slot);
        }
        // It may have ended by itself meanwhile, or another's kill was quicker.
        if self.inspector.owner(&name.slot_on_server(slot))? != Some(victim) {
            self.unmark(&markers)?;
            let now = self.now(slot)?;
            return Ok(Done::heard(format!(
                "{what} was let go meanwhile by {holder}; {now}"
            )));
        }
        self.kill_session(victim, &what, &who)?;
        let limit = holder.claims.and_then(|claims| claims.ttl);
        let heard = if is_dblock {
            self.wait_for_end(slot, limit.unwrap_or(LONGEST_TTL), begun)?
        } else {
            self.wait_for_session(slot, victim, begun)?
        };
        self.unmark(&markers)?;
        let now = self.now(slot)?;
        let span = shown(begun.elapsed());
        Ok(match heard {
            Heard::End if is_dblock => Done::heard(format!(
                "{what}: ended {who}; its command has ended, after {span}; {now}"
            )),
            Heard::End => Done::heard(format!(
                "{what}: ended the session of {who}: nobody tells whether it still works; {now}"
            )),
            Heard::Begin => Done::unheard(format!(
                "{what}: ended {who}, but its command has not ended within {span}; nobody gets the slot before it has"
            )),
            Heard::Nothing => Done::unheard(format!(
                "{what}: ended the session of {who}, but nothing was heard of it within {span}: its command may still \
                 run, look there; {now}"
            )),
        })
    }

    /// The slot that is meant: the one that is held, where none is named.
    fn slot(&mut self) -> Result<u32, Fault> {
        let name = self.name;
        if let Some(slot) = self.slot {
            return Ok(slot);
        }
        let held = self
            .inspector
            .owners(MOST_SLOTS, |slot| name.slot_on_server(slot))?;
        match &held[..] {
            // That of one that is being ended, if there is one.
            [] => {
                let ending = self
                    .inspector
                    .owners(MOST_SLOTS, |slot| name.end_on_server(slot))?;
                Ok(ending.first().map_or(0, |(slot, _)| *slot))
            }
            [(slot, _)] => Ok(*slot),
            several => {
                let slots = several.iter().map(|(slot, _)| format!("{name}#{slot}"));
                let slots = slots.collect::<Vec<_>>().join(", ");
                let line = format!("{name} has several holders; say which one: {slots}");
                Err(Fault::Final(Failure::new(Reason::Usage, line)))
            }
        }
    }

    /// Waits until another has done what is wanted, or the holder itself, which he has told so.
    fn leave_it_to(&mut self, other: u64, slot: u32) -> Result<Done, Fault> {
        let (begun, name) = (Moment::now(), self.name);
        let what = format!("the holder of slot {slot} of {name}");
        let who = self.client(other)?;
        let locks = [
            name.kill_on_server(slot),
            name.end_on_server(slot),
            gone(other),
        ];
        let mut is_heard = false;
        loop {
            let [killer, ending, answer] = self.owners(locks.clone())?;
            is_heard |= ending.is_some() || answer.is_some();
            if self.dry_run {
                let line = format!("{what} is being ended by {who}; not ended");
                return Ok(Done::heard(line));
            }
            if killer != Some(other) && ending.is_none() {
                let now = self.now(slot)?;
                return Ok(if is_heard {
                    Done::heard(format!(
                        "{what} was being ended by {who}; that is done; {now}"
                    ))
                } else {
                    Done::unheard(format!(
                        "{what} was being ended by {who}, and nothing is known of its command; {now}"
                    ))
                });
            }
            if self.is_over(begun, LONGEST_TTL) {
                let line = format!("{what} is being ended by {who}; nothing was done");
                return Ok(Done::unheard(line));
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
    }

    /// Who has some locks, by their names on the server, in one moment.
    fn owners<const N: usize>(&mut self, locks: [String; N]) -> Result<[Option<u64>; N], Fault> {
        let columns = locks.map(|lock| format!("IS_USED_LOCK({})", literal(&lock)));
        let row = self
            .inspector
            .ask(&format!("SELECT {}", columns.join(", ")))?;
        let mut column = 0..;
        Ok(columns.map(|_| row.as_ref().and_then(|row| cell(row, column.next()?))))
    }

    fn client(&mut self, id: u64) -> Result<Client, Fault> {
        client(id, &mut self.inspector.session)
    }

    /// Takes the markers; `false` if another has the first one. The second may be had for another slot of the same session.
    fn mark(&mut self, markers: &[String; 2]) -> Result<bool, Fault> {
        for marker in markers {
            let had: u8 = loop {
                let row = self.inspector.ask(&take(marker))?;
                // NULL: nobody knows.
                if let Some(had) = row.and_then(|row| cell(&row, 0)) {
                    break had;
                }
                sleep(LOOK_AGAIN_AT_KILLER);
            };
            if had == 0 && *marker == markers[0] {
                return Ok(false);
            }
        }
        let kill = format!("SELECT {}", take_a_kill(self.name));
        while self
            .inspector
            .ask(&kill)?
            .and_then(|row| cell::<u8>(&row, 0))
            != Some(1)
        {
            sleep(LOOK_AGAIN_AT_KILLER);
        }
        Ok(true)
    }

    /// Gives the markers back, however often they were taken: a statement that was interrupted may have been carried out.
    fn unmark(&mut self, markers: &[String; 2]) -> Result<(), Fault> {
        let own = self.own_id()?;
        for marker in markers {
            while self.inspector.owner(marker)? == Some(own) {
                let release = format!("SELECT RELEASE_LOCK({})", literal(marker));
                self.inspector.ask(&release)?;
            }
        }
        Ok(())
    }

    /// Whether the time to wait is over; where that has no limit, this one.
    fn is_over(&self, begun: Moment, limit: Duration) -> bool {
        let limit = match self.wait {
            Wait::For(wait) => wait,
            Wait::Forever => limit,
        };
        begun.elapsed() >= limit
    }

    fn kill_session(&mut self, victim: u64, what: &str, who: &str) -> Result<(), Fault> {
        let killed = self.inspector.session.inquire(&format!("KILL {victim}"))?;
        match killed {
            // It has ended by itself this moment; its dblock finds the marker, if it comes back.
            Ok(_) | Err(NO_SUCH_SESSION) => Ok(()),
            Err(code) if NOT_YOURS.contains(&code) => {
                let account = self.inspector.ask("SELECT CURRENT_USER(), VERSION()")?;
                let text = |column| account.as_ref().and_then(|row| cell::<String>(row, column));
                let account = quoted(&text(0).unwrap_or_default());
                let grant = if text(1).unwrap_or_default().contains("MariaDB") {
                    "CONNECTION ADMIN"
                } else {
                    "CONNECTION_ADMIN"
                };
                let line = format!(
                    "{what} is held by {who}, of another account, which this one may not end; GRANT {grant} ON \
                     *.* TO {account} would do, or use the account of the holder"
                );
                Err(Fault::Final(Failure::new(Reason::AccountRefused, line)))
            }
            Err(code) => {
                let line =
                    format!("{what} is held by {who}; the server does not end it (error {code})");
                Err(Fault::Final(Failure::new(Reason::Internal, line)))
            }
        }
    }

    /// Waits until the holder's dblock says that its command is gone. Until it is heard of the marker must stay, also where
    /// nothing is to be waited for: it would take the lock again.
    fn wait_for_end(&mut self, slot: u32, ttl: Duration, begun: Moment) -> Result<Heard, Fault> {
        let end = self.name.end_on_server(slot);
        let gone = gone(self.own_id()?);
        let mut has_begun = false;
        loop {
            let [ending, answer] = self.owners([end.clone(), gone.clone()])?;
            has_begun |= ending.is_some();
            if answer.is_some() {
                return Ok(Heard::End);
            }
            let may_come = begun.elapsed() < self.connect_timeout;
            if self.is_over(begun, ttl) && (has_begun || !may_come) {
                return Ok(if has_begun {
                    Heard::Begin
                } else {
                    Heard::Nothing
                });
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
    }

    /// Waits until a session is gone that nobody answers for.
    fn wait_for_session(&mut self, slot: u32, victim: u64, begun: Moment) -> Result<Heard, Fault> {
        let slot = self.name.slot_on_server(slot);
        while self.inspector.owner(&slot)? == Some(victim) {
            if begun.elapsed() >= LONGEST_END {
                return Ok(Heard::Nothing);
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
        Ok(Heard::End)
    }

    /// How long ago the server was started.
    fn uptime(&mut self) -> Result<Option<Duration>, Fault> {
        let row = self.inspector.ask("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        Ok(row.and_then(|row| cell(&row, 1)).map(Duration::from_secs))
    }

    /// The server's number of this session, as it is behind a proxy, too.
    fn own_id(&mut self) -> Result<u64, Fault> {
        let row = self.inspector.ask("SELECT CONNECTION_ID()")?;
        row.and_then(|row| cell(&row, 0))
            .ok_or_else(|| Fault::Gone("no answer".to_owned()))
    }

    /// Who has the slot now.
    fn now(&mut self, slot: u32) -> Result<String, Fault> {
        let owner = self.inspector.owner(&self.name.slot_on_server(slot))?;
        Ok(match owner {
            Some(owner) => format!("now it is held by {}", self.client(owner)?),
            None => "now it is free".to_owned(),
        })
    }
}
