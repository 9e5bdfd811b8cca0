//! Valid and malformed SCRAM messages.

use super::*;

const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn flaw<T>(read: Result<T, ScramFault>) -> Flaw {
    match read {
        Err(ScramFault::Malformed { flaw, .. }) => flaw,
        Err(fault) => panic!("{fault}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn a_client_first_message_has_flag_name_and_nonce() {
    let message = ClientFirst::parse(b"n,,n=user,r=abc").expect("well formed");
    assert_eq!(message, ClientFirst { binding: Binding::Unknown, bare: b"n=user,r=abc", nonce: b"abc" });
    let message = ClientFirst::parse(b"y,,n=,r=a=b").expect("well formed");
    assert_eq!(message, ClientFirst { binding: Binding::Declined, bare: b"n=,r=a=b", nonce: b"a=b" });
}

#[test]
fn the_name_in_a_client_first_message_may_be_anything() {
    assert!(ClientFirst::parse(b"n,,n=\xff=2C=,r=abc").is_ok());
}

#[test]
fn optional_extensions_of_a_client_are_skipped() {
    let message = ClientFirst::parse(b"n,,n=,r=abc,x=1,Y=").expect("well formed");
    assert_eq!((message.nonce, message.bare), (&b"abc"[..], &b"n=,r=abc,x=1,Y="[..]));
}

#[test]
fn a_client_binds_its_login_to_the_end_point_or_to_nothing() {
    let message = ClientFirst::parse(b"p=tls-server-end-point,,n=,r=abc").expect("well formed");
    assert_eq!(message, ClientFirst { binding: Binding::Bound, bare: b"n=,r=abc", nonce: b"abc" });
    for message in ["p=tls-unique,,n=,r=abc", "p=tls-server-end-point", "p="] {
        assert_eq!(ClientFirst::parse(message.as_bytes()), Err(ScramFault::ChannelBindingUnknown));
    }
}

#[test]
fn another_identity_is_refused() {
    assert_eq!(ClientFirst::parse(b"n,a=admin,n=,r=abc"), Err(ScramFault::AuthorizationIdentity));
}

#[test]
fn a_mandatory_extension_is_refused_wherever_it_stands() {
    for message in ["n,,m=1,n=,r=abc", "n,,n=,m=1,r=abc", "n,,n=,r=abc,m=1"] {
        assert_eq!(ClientFirst::parse(message.as_bytes()), Err(ScramFault::MandatoryExtension));
    }
    let last = format!("c=biws,r=abc,m=1,p={PROOF}");
    assert_eq!(ClientFinal::parse(last.as_bytes()), Err(ScramFault::MandatoryExtension));
    assert_eq!(ServerFirst::parse(b"m=1,r=abc,s=c2FsdA==,i=1"), Err(ScramFault::MandatoryExtension));
}

#[test]
fn a_malformed_client_first_message_says_what_is_wrong() {
    let of = |message: &[u8]| flaw(ClientFirst::parse(message));
    assert_eq!(of(b""), Flaw::ChannelBindingFlag);
    assert_eq!(of(b"x,,n=,r=abc"), Flaw::ChannelBindingFlag);
    assert_eq!(of(b"n"), Flaw::ChannelBindingFlag);
    assert_eq!(of(b"p"), Flaw::ChannelBindingFlag);
    assert_eq!(of(b"n="), Flaw::ChannelBindingFlag);
    assert_eq!(of(b"n,"), Flaw::Expected('a'));
    assert_eq!(of(b"n,x=1,n=,r=abc"), Flaw::Expected('a'));
    assert_eq!(of(b"n,,"), Flaw::Expected('n'));
    assert_eq!(of(b"n,,r=abc"), Flaw::Expected('n'));
    assert_eq!(of(b"n,,n,r=abc"), Flaw::Expected('n'));
    assert_eq!(of(b"n,,n="), Flaw::Expected('r'));
    assert_eq!(of(b"n,,n=,"), Flaw::Expected('r'));
    assert_eq!(of(b"n,,n=,x=1,r=abc"), Flaw::Expected('r'));
    assert_eq!(of(b"n,,n=,r="), Flaw::Invalid('r'));
    assert_eq!(of(b"n,,n=,r=a b"), Flaw::Invalid('r'));
    assert_eq!(of(b"n,,n=,r=a\x7f"), Flaw::Invalid('r'));
    assert_eq!(of(b"n,,n=,r=\xc3\xa4"), Flaw::Invalid('r'));
    assert_eq!(of(b"n,,n=,r=abc,"), Flaw::NoAttribute);
    assert_eq!(of(b"n,,n=,r=abc,1=x"), Flaw::NoAttribute);
    assert_eq!(of(b"n,,n=,r=abc,x"), Flaw::NoAttribute);
    assert_eq!(of(b"n,,n=,r=abc\0"), Flaw::Nul);
}

#[test]
fn a_message_longer_than_its_limit_is_not_read() {
    let first = |bytes: usize| format!("n=,r={}", "a".repeat(bytes - 5));
    assert!(ClientFirst::parse(format!("n,,{}", first(CLIENT_BYTES_MAX)).as_bytes()).is_ok());
    let message = format!("n,,{}", first(CLIENT_BYTES_MAX + 1));
    assert_eq!(flaw(ClientFirst::parse(message.as_bytes())), Flaw::TooLong);
    assert_eq!(flaw(ClientFinal::parse(&[b'c'; CLIENT_BYTES_MAX + 1])), Flaw::TooLong);
    assert_eq!(flaw(ServerFirst::parse(&[b'r'; SERVER_BYTES_MAX + 1])), Flaw::TooLong);
    assert_eq!(flaw(server_final(&[b'v'; SERVER_BYTES_MAX + 1])), Flaw::TooLong);
}

#[test]
fn a_client_final_message_has_header_nonce_and_proof() {
    let text = format!("c=biws,r=abc,p={PROOF}");
    let message = ClientFinal::parse(text.as_bytes()).expect("well formed");
    assert_eq!((message.binding, message.nonce, message.unproven), (&b"biws"[..], &b"abc"[..], &b"c=biws,r=abc"[..]));
    assert_eq!(maths::base64(&message.proof), PROOF);
}

#[test]
fn the_extensions_before_the_proof_are_signed() {
    let text = format!("c=biws,r=abc,x=1,y=2,p={PROOF}");
    let message = ClientFinal::parse(text.as_bytes()).expect("well formed");
    assert_eq!(message.unproven, b"c=biws,r=abc,x=1,y=2");
}

#[test]
fn a_malformed_client_final_message_says_what_is_wrong() {
    let of = |message: &str| flaw(ClientFinal::parse(message.as_bytes()));
    assert_eq!(of(""), Flaw::Expected('c'));
    assert_eq!(of(&format!("r=abc,p={PROOF}")), Flaw::Expected('c'));
    assert_eq!(of(&format!("c=biws,p={PROOF}")), Flaw::Expected('r'));
    assert_eq!(of("c=biws"), Flaw::Expected('r'));
    assert_eq!(of("c=biws,r=abc"), Flaw::Expected('p'));
    assert_eq!(of("c=biws,r=abc,x=1"), Flaw::Expected('p'));
    assert_eq!(of("c=biws,r=abc,"), Flaw::NoAttribute);
    assert_eq!(of("c=biws,r=abc,p"), Flaw::NoAttribute);
    assert_eq!(of("c=biws,r=abc,p="), Flaw::Invalid('p'));
    assert_eq!(of("c=biws,r=abc,p=dHzb"), Flaw::Invalid('p'));
    assert_eq!(of("c=biws,r=abc,p=!"), Flaw::Invalid('p'));
    assert_eq!(of(&format!("c=biws,r=abc,p={PROOF},x=1")), Flaw::Trailing);
    assert_eq!(of(&format!("c=biws,r=abc,p={PROOF},")), Flaw::Trailing);
    assert_eq!(of(&format!("c=biws,r=abc,p={PROOF}\0")), Flaw::Nul);
}

#[test]
fn a_server_first_message_has_nonce_salt_and_iterations() {
    let message = ServerFirst::parse(b"r=abc,s=c2FsdA==,i=4096,x=1").expect("well formed");
    assert_eq!(message, ServerFirst { nonce: b"abc", salt: b"salt".to_vec(), iterations: 4096 });
}

#[test]
fn a_malformed_server_first_message_says_what_is_wrong() {
    let of = |message: &str| flaw(ServerFirst::parse(message.as_bytes()));
    assert_eq!(of(""), Flaw::Expected('r'));
    assert_eq!(of("e=other-error"), Flaw::Expected('r'));
    assert_eq!(of("r=,s=c2FsdA==,i=1"), Flaw::Invalid('r'));
    assert_eq!(of("r=abc"), Flaw::Expected('s'));
    assert_eq!(of("r=abc,i=1"), Flaw::Expected('s'));
    assert_eq!(of("r=abc,s=c2FsdA,i=1"), Flaw::Invalid('s'));
    assert_eq!(of("r=abc,s=c2FsdA=="), Flaw::Expected('i'));
    for iterations in ["", "x", "-1", "+1", " 1", "1 ", "1.5", "0x1"] {
        assert_eq!(of(&format!("r=abc,s=c2FsdA==,i={iterations}")), Flaw::Invalid('i'));
    }
    assert_eq!(of("r=abc,s=c2FsdA==,i=1,"), Flaw::NoAttribute);
    assert_eq!(of("r=abc,s=c2FsdA==,i=1\0"), Flaw::Nul);
}

#[test]
fn a_number_beyond_64_bits_is_the_largest() {
    assert_eq!(number(b"0"), Some(0));
    assert_eq!(number(b"0012"), Some(12));
    assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(number(b"18446744073709551616"), Some(u64::MAX));
    assert_eq!(number(&[b'9'; 100]), Some(u64::MAX));
}

#[test]
fn a_server_final_message_has_a_signature() {
    let signature = server_final(format!("v={PROOF},x=1").as_bytes()).expect("well formed");
    assert_eq!(maths::base64(&signature), PROOF);
}

#[test]
fn a_malformed_server_final_message_says_what_is_wrong() {
    let of = |message: &str| flaw(server_final(message.as_bytes()));
    assert_eq!(of(""), Flaw::Expected('v'));
    assert_eq!(of("x=1"), Flaw::Expected('v'));
    assert_eq!(of("v="), Flaw::Invalid('v'));
    assert_eq!(of("v=dHzb"), Flaw::Invalid('v'));
    assert_eq!(of(&format!("v={PROOF},")), Flaw::NoAttribute);
    assert_eq!(of("e=x\0"), Flaw::Nul);
}

#[test]
fn the_error_of_a_server_is_told_without_its_control_characters() {
    assert_eq!(server_final(b"e=invalid-proof"), Err(ScramFault::ServerError("invalid-proof".into())));
    assert_eq!(server_final(b"e=a\n\x1b[1mb\xff,x=1"), Err(ScramFault::ServerError("a??[1mb\u{fffd}".into())));
}

#[test]
fn faults_are_told_in_words() {
    let told = |fault: ScramFault| fault.to_string();
    let malformed = |message, flaw| ScramFault::Malformed { message, flaw }.to_string();
    assert_eq!(
        malformed(Message::ClientFirst, Flaw::Expected('r')),
        "malformed SCRAM client-first-message (attribute \"r\" expected)"
    );
    assert_eq!(
        malformed(Message::ServerFinal, Flaw::Invalid('v')),
        "malformed SCRAM server-final-message (invalid value of attribute \"v\")"
    );
    assert_eq!(
        told(ScramFault::ChannelBindingRequired),
        "client requires SCRAM channel binding, but it is not supported"
    );
    assert_eq!(told(ScramFault::ServerSignatureInvalid), "invalid server signature");
    assert_eq!(told(ScramFault::NonceMismatch), "invalid SCRAM response (nonce mismatch)");
    assert_eq!(
        told(ScramFault::IterationsRefused { iterations: 0, allowed: 9 }),
        "server asks for a SCRAM iteration count of 0"
    );
    assert_eq!(
        told(ScramFault::IterationsRefused { iterations: 20_000_000, allowed: 9 }),
        "server asks for 20000000 SCRAM iterations, more than the 9 allowed"
    );
    assert_eq!(
        told(ScramFault::ServerError("invalid-proof".into())),
        "error received from server in SCRAM exchange: invalid-proof"
    );
}
