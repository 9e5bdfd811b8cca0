//! SCRAM-SHA-256 as a client speaks it: RFC 5802, RFC 7677, and the functions that they build on.
//!
//! Always true: the client's part of the nonce never changes, so that each answer depends only on the challenge.
//! Not here: whether the server knows the secret too; psql checks that in `real/logins/passwords.rs`.

use tests::message;

/// The body of the client's first message.
pub(crate) fn first() -> Vec<u8> {
    let text = format!("n,,{}", first_bare());
    [&message::strings(&["SCRAM-SHA-256"])[..], &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The body of the client's final message; `None` when `challenge` is not an answer to the first message.
pub(crate) fn last(challenge: &str, password: &str) -> Option<Vec<u8>> {
    let field = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let (nonce, salt, rounds) = (field("r")?, from_base64(field("s")?)?, field("i")?.parse::<u32>().ok()?);
    nonce.strip_prefix(NONCE)?;
    let bare = format!("c=biws,r={nonce}");
    let signed = format!("{},{challenge},{bare}", first_bare());
    let client_key = hmac(&stretch(password.as_bytes(), &salt, rounds), b"Client Key");
    let signature = hmac(&sha256(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
    Some(format!("{bare},p={}", to_base64(&proof)).into_bytes())
}

fn first_bare() -> String {
    format!("n=,r={NONCE}")
}

/// `Hi` of RFC 5802.
fn stretch(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let mut round = hmac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = round;
    for _ in 1..rounds {
        round = hmac(password, &round);
        sum.iter_mut().zip(round).for_each(|(byte, more)| *byte ^= more);
    }
    sum
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    let short = if key.len() > 64 { &sha256(key)[..] } else { key };
    block[..short.len()].copy_from_slice(short);
    let inner = sha256(&[&block.map(|byte| byte ^ 0x36)[..], text].concat());
    sha256(&[&block.map(|byte| byte ^ 0x5c)[..], &inner].concat())
}

/// FIPS 180-4.
fn sha256(text: &[u8]) -> [u8; 32] {
    let mut padded = [text, &[0x80]].concat();
    padded.resize((padded.len() + 8).next_multiple_of(64), 0);
    let at = padded.len() - 8;
    padded[at..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 8] =
        [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 64];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for i in 16..64 {
            let (x, y) = (words[i - 15], words[i - 2]);
            let small = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
            let large = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
            words[i] = words[i - 16].wrapping_add(small).wrapping_add(words[i - 7]).wrapping_add(large);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, constant) in words.iter().zip(CONSTANTS) {
            let turned = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = e & f ^ !e & g;
            let one = [turned, chosen, constant, *word].into_iter().fold(h, u32::wrapping_add);
            let turned = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = turned.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
        }
        for (part, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *part = part.wrapping_add(more);
        }
    }
    let mut hash = [0; 32];
    hash.chunks_exact_mut(4).zip(state).for_each(|(bytes, part)| bytes.copy_from_slice(&part.to_be_bytes()));
    hash
}

fn to_base64(bytes: &[u8]) -> String {
    let group = |bytes: &[u8]| {
        let number = bytes.iter().chain([&0, &0]).take(3).fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let letters = (0..4).map(move |i| if i <= bytes.len() { LETTERS[number >> (18 - 6 * i) & 63] } else { b'=' });
        letters.map(char::from).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut number, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        number = number << 6 | LETTERS.iter().position(|known| *known == letter)? as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits) as u8);
        }
    }
    Some(bytes)
}

const NONCE: &str = "there+is+no+need+for+chance+here";
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const CONSTANTS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];
