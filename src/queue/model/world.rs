//! The tables, the workers and what is on the way between them.

mod events;

use super::super::exchange::{Exchange, Step, Verdict};

const WORKERS: usize = 2;

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A turn is carried out whatever the number of the last one.
    TurnsWithoutCondition,
    /// A turn whose answer was lost counts as carried out.
    BelievesLostAsDone,
    /// The lease counts from the answer, and not from when its packet was sent.
    CountsFromAnswer,
    /// To learn what became of a turn proves the lease.
    CountsLooks,
    /// What is handed in counts whoever has the job, and by whichever claim.
    HandsInByJobAlone,
    /// Jobs are taken from workers whose lease is not over.
    RescuesTheLiving,
    /// A worker whose jobs were given to others stays registered.
    LeavesTheRescued,
    /// What a claimer that died has claimed is not given back.
    ForgetsUnknownClaims,
    /// A new claimer goes on with the number of the last turn, which the dead one may have on the way again.
    KeepsTheNumber,
    /// Commands run on when the lease is over.
    RunsOn,
}

/// How often what may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Sessions are lost.
    pub(super) losses: u8,
    /// Leases end by the clock of their workers.
    pub(super) lease_ends: u8,
    /// And by that of the server.
    pub(super) expiries: u8,
    /// Claimers die.
    pub(super) claimer_deaths: u8,
    /// Workers die.
    pub(super) deaths: u8,
    /// Commands fail.
    pub(super) failures: u8,
}

/// Where the job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Due,
    /// With this worker, since this turn of it.
    Running(usize, u64),
    Done,
}

/// The fence of the claim that is handed in, and whether the job is done.
type HandIn = (u8, bool);

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Packet {
    worker: usize,
    /// The registration of the worker that it is for.
    registration: u8,
    number: u64,
    hands_in: Option<HandIn>,
    wants: bool,
    step: Step,
    /// When it was sent, as a count of the ends of the worker's lease.
    sent: u8,
}

/// A turn that a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PendingTurn {
    exchange: Exchange,
    hands_in: Option<HandIn>,
    wants: bool,
    /// When it was first sent, as a count of the ends of the worker's lease.
    sent: u8,
}

/// What is on the way of a worker's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OnTheWay {
    Nothing,
    Packet(Packet),
    /// Whether the worker is there, the number of its last turn, and the fence of what was claimed in this one.
    Answer(Packet, Option<u64>, Option<u8>),
}

/// A worker's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    registration: u8,
    turn: u64,
    is_there: bool,
    has_expired: bool,
}

/// What a worker knows.
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
    /// Whether the lease is proved, and how often it has ended.
    is_fresh: bool,
    ends: u8,
    /// The fence of the job that it has.
    job: Option<u8>,
    runs: bool,
    /// Whether the job's command has ended, and well.
    ended: Option<bool>,
    /// What the last turn has handed in, as long as the next has not begun: its claims are reported before it is over.
    handed: Option<HandIn>,
    /// That of a claimer that died before its turn was over, which is handed in again.
    again: Option<HandIn>,
    on_the_way: OnTheWay,
    /// Whether what it has claimed is to be compared with what is running.
    is_unsure: bool,
}

impl Worker {
    /// A turn that has handed this in was carried out.
    fn hand_in(&mut self, hands_in: Option<HandIn>) {
        let Some((fence, _)) = hands_in else { return };
        if self.again == hands_in {
            self.again = None;
        }
        if self.job == Some(fence) {
            self.job = None;
            self.ended = None;
            self.handed = hands_in;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    broken: Option<Broken>,
    budget: Budget,
    place: Place,
    fence: u8,
    /// Whether a command has ended well for the job.
    was_done: bool,
    rows: [Row; WORKERS],
    workers: [Worker; WORKERS],
    /// What a session that was lost may still carry out.
    strays: Vec<Packet>,
}

impl World {
    pub(super) fn new(broken: Option<Broken>, budget: Budget) -> Self {
        let row = Row {
            registration: 0,
            turn: 0,
            is_there: true,
            has_expired: false,
        };
        let worker = Worker {
            is_dead: false,
            registration: 0,
            last_turn: 0,
            exchange: None,
            is_fresh: true,
            ends: 0,
            job: None,
            runs: false,
            ended: None,
            handed: None,
            again: None,
            on_the_way: OnTheWay::Nothing,
            is_unsure: false,
        };
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

    /// The server carries out a packet; its answer.
    fn carry_out(&mut self, packet: Packet) -> (Option<u64>, Option<u8>) {
        let at = packet.worker;
        let is_meant = self.rows[at].is_there && self.rows[at].registration == packet.registration;
        let is_next = self.is_broken(Broken::TurnsWithoutCondition)
            || self.rows[at].turn + 1 == packet.number;
        let has_it = matches!(self.place, Place::Running(worker, _) if worker == at && is_meant);
        if packet.step == Step::CarryOut {
            let takes_turn = is_meant && is_next;
            if takes_turn {
                self.rows[at].turn = packet.number;
                self.rows[at].has_expired = false;
            }
            let by_job = self.is_broken(Broken::HandsInByJobAlone)
                && matches!(self.place, Place::Running(..));
            if let Some((fence, is_done)) = packet.hands_in {
                let is_its_claim = has_it && takes_turn && fence == self.fence;
                if is_its_claim || by_job {
                    assert!(
                        is_its_claim,
                        "a job is handed in by one that does not have it"
                    );
                    self.place = if is_done { Place::Done } else { Place::Due };
                }
            }
            if takes_turn && packet.wants && self.place == Place::Due {
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
        let worker = &mut self.workers[at];
        if is_unsure && worker.exchange.is_none() {
            // A new claimer renews the lease, asks which turn was the last, and what is running.
            worker.is_unsure = false;
            let row = self.rows[at];
            if !row.is_there || row.registration != worker.registration {
                return self.register(at);
            }
            // What the dead one has sent comes too late from here on.
            self.rows[at].turn += u64::from(!keeps_number);
            worker.last_turn = self.rows[at].turn;
            self.rows[at].has_expired = false;
            let known = [worker.job, worker.again.map(|(fence, _)| fence)];
            let has_unknown =
                matches!(place, Place::Running(of, _) if of == at) && !known.contains(&Some(fence));
            if has_unknown && self.broken != Some(Broken::ForgetsUnknownClaims) {
                worker.exchange = Some(PendingTurn {
                    exchange: Exchange::after(worker.last_turn),
                    hands_in: Some((fence, false)),
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
            hands_in: worker.again.or(worker.job.zip(worker.ended)),
            wants: worker.job.is_none() || worker.again.is_none() && worker.ended.is_some(),
            sent: worker.ends,
        });
        // What is only looked up renews no lease: it counts from when the turn was sent.
        let sent = if counts_looks {
            worker.ends
        } else {
            pending.sent
        };
        worker.on_the_way = OnTheWay::Packet(Packet {
            worker: at,
            registration: worker.registration,
            number: pending.exchange.number(),
            hands_in: pending.hands_in,
            wants: pending.wants,
            step: pending.exchange.step(),
            sent,
        });
    }

    fn register(&mut self, at: usize) {
        let registration = self.rows[at].registration + 1;
        self.rows[at] = Row {
            registration,
            turn: 0,
            is_there: true,
            has_expired: false,
        };
        let worker = &mut self.workers[at];
        *worker = Worker {
            registration,
            last_turn: 0,
            exchange: None,
            is_fresh: true,
            job: None,
            runs: false,
            ended: None,
            handed: None,
            again: None,
            on_the_way: OnTheWay::Nothing,
            is_unsure: false,
            ..*worker
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
        let hands_in = pending.hands_in;
        match pending.exchange.on_answer(last) {
            Verdict::Lost => return self.register(at),
            Verdict::Again => return,
            Verdict::Forgotten => unreachable!("this server forgets nothing"),
            Verdict::Done => {}
        }
        worker.is_fresh |= packet.sent == worker.ends || counts_late;
        worker.last_turn = packet.number;
        worker.exchange = None;
        worker.hand_in(hands_in);
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
                let hands_in = pending.hands_in;
                worker.exchange = None;
                worker.hand_in(hands_in);
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
