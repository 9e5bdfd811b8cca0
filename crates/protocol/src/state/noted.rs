//! Named statements of one client's extended protocol that touch session state when they are executed.
//!
//! Always true: at most [`NOTED_MAX`] statements are noted, and what is known of them has at most [`NOTED_BYTES_MAX`]
//! bytes.
//! Not here: what happens where there is no room (`session_effects`).

use std::collections::BTreeMap;
use std::rc::Rc;

use route::Class;

/// What each statement does, by its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    classes: BTreeMap<Box<[u8]>, Rc<Class>>,
    bytes: usize,
}

impl Noted {
    /// The client gives a name to a statement; `class` is `None` if the statement is of no interest. Returns false where
    /// there is no room, so that the meaning of the name is no longer known.
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

    /// Forgets a name, which is given to an unknown statement; returns what it meant before.
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

/// The most statements that are noted for one client.
const NOTED_MAX: usize = 1000;
/// The most bytes that are kept of what is known of these statements.
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
