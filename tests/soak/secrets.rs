//! The authentication of a client.
//!
//! Always true: the answers are computed here and not with the pooler's own code, because a mistake there would agree with itself.
//! Not here: which answer the pooler must accept (`era`), SCRAM (`scram`).

use tests::message;
use tests::peer::Frame;

use super::era::Method;
use super::scram;

/// The answer to an authentication request, if one is due, and the method that was requested; `None` for anything else.
pub(crate) fn answer(question: &Frame, user: &str, password: &str) -> Option<(Method, Vec<u8>)> {
    let (method, body) = match (question.tag, question.body.as_slice()) {
        (b'R', [0, 0, 0, 3]) => (Method::Plain, message::strings(&[password])),
        (b'R', [0, 0, 0, 5, salt @ ..]) => {
            let inner = hex(md5(format!("{password}{user}").as_bytes()));
            let outer = hex(md5(&[inner.as_bytes(), salt].concat()));
            (Method::Md5, message::strings(&[&format!("md5{outer}")]))
        }
        (b'R', [0, 0, 0, 10, ..]) => (Method::Scram, scram::first()),
        (b'R', [0, 0, 0, 11, challenge @ ..]) => {
            (Method::Scram, scram::last(std::str::from_utf8(challenge).ok()?, password)?)
        }
        (b'R', [0, 0, 0, 12, ..]) => return Some((Method::Scram, Vec::new())),
        _ => return None,
    };
    Some((method, message::frame(b'p', &body)))
}

fn hex(hash: [u8; 16]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 1321.
fn md5(text: &[u8]) -> [u8; 16] {
    let mut padded = [text, &[0x80]].concat();
    padded.resize((padded.len() + 8).next_multiple_of(64), 0);
    let at = padded.len() - 8;
    padded[at..].copy_from_slice(&(text.len() as u64 * 8).to_le_bytes());
    // The integer parts of the sines of 1 to 64, as the RFC defines them.
    let sines: Vec<u32> = (1..=64).map(|i| (f64::from(i).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let words: Vec<u32> = block.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for (i, sine) in sines.iter().enumerate() {
            let (mixed, word) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, 5 * i + 1),
                2 => (b ^ c ^ d, 3 * i + 5),
                _ => (c ^ (b | !d), 7 * i),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(*sine).wrapping_add(words[word % 16]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(TURNS[i / 16][i % 4])));
        }
        for (part, more) in state.iter_mut().zip([a, b, c, d]) {
            *part = part.wrapping_add(more);
        }
    }
    let mut hash = [0; 16];
    hash.chunks_exact_mut(4).zip(state).for_each(|(bytes, part)| bytes.copy_from_slice(&part.to_le_bytes()));
    hash
}

const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
