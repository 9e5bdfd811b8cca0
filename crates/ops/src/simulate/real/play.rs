//! Plays the applications of a spec: which statements are sent, on which connections.
//!
//! Always true: a transaction is BEGIN, its statements with the times of thinking between them, COMMIT; its lane is its process.
//! Not here: when (`engine::asking`), sending (`load`), counting (`book`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::book::{Book, Flight};
use super::objects::{Manner, Objects};
use crate::load::{Ended, Lane, Login, LoginTimes, Order, Place, Refused, Request, Step, Traffic};
use crate::simulate::engine::{Ask, Asked, Asking};
use crate::simulate::spec::{Application, Spec};

/// The applications of a spec at a target.
pub(super) struct Play<'a> {
    asking: Asking<'a>,
    objects: &'a Objects,
    run: u32,
    manner: Manner,
    /// By tenant.
    logins: Vec<Arc<Login>>,
    flights: BTreeMap<u64, Flight>,
    next_id: u64,
    asks: Vec<Ask>,
    pub(super) book: Book,
}

impl<'a> Play<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        objects: &'a Objects,
        seed: u64,
        run: u32,
        manner: Manner,
        place: &Place,
        secret: &Arc<auth::Secret>,
    ) -> Self {
        let login = |tenant: &super::objects::Tenant| {
            Arc::new(Login {
                place: place.clone(),
                user: tenant.role.as_str().into(),
                database: objects.databases[tenant.database].as_str().into(),
                secret: secret.clone(),
                name: "simulate".into(),
                tls: None,
            })
        };
        Self {
            asking: Asking::new(spec, seed),
            objects,
            run,
            manner,
            logins: objects.tenants.iter().map(login).collect(),
            flights: BTreeMap::new(),
            next_id: 0,
            asks: Vec::new(),
            book: Book::new(spec, objects),
        }
    }

    /// The lanes of the processes that are there from the beginning.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        self.asking.processes().iter().map(|(tenant, application)| self.lane(*tenant, application)).collect()
    }

    fn lane(&self, tenant: u32, application: &Application) -> Lane {
        Lane {
            login: self.logins[tenant as usize].clone(),
            clients_max: application.client_pool,
            waiting_max: WAITING_MAX,
            requests_max: application.transactions_max,
            idle_max: application.idle_max,
            lifetime: None,
        }
    }

    fn send(&mut self, asked: Asked) -> Request {
        let id = self.next_id;
        self.next_id += 1;
        let (steps, flight) = match asked.lasts {
            Some(lasts) => self.long(asked, lasts),
            None => self.ordinary(asked, id),
        };
        self.flights.insert(id, flight);
        Request { at: asked.at, lane: asked.process, tag: id, steps }
    }

    fn flight(&self, asked: Asked, kind: usize, steps: usize) -> Flight {
        Flight {
            tenant: asked.tenant,
            group: self.asking.group_of(asked.tenant) as u32,
            kind: kind as u32,
            user: asked.user,
            steps,
            thinks: 0,
            posts: false,
            is_ordinary: asked.lasts.is_none(),
        }
    }

    fn long(&self, asked: Asked, lasts: u64) -> (Vec<Step>, Flight) {
        let statement = Manner::SLEEPING.statement(lasts);
        let steps = vec![Step::Ask(BEGIN.into()), Step::Ask(statement.into()), Step::Ask(COMMIT.into())];
        let flight = self.flight(asked, 0, steps.len());
        (steps, flight)
    }

    fn ordinary(&mut self, asked: Asked, id: u64) -> (Vec<Step>, Flight) {
        let work = self.asking.work(asked.tenant);
        let tenant = &self.objects.tenants[asked.tenant as usize];
        let mut steps = vec![Step::Ask(BEGIN.into())];
        for (place, micros) in work.statements.iter().enumerate() {
            let sql = match place {
                0 => tenant.post(self.run, id, *micros, self.manner),
                _ => self.manner.statement(*micros),
            };
            steps.push(Step::Ask(sql.into()));
            steps.extend(work.thinks.get(place).filter(|micros| **micros > 0).map(|micros| Step::Think(*micros)));
        }
        steps.push(Step::Ask(COMMIT.into()));
        let thinks = work.thinks.iter().sum();
        let flight = Flight { thinks, posts: true, ..self.flight(asked, work.kind, steps.len()) };
        (steps, flight)
    }
}

impl Traffic for Play<'_> {
    fn next_at(&self) -> Option<u64> {
        self.asking.next_at()
    }

    fn due(&mut self, _now: u64, orders: &mut Vec<Order>) {
        let mut asks = std::mem::take(&mut self.asks);
        self.asking.due(&mut asks);
        for ask in asks.drain(..) {
            match ask {
                Ask::Transaction(asked) => orders.push(Order::Send(self.send(asked))),
                // The driver numbers lanes in the order in which they come, which is that of the processes.
                Ask::Begin { tenant, process, application, connections } => {
                    orders.push(Order::AddLane(self.lane(tenant, &application)));
                    orders.push(Order::Open { lane: process, clients: connections });
                }
                Ask::End { process } => orders.push(Order::Retire { lane: process }),
            }
        }
        self.asks = asks;
    }

    fn ended(&mut self, now: u64, ended: &Ended) {
        let Some(flight) = self.flights.remove(&ended.tag) else { return };
        self.book.note(&flight, ended.tag, ended);
        if let Some(user) = flight.user {
            self.asking.user_thinks(now, user);
        }
    }

    fn opened(&mut self, _lane: u32, opened: Result<&LoginTimes, &Refused>) {
        match opened {
            Ok(times) => self.book.logins.note(times.ready - times.began),
            Err(_) => self.book.whole.logins_failed += 1,
        }
    }
}

const BEGIN: &str = "begin";
const COMMIT: &str = "commit";
/// Transactions that wait in a process; one more is refused.
const WAITING_MAX: usize = 1_000_000;
