//! `hba` for `cargo fuzz`; what it looks for stands in `src/targets/hba.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::hba::run(input));
