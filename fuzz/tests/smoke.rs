//! Runs every target over its seeds and a bounded number of mutations of them, always the same.
//!
//! Not here: the long search (`cargo xtask fuzz`), and the one that sees branches (`cargo fuzz`).

use fuzz::mutate::Mutator;
use fuzz::search::{attempt, shrink};
use fuzz::{TARGETS, corpus, target};

/// Runs a target, and panics with the input that fails and the name of its seed, if it is one.
fn smoke(name: &str, mutations: usize) {
    let target = target(name).expect("a target of this name");
    let seeds = corpus::seeds(name).expect("a corpus");
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (file, input) in &seeds {
        if let Err(failure) = attempt(target, input) {
            panic!("{name}, {file}: {}: {}", failure.place, failure.words);
        }
    }
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(SEED, &inputs, target.words, target.bytes_max);
    for _ in 0..mutations {
        let input = mutator.next_input();
        if let Err(failure) = attempt(target, &input) {
            let least = shrink(target, &input, &failure);
            panic!("{name}: {}: {}\ninput: {}", failure.place, failure.words, least.escape_ascii());
        }
    }
}

const SEED: u64 = 20_260_131;

macro_rules! smoke {
    ($($name:ident: $mutations:literal,)*) => {
        $(
            #[test]
            fn $name() {
                smoke(stringify!($name), $mutations);
            }
        )*

        #[test]
        fn every_target_has_its_smoke_run_and_its_entry_point() {
            let smoked = [$(stringify!($name)),*];
            assert_eq!(smoked.to_vec(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
            for name in smoked {
                assert!(corpus::home().join("fuzz_targets").join(format!("{name}.rs")).is_file(), "{name}");
            }
        }
    };
}

smoke! {
    framing: 80000,
    startup: 80000,
    client: 16000,
    server: 16000,
    loan: 120000,
    vars: 60000,
    config: 6000,
    connstr: 30000,
    console: 30000,
    scram: 30000,
    users: 80000,
    hba: 8000,
    ldap: 20000,
    request: 80000,
    sql: 16000,
    nested: 300,
}

#[test]
fn seeds_are_few_and_small() {
    for target in TARGETS {
        let seeds = corpus::seeds(target.name).expect("a corpus");
        assert!(seeds.len() <= 48, "{}: {} seeds", target.name, seeds.len());
        for (file, input) in seeds {
            assert!(input.len() <= target.bytes_max, "{}, {file}: {} bytes", target.name, input.len());
        }
    }
}
