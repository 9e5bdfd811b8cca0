//! Statements of the extended protocol of one client that touch something when they are executed, by their names.
//!
//! Always true: there are no more than [`NOTED_MAX`] of them, and what is known of them has no more than [`NOTED_BYTES_MAX`].
//! Not here: what follows where there is no room (`session_effects`).

use std::collections::BTreeMap;
use std::rc::Rc;

use route::Class;

/// What each does.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    classes: BTreeMap<Box<[u8]>, Rc<Class>>,
    bytes: usize,
}

impl Noted {
    /// A name is given to this; to what is of no interest, if there is none. False where there is no room, and nobody knows any more what has the name.
    pub(super) fn note(&mut self, name: &[u8], class: Option<&Rc<Class>>) -> bool {
        self.forget(name);
        let Some(class) = class else { return true };
        let bytes = self.bytes + name.len() + class.bytes();
        let has_room = self.classes.len() < NOTED_MAX && bytes <= NOTED_BYTES_MAX;
        if has_room {
            self.bytes = bytes;
            self.classes.insert(name.into(), class.clone());
        }
        has_room
    }

    /// A name is given to something that nobody knows.
    pub(super) fn forget(&mut self, name: &[u8]) -> Option<Rc<Class>> {
        if self.classes.is_empty() {
            return None;
        }
        let class = self.classes.remove(name)?;
        self.bytes -= name.len() + class.bytes();
        Some(class)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Rc<Class>> {
        self.classes.get(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// So many statements of one client are noted,
const NOTED_MAX: usize = 1000;
/// and so many bytes of what is known of them.
const NOTED_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use route::{Dialect, Knowledge, classify};

    use super::*;

    fn class(text: &str) -> Rc<Class> {
        Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())))
    }

    #[test]
    fn what_is_known_of_statements_has_a_bound() {
        let mut noted = Noted::default();
        let long =
            |number: usize| class(&format!("select set_config('app.x', '{}{number}', false)", "y".repeat(30_000)));
        let name = |number: usize| number.to_string().into_bytes();
        let kept = (0..100).filter(|&number| noted.note(&name(number), Some(&long(number)))).count();
        assert!((20..50).contains(&kept) && noted.bytes() <= NOTED_BYTES_MAX, "{kept}");
        assert!(noted.note(&name(0), Some(&long(0))), "it takes the place of itself");
        assert!((0..100).all(|number| noted.note(&name(number), None)));
        assert!(noted.is_empty() && noted.bytes() == 0);
        let small = class("select pg_advisory_lock(1)");
        let kept = (0..2 * NOTED_MAX).filter(|&number| noted.note(&name(number), Some(&small))).count();
        assert_eq!(kept, NOTED_MAX);
        assert!(noted.forget(&name(7)).is_some() && noted.get(&name(7)).is_none());
    }
}
