//! The rig against a responder that answers at once.

use std::sync::Arc;

use super::evidence::Limit;
use super::observe::Observer;
use super::rig::Rig;
use super::slo::{Slo, Verdict};
use super::step::{Ask, Phase};
use super::workload::Workload;
use crate::load::{NullResponder, capability};
use crate::trial::Interrupt;

/// A rig at a responder, with so many clients.
fn rig<'a>(responder: &NullResponder, clients: u32, interrupt: &'a Interrupt) -> Rig<'a> {
    let nowhere = || Err("a look".to_owned());
    Rig {
        login: Arc::new(responder.login()),
        workload: Workload::built_in(),
        slo: Slo::DEFAULT,
        clients,
        seed: 1,
        observer: Observer {
            server: nowhere(),
            console: nowhere(),
            database: "null".to_owned(),
            is_host: false,
            cores: None,
            pooler_pid: None,
        },
        rate_max: None,
        interrupt,
        tick: &|_| (),
        failure: None,
    }
}

#[test]
fn a_target_that_answers_at_once_makes_the_run_void() {
    let responder = NullResponder::start().expect("a responder");
    let interrupt = Interrupt::listen().expect("signals");
    let mut rig = rig(&responder, 8, &interrupt);
    // Whatever else runs on the machine: the generator is the limit, as soon as both attempts have the same share of it.
    let found = (0..20).any(|_| {
        rig.rate_max = Some(capability(8, 200_000).expect("a measurement").rate);
        let (closed, evidence) = rig.closed(8, 0, 0.2).expect("a run").expect("nobody ends it");
        assert!(closed.throughput > 100.0 && closed.failed == 0, "{closed:?}");
        evidence.limit() == Limit::Generator
    });
    assert!(found, "the generator was never the limit");
    // What is offered beyond what the generator can do proves nothing.
    let most = rig.rate_max.expect("a rate");
    let ask = Ask { rate: most * 0.9, seconds: 0.3, before: None, phase: Phase::Climb };
    let step = rig.step(&ask).expect("a run").expect("nobody ends it");
    assert!(matches!(Slo::DEFAULT.judge(&step), Verdict::Void(why) if why.contains("generator")), "{:?}", step.void);
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_each_request_once() {
    let responder = NullResponder::start().expect("a responder");
    let interrupt = Interrupt::listen().expect("signals");
    let mut rig = rig(&responder, 4, &interrupt);
    let ask = Ask { rate: 500.0, seconds: 1.0, before: Some((1000.0, 0.2)), phase: Phase::Recovery };
    let step = rig.step(&ask).expect("a run").expect("nobody ends it");
    assert!(step.requests().abs_diff(500) < 120, "{}", step.requests());
    assert_eq!(step.slices.iter().map(|(requests, _)| requests).sum::<u64>(), step.requests());
    assert_eq!((step.failed, step.first_failure), (0, None));
}
