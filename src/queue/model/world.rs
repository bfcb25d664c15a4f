//! The model's tables, its workers, and the packets between them.

mod events;

use super::super::exchange::{Exchange, TurnAsk, Verdict};

const WORKERS: usize = 2;

/// A rule that the model breaks on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A turn is carried out regardless of the last turn's number.
    TurnsWithoutCondition,
    /// A turn whose answer was lost counts as carried out.
    BelievesLostAsDone,
    /// The lease counts from the answer instead of from the sending of its packet.
    CountsFromAnswer,
    /// Looking up a turn's outcome counts as a renewal.
    CountsLooks,
    /// An outcome counts whoever holds the job, and regardless of the claim.
    HandsInByJobAlone,
    /// Jobs are taken from workers with a valid lease.
    RescuesTheLiving,
    /// A rescued worker stays registered.
    LeavesTheRescued,
    /// A new claimer does not return the unknown claims of the one that died.
    ForgetsUnknownClaims,
    /// A new claimer keeps the last turn's number, although a turn of the dead one may still be on its way.
    KeepsTheNumber,
    /// Commands continue after the lease has ended.
    RunsOn,
    /// A worker that has claimed the job never again looks below its mark, where the job may appear again.
    NeverLooksBelow,
}

/// How often each event may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Lost sessions.
    pub(super) losses: u8,
    /// Leases that end by the worker's clock.
    pub(super) lease_ends: u8,
    /// Leases that end by the server's clock.
    pub(super) expiries: u8,
    /// Deaths of claimers.
    pub(super) claimer_deaths: u8,
    /// Deaths of workers.
    pub(super) deaths: u8,
    /// Failed commands.
    pub(super) failures: u8,
}

/// The state of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Due,
    /// Claimed by this worker, in this turn.
    Running(usize, u64),
    Done,
}

/// An outcome: the fence of its claim, and whether the job is done.
type HandIn = (u8, bool);

/// A packet with a turn, or with a look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Packet {
    worker: usize,
    /// The worker's registration that the packet is for.
    registration: u8,
    number: u64,
    completes: Option<HandIn>,
    wants: bool,
    /// Whether it only claims above the job.
    begins_above: bool,
    step: TurnAsk,
    /// When it was sent, as the number of times the worker's lease had ended.
    sent: u8,
}

/// A worker's current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PendingTurn {
    exchange: Exchange,
    completes: Option<HandIn>,
    wants: bool,
    /// When it was first sent, as the number of times the worker's lease had ended.
    sent: u8,
}

/// What is on its way on a worker's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OnTheWay {
    Nothing,
    Packet(Packet),
    /// The last turn's number, if the worker exists, and the fence of this turn's claim.
    Answer(Packet, Option<u64>, Option<u8>),
}

/// A worker's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WorkerRow {
    registration: u8,
    turn: u64,
    is_there: bool,
    has_expired: bool,
}

/// The state of a worker.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what may be so at the same time"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Worker {
    is_dead: bool,
    registration: u8,
    last_turn: u64,
    exchange: Option<PendingTurn>,
    /// Whether the lease is valid, and how often it has ended.
    is_fresh: bool,
    ends: u8,
    /// The fence of the worker's claim.
    job: Option<u8>,
    runs: bool,
    /// Whether the job's command has ended, and with success.
    ended: Option<bool>,
    /// The outcome in the last turn, until the next turn begins. Claims are reported before their turn is over.
    handed: Option<HandIn>,
    /// The outcome of a claimer that died during its turn. It is recorded again.
    again: Option<HandIn>,
    /// Whether the worker's mark is at or after the job, and whether its last claim found nothing.
    is_past: bool,
    is_exhausted: bool,
    on_the_way: OnTheWay,
    /// Whether its claims must be compared with the running jobs.
    is_unsure: bool,
}

impl Worker {
    /// One that has just registered.
    fn registered(registration: u8) -> Self {
        Self {
            is_dead: false,
            registration,
            last_turn: 0,
            exchange: None,
            is_fresh: true,
            ends: 0,
            job: None,
            runs: false,
            ended: None,
            handed: None,
            again: None,
            is_past: false,
            is_exhausted: false,
            on_the_way: OnTheWay::Nothing,
            is_unsure: false,
        }
    }

    /// A turn with this outcome was carried out.
    fn complete(&mut self, completes: Option<HandIn>) {
        let Some((fence, _)) = completes else { return };
        if self.again == completes {
            self.again = None;
        }
        if self.job == Some(fence) {
            self.job = None;
            self.ended = None;
            self.handed = completes;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    broken: Option<Broken>,
    budget: Budget,
    place: Place,
    fence: u8,
    /// Whether a command for the job has succeeded.
    was_done: bool,
    rows: [WorkerRow; WORKERS],
    workers: [Worker; WORKERS],
    /// Packets of lost sessions that may still be carried out.
    strays: Vec<Packet>,
}

impl World {
    pub(super) fn new(broken: Option<Broken>, budget: Budget) -> Self {
        let row = WorkerRow {
            registration: 0,
            turn: 0,
            is_there: true,
            has_expired: false,
        };
        let worker = Worker::registered(0);
        Self {
            broken,
            budget,
            place: Place::Due,
            fence: 0,
            was_done: false,
            rows: [row; WORKERS],
            workers: [worker; WORKERS],
            strays: Vec::new(),
        }
    }

    fn is_broken(&self, rule: Broken) -> bool {
        self.broken == Some(rule)
    }

    /// The server carries out a packet. Returns its answer.
    fn carry_out(&mut self, packet: Packet) -> (Option<u64>, Option<u8>) {
        let at = packet.worker;
        let is_meant = self.rows[at].is_there && self.rows[at].registration == packet.registration;
        let is_next = self.is_broken(Broken::TurnsWithoutCondition)
            || self.rows[at].turn + 1 == packet.number;
        let has_it = matches!(self.place, Place::Running(worker, _) if worker == at && is_meant);
        if packet.step == TurnAsk::CarryOut {
            let takes_turn = is_meant && is_next;
            if takes_turn {
                self.rows[at].turn = packet.number;
                self.rows[at].has_expired = false;
            }
            let by_job = self.is_broken(Broken::HandsInByJobAlone)
                && matches!(self.place, Place::Running(..));
            if let Some((fence, is_done)) = packet.completes {
                let is_its_claim = has_it && takes_turn && fence == self.fence;
                if is_its_claim || by_job {
                    assert!(
                        is_its_claim,
                        "a job is completed by one that does not have it"
                    );
                    self.place = if is_done { Place::Done } else { Place::Due };
                }
            }
            if takes_turn && packet.wants && !packet.begins_above && self.place == Place::Due {
                self.fence += 1;
                self.place = Place::Running(at, packet.number);
            }
        }
        let row = self.rows[at];
        let is_meant = row.is_there && row.registration == packet.registration;
        let claimed = match self.place {
            Place::Running(worker, turn) if worker == at && turn == packet.number => {
                Some(self.fence)
            }
            _ => None,
        };
        (is_meant.then_some(row.turn), claimed.filter(|_| is_meant))
    }

    fn send(&mut self, at: usize) {
        let (is_unsure, place, fence) = (self.workers[at].is_unsure, self.place, self.fence);
        let counts_looks = self.is_broken(Broken::CountsLooks);
        let keeps_number = self.is_broken(Broken::KeepsTheNumber);
        let never_looks = self.is_broken(Broken::NeverLooksBelow);
        let worker = &mut self.workers[at];
        if is_unsure && worker.exchange.is_none() {
            // A new claimer renews the lease, and reads the last turn's number and the running jobs.
            worker.is_unsure = false;
            let row = self.rows[at];
            if !row.is_there || row.registration != worker.registration {
                return self.register(at);
            }
            // From now on packets of the dead claimer are too late.
            self.rows[at].turn += u64::from(!keeps_number);
            worker.last_turn = self.rows[at].turn;
            self.rows[at].has_expired = false;
            let known = [worker.job, worker.again.map(|(fence, _)| fence)];
            let has_unknown =
                matches!(place, Place::Running(of, _) if of == at) && !known.contains(&Some(fence));
            if has_unknown && self.broken != Some(Broken::ForgetsUnknownClaims) {
                worker.exchange = Some(PendingTurn {
                    exchange: Exchange::after(worker.last_turn),
                    completes: Some((fence, false)),
                    wants: false,
                    sent: worker.ends,
                });
            } else {
                return;
            }
        }
        worker.handed = None;
        let pending = *worker.exchange.get_or_insert(PendingTurn {
            exchange: Exchange::after(worker.last_turn),
            completes: worker.again.or(worker.job.zip(worker.ended)),
            wants: worker.job.is_none() || worker.again.is_none() && worker.ended.is_some(),
            sent: worker.ends,
        });
        // A look renews no lease: the lease counts from the sending of the turn.
        let sent = if counts_looks {
            worker.ends
        } else {
            pending.sent
        };
        worker.on_the_way = OnTheWay::Packet(Packet {
            worker: at,
            registration: worker.registration,
            number: pending.exchange.number(),
            completes: pending.completes,
            wants: pending.wants,
            begins_above: worker.is_past && (never_looks || !worker.is_exhausted),
            step: pending.exchange.step(),
            sent,
        });
    }

    fn register(&mut self, at: usize) {
        let registration = self.rows[at].registration + 1;
        self.rows[at] = WorkerRow {
            registration,
            turn: 0,
            is_there: true,
            has_expired: false,
        };
        let worker = &mut self.workers[at];
        *worker = Worker {
            is_dead: worker.is_dead,
            ends: worker.ends,
            ..Worker::registered(registration)
        };
    }

    fn answer(&mut self, at: usize) {
        let OnTheWay::Answer(packet, last, claimed) = self.workers[at].on_the_way else {
            return;
        };
        let counts_late = self.is_broken(Broken::CountsFromAnswer);
        let worker = &mut self.workers[at];
        worker.on_the_way = OnTheWay::Nothing;
        let Some(pending) = &mut worker.exchange else {
            return;
        };
        let completes = pending.completes;
        match pending.exchange.on_answer(last) {
            Verdict::Lost => return self.register(at),
            Verdict::Again => return,
            Verdict::Forgotten => unreachable!("this server forgets nothing"),
            Verdict::Done => {}
        }
        worker.is_fresh |= packet.sent == worker.ends || counts_late;
        worker.last_turn = packet.number;
        worker.exchange = None;
        worker.complete(completes);
        if packet.wants {
            worker.is_past |= claimed.is_some();
            worker.is_exhausted = claimed.is_none();
        }
        if let Some(fence) = claimed {
            worker.job = Some(fence);
        }
    }

    fn lose_session(&mut self, at: usize) {
        let believes = self.is_broken(Broken::BelievesLostAsDone);
        let worker = &mut self.workers[at];
        if let OnTheWay::Packet(packet) = worker.on_the_way {
            self.strays.push(packet);
        }
        worker.on_the_way = OnTheWay::Nothing;
        if let Some(pending) = &mut worker.exchange {
            pending.exchange.on_silence();
            if believes {
                worker.last_turn = pending.exchange.number();
                let completes = pending.completes;
                worker.exchange = None;
                worker.complete(completes);
            }
        }
    }

    fn end_commands(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        if worker.runs {
            worker.runs = false;
            worker.ended = Some(false);
        }
    }
}
