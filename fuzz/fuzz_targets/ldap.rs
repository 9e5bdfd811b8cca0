//! `ldap` for `cargo fuzz`; what it looks for stands in `src/targets/ldap.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::ldap::run(input));
