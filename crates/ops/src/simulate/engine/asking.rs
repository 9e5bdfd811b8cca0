//! What the applications of a spec ask for, and when, without pools and servers: for whoever plays it against real ones.
//!
//! Always true: by the same seed, an open loop asks at the same times, and the same tenants and processes, as a simulated run; so a difference
//! between both is not one of chance.
//! Not here: what became of it; a user of a closed loop asks again only when he is told that he has an answer.

use super::clock::{Clock, Next};
use super::sources::Sources;
use crate::load::Dice;
use crate::simulate::spec::{Application, Happening, Spec};

/// The applications of a spec.
pub(crate) struct Asking<'a> {
    spec: &'a Spec,
    clock: Clock,
    dice: Dice,
    sources: Sources<'a>,
    tenants: Vec<Tenant>,
    /// The tenant and the application of each process.
    processes: Vec<(u32, Application)>,
}

struct Tenant {
    group: u32,
    /// Those that get new transactions.
    processes: Vec<u32>,
}

/// Something that applications do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Ask {
    Transaction(Asked),
    /// A process begins; processes are numbered from 0 in the order in which they begin. It opens so many connections at once.
    Begin {
        tenant: u32,
        process: u32,
        application: Application,
        connections: u32,
    },
    /// A process that was replaced ends.
    End {
        process: u32,
    },
}

/// A transaction that is to begin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Asked {
    /// In microseconds of the run.
    pub(crate) at: u64,
    pub(crate) tenant: u32,
    pub(crate) process: u32,
    /// The user of a closed loop who waits for it.
    pub(crate) user: Option<(u32, u32)>,
    /// For how long it is to have a server, if not by its kind.
    pub(crate) lasts: Option<u64>,
}

/// What a transaction does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    /// Its kind, by its place in the spec.
    pub(crate) kind: usize,
    /// The time of each statement, in microseconds.
    pub(crate) statements: Vec<u64>,
    /// The time of thinking after each statement but the last.
    pub(crate) thinks: Vec<u64>,
}

impl<'a> Asking<'a> {
    /// Begins at time 0. The processes that are there then are the first of [`Asking::processes`].
    pub(crate) fn new(spec: &'a Spec, seed: u64) -> Self {
        let mut asking = Self {
            spec,
            clock: Clock::default(),
            dice: Dice::new(seed, 3),
            sources: Sources::new(seed),
            tenants: Vec::new(),
            processes: Vec::new(),
        };
        for (database, number) in spec.databases.iter().zip(0..) {
            for group in &database.groups {
                asking.add_group(number, group);
            }
        }
        for (event, index) in spec.events.iter().zip(0..) {
            asking.clock.plan(event.at, Next::Happening { index });
        }
        asking
    }

    fn add_group(&mut self, database: u32, group: &'a crate::simulate::spec::Group) {
        let number = self.sources.add_group(database, group, self.tenants.len() as u32, &mut self.clock);
        for _ in 0..group.tenants {
            let (tenant, first) = (self.tenants.len() as u32, self.processes.len() as u32);
            self.processes.extend((0..group.application.processes).map(|_| (tenant, group.application)));
            self.tenants.push(Tenant { group: number, processes: (first..self.processes.len() as u32).collect() });
        }
    }

    /// The tenant and the application of each process that has begun.
    pub(crate) fn processes(&self) -> &[(u32, Application)] {
        &self.processes
    }

    /// The group of a tenant.
    pub(crate) fn group_of(&self, tenant: u32) -> usize {
        self.tenants[tenant as usize].group as usize
    }

    /// When something is asked next; `None` after the end of the spec.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.clock.next_at().filter(|at| *at < self.spec.duration)
    }

    /// What is asked at that time. May be nothing.
    pub(crate) fn due(&mut self, asks: &mut Vec<Ask>) {
        let Some((now, next)) = self.clock.pop() else { return };
        match next {
            Next::Arrival { source, epoch } => {
                if let Some(tenant) = self.sources.arrives(now, source, epoch, &mut self.clock) {
                    self.ask(now, tenant, None, None, asks);
                }
            }
            Next::State { source } => self.sources.next_state(now, source, &mut self.clock),
            Next::User { source, user } => {
                self.ask(now, self.sources.tenant_of(source, user), Some((source, user)), None, asks);
            }
            Next::StormClient { process } => {
                let tenant = self.processes[process as usize].0;
                asks.push(Ask::Transaction(Asked { at: now, tenant, process, user: None, lasts: None }));
            }
            Next::Happening { index } => self.happens(now, index, asks),
            Next::HappeningEnds { index } => {
                self.sources.change_rate(now, &self.spec.events[index as usize].tenants, 1.0, &mut self.clock);
            }
            Next::ProcessEnds { process } => asks.push(Ask::End { process }),
            // Nothing else is planned here.
            _ => {}
        }
    }

    fn ask(&mut self, at: u64, tenant: u32, user: Option<(u32, u32)>, lasts: Option<u64>, asks: &mut Vec<Ask>) {
        let process = self.sources.one_of(&self.tenants[tenant as usize].processes);
        asks.push(Ask::Transaction(Asked { at, tenant, process, user, lasts }));
    }

    /// A user of a closed loop has an answer, and thinks.
    pub(crate) fn user_thinks(&mut self, now: u64, (source, user): (u32, u32)) {
        self.sources.user_thinks(now, source, user, &mut self.clock);
    }

    /// Draws what a transaction of a tenant does.
    pub(crate) fn work(&mut self, tenant: u32) -> Work {
        let group = &self.sources.groups[self.tenants[tenant as usize].group as usize];
        let kind = group.kinds.as_ref().map_or(0, |kinds| self.dice.place(kinds));
        let transaction = &group.group.transactions[kind];
        let statements = (0..transaction.statements).map(|_| transaction.service.draw(&mut self.dice)).collect();
        let thinks = (1..transaction.statements).map(|_| transaction.think.draw(&mut self.dice)).collect();
        Work { kind, statements, thinks }
    }

    fn happens(&mut self, now: u64, index: u32, asks: &mut Vec<Ask>) {
        let event = &self.spec.events[index as usize];
        match &event.what {
            Happening::Deploy { overlap } => {
                for tenant in self.sources.tenants_of(&event.tenants) {
                    let old = std::mem::take(&mut self.tenants[tenant as usize].processes);
                    let new = old.iter().map(|process| {
                        let application = self.processes[*process as usize].1;
                        Self::begin(&mut self.processes, tenant, application, application.client_pool, asks)
                    });
                    self.tenants[tenant as usize].processes = new.collect();
                    for process in old {
                        self.clock.plan(now + overlap, Next::ProcessEnds { process });
                    }
                }
            }
            Happening::Storm { clients, within } => {
                let tenants = self.sources.tenants_of(&event.tenants);
                let application = Application { processes: 1, client_pool: 0, transactions_max: 1, idle_max: None };
                let begin = |tenant| Self::begin(&mut self.processes, tenant, application, 0, asks);
                let processes: Vec<u32> = tenants.into_iter().map(begin).collect();
                self.sources.storm(now, &processes, *clients, *within, &mut self.clock);
            }
            Happening::Rate { factor, lasting } => {
                self.sources.change_rate(now, &event.tenants, *factor, &mut self.clock);
                self.clock.plan(now.saturating_add(*lasting), Next::HappeningEnds { index });
            }
            Happening::Long { clients, lasts } => {
                for tenant in self.sources.tenants_of(&event.tenants) {
                    (0..*clients).for_each(|_| self.ask(now, tenant, None, Some(*lasts), asks));
                }
            }
            // They concern the server and the pooler, not the applications.
            Happening::Restart { .. } | Happening::Reload { .. } => {}
        }
    }

    fn begin(
        processes: &mut Vec<(u32, Application)>,
        tenant: u32,
        application: Application,
        connections: u32,
        asks: &mut Vec<Ask>,
    ) -> u32 {
        let process = processes.len() as u32;
        processes.push((tenant, application));
        asks.push(Ask::Begin { tenant, process, application, connections });
        process
    }
}
