//! What is counted: one row of the table each.

use super::player::{Player, message};

/// What is played again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Simple,
    Extended,
    Prepared,
    Login,
    NewText,
    CachedText,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Simple, Self::Extended, Self::Prepared, Self::Login, Self::NewText, Self::CachedText];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
            Self::Login => "login",
            Self::NewText => "new text of 1 kB",
            Self::CachedText => "cached text of 1 kB",
        }
    }

    /// In the shorter of two runs.
    pub(super) fn times(self) -> u64 {
        if self == Self::Login { 50 } else { 200 }
    }

    /// Plays it so many times.
    pub(super) fn play(self, player: &mut Player, times: u64) -> std::io::Result<()> {
        if self == Self::Prepared {
            let parse = message(b'P', format!("s\0{}\0\0\0", accounts("$1")).as_bytes());
            player.ask(&[parse, message(b'S', b"")].concat())?;
        }
        for number in 0..times {
            match self {
                Self::Simple => player.ask(&query(&accounts("4711")))?,
                Self::Extended => {
                    let parse = message(b'P', format!("\0{}\0\0\0", accounts("$1")).as_bytes());
                    player.ask(&[parse, run("")].concat())?;
                }
                Self::Prepared => player.ask(&run("s"))?,
                Self::Login => player.log_in()?,
                Self::NewText => player.ask(&query(&long(number + 1)))?,
                Self::CachedText => player.ask(&query(&long(0)))?,
            }
        }
        Ok(())
    }
}

fn accounts(id: &str) -> String {
    format!("SELECT abalance FROM pgbench_accounts WHERE aid = {id}")
}

/// A kilobyte. What tells it from others is in a name, since numbers and strings do not.
fn long(number: u64) -> String {
    let mut text = format!("SELECT abalance AS name_{number:06}");
    for column in 0.. {
        let more = format!(", bid + aid AS sum_{column:02}");
        if text.len() + more.len() + 40 > 1000 {
            break;
        }
        text.push_str(&more);
    }
    format!("{text} FROM pgbench_accounts WHERE aid = 4711")
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

/// Bind, Describe, Execute, Sync with one parameter.
fn run(name: &str) -> Vec<u8> {
    let mut bind = format!("\0{name}\0").into_bytes();
    bind.extend(*b"\0\0\0\x01\0\0\0\x044711\0\0");
    [message(b'B', &bind), message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_have_a_kilobyte_and_differ() {
        assert!((950..=1000).contains(&long(1).len()), "{}", long(1).len());
        assert_ne!(long(1), long(2));
    }
}
