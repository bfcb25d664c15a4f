//! The keeper as the supervisor sees it.

use std::ops::{Deref, DerefMut};

use nix::unistd::Pid;

use crate::isolated::link::Link;
use crate::isolated::peer::Peer;
use crate::keeper::message::{FromKeeper, ToKeeper};

/// A keeper, or the latest of several.
#[expect(clippy::struct_excessive_bools, reason = "each may be so alone")]
pub struct KeeperLink {
    /// While a copy of the session's descriptor is open, nobody gets the lock of a keeper that has died before the command is gone.
    keeper: Peer<ToKeeper, FromKeeper>,
    /// Whether the keeper may hold the lock without having reported that.
    claims: bool,
    /// Whether the command runs without the lock. Then the keeper only releases what it may be granted.
    is_dismissed: bool,
    /// Whether a keeper finds out who holds the lock when it is taken.
    pub names_holders: bool,
    /// Whether a keeper that has died was told to release the lock. The server may have carried that out.
    pub may_be_released: bool,
}

impl KeeperLink {
    /// The link to a keeper that was just forked.
    pub fn new(keeper: (Pid, Link)) -> Self {
        Self {
            keeper: Peer::new("the keeper", keeper),
            claims: false,
            is_dismissed: false,
            names_holders: false,
            may_be_released: false,
        }
    }

    /// Another keeper requests the lock. The one before may have been granted it.
    pub fn ask_again(&mut self, keeper: (Pid, Link)) {
        self.keeper.replace(keeper);
    }

    /// Another keeper takes over from one that was reaped. The old session stays open until the new keeper has the lock.
    pub fn take_over(&mut self, keeper: (Pid, Link)) {
        self.keeper.replace(keeper);
        self.claims = false;
    }

    /// Whether the keeper may hold the lock without having reported that. Then it must not be killed before it has released the lock.
    pub fn claims(&self) -> bool {
        self.claims && !self.is_closed()
    }

    /// Whether the keeper, when it ended, may have held the lock without having reported that.
    pub fn has_claimed(&self) -> bool {
        self.claims
    }

    /// The command runs without the lock: the keeper releases what it may be granted, and ends. Its reports do not concern the run.
    pub fn dismiss(&mut self) {
        self.is_dismissed = true;
        self.send(ToKeeper::Release(None));
    }

    /// Whether the keeper was dismissed.
    pub fn is_dismissed(&self) -> bool {
        self.is_dismissed
    }

    /// Whether the keeper has closed its end and must still be reaped.
    pub fn is_unreaped(&self) -> bool {
        self.is_closed() && self.is_there()
    }

    /// The next message; `None`: the keeper is gone.
    pub fn receive(&mut self) -> Option<FromKeeper> {
        let (message, descriptor) = self.keeper.receive()?;
        match message {
            FromKeeper::Held(..) => {
                self.session = descriptor;
                self.claims = self.is_dismissed;
            }
            FromKeeper::Lost(_) => self.session = None,
            FromKeeper::Claiming(may_be_held) => self.claims = may_be_held,
            _ => {}
        }
        Some(if self.is_dismissed {
            FromKeeper::Claiming(self.claims)
        } else {
            message
        })
    }
}

impl Deref for KeeperLink {
    type Target = Peer<ToKeeper, FromKeeper>;

    fn deref(&self) -> &Self::Target {
        &self.keeper
    }
}

impl DerefMut for KeeperLink {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.keeper
    }
}
