//! A doubly linked list through the rows of a table.
//!
//! Always true: a row is in one list at most. Adding and removing any row and asking for the length take constant time and
//! allocate nothing.

use base::{Key, Slab};

/// The neighbours of a row in the list it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Links {
    older: Option<Key>,
    newer: Option<Key>,
}

impl Links {
    /// The neighbour that was added later.
    pub(crate) fn newer(&self) -> Option<Key> {
        self.newer
    }

    /// The neighbour that was added earlier.
    pub(crate) fn older(&self) -> Option<Key> {
        self.older
    }
}

/// A row that can be in a list.
pub(crate) trait Linked {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of rows, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    oldest: Option<Key>,
    newest: Option<Key>,
    len: u32,
}

impl List {
    /// Adds a row at the end.
    #[inline]
    pub(crate) fn push<T: Linked>(&mut self, rows: &mut Slab<T>, key: Key) {
        *links(rows, key) = Links { older: self.newest, newer: None };
        match self.newest {
            Some(newest) => links(rows, newest).newer = Some(key),
            None => self.oldest = Some(key),
        }
        self.newest = Some(key);
        self.len += 1;
    }

    /// Inserts a row behind the row `older` of this list, or at the front if that is `None`.
    pub(crate) fn insert<T: Linked>(&mut self, rows: &mut Slab<T>, key: Key, older: Option<Key>) {
        let newer = match older {
            Some(older) => links(rows, older).newer.replace(key),
            None => self.oldest.replace(key),
        };
        match newer {
            Some(newer) => links(rows, newer).older = Some(key),
            None => self.newest = Some(key),
        }
        *links(rows, key) = Links { older, newer };
        self.len += 1;
    }

    /// Removes a row, which must be in this list.
    #[inline]
    pub(crate) fn remove<T: Linked>(&mut self, rows: &mut Slab<T>, key: Key) {
        let Links { older, newer } = std::mem::take(links(rows, key));
        match older {
            Some(older) => links(rows, older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => links(rows, newer).older = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }

    /// The first row.
    pub(crate) fn oldest(&self) -> Option<Key> {
        self.oldest
    }

    /// The last row.
    pub(crate) fn newest(&self) -> Option<Key> {
        self.newest
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows, the oldest first.
    pub(crate) fn iter<'a, T: Linked>(&self, rows: &'a Slab<T>) -> impl Iterator<Item = (Key, &'a T)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let key = next?;
            let row = rows.get(key)?;
            next = row.links().newer;
            Some((key, row))
        })
    }
}

#[inline]
fn links<T: Linked>(rows: &mut Slab<T>, key: Key) -> &mut Links {
    rows.get_mut(key).expect("a list names only rows of its table").links_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(Links);

    impl Linked for Row {
        fn links(&self) -> &Links {
            &self.0
        }

        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    fn three() -> (Slab<Row>, List, [Key; 3]) {
        let mut rows = Slab::with_capacity(3);
        let mut list = List::default();
        let keys = [(); 3].map(|()| rows.insert(Row(Links::default())).ok().expect("room"));
        keys.iter().for_each(|key| list.push(&mut rows, *key));
        (rows, list, keys)
    }

    #[test]
    fn rows_come_out_in_the_order_in_which_they_went_in() {
        let (rows, list, keys) = three();
        assert_eq!(list.iter(&rows).map(|(key, _)| key).collect::<Vec<_>>(), keys);
        assert_eq!((list.oldest(), list.newest(), list.len()), (Some(keys[0]), Some(keys[2]), 3));
    }

    #[test]
    fn a_row_is_put_anywhere() {
        for place in 0_usize..=3 {
            let mut rows = Slab::with_capacity(4);
            let mut list = List::default();
            let mut keys = [(); 4].map(|()| rows.insert(Row(Links::default())).ok().expect("room")).to_vec();
            let new = keys.pop().expect("four");
            keys.iter().for_each(|key| list.push(&mut rows, *key));
            list.insert(&mut rows, new, place.checked_sub(1).map(|behind| keys[behind]));
            keys.insert(place, new);
            assert_eq!(list.iter(&rows).map(|(key, _)| key).collect::<Vec<_>>(), keys);
            assert_eq!((list.oldest(), list.newest(), list.len()), (Some(keys[0]), Some(keys[3]), 4));
            list.remove(&mut rows, new);
            keys.remove(place);
            assert_eq!(list.iter(&rows).map(|(key, _)| key).collect::<Vec<_>>(), keys);
        }
    }

    #[test]
    fn a_row_leaves_from_anywhere() {
        for gone in 0..3 {
            let (mut rows, mut list, keys) = three();
            list.remove(&mut rows, keys[gone]);
            let left: Vec<_> = keys.into_iter().filter(|key| *key != keys[gone]).collect();
            assert_eq!(list.iter(&rows).map(|(key, _)| key).collect::<Vec<_>>(), left);
            assert_eq!((list.oldest(), list.newest()), (Some(left[0]), Some(left[1])));
        }
    }

    #[test]
    fn the_last_row_leaves_an_empty_list() {
        let (mut rows, mut list, keys) = three();
        keys.iter().for_each(|key| list.remove(&mut rows, *key));
        assert!(list.is_empty());
        assert_eq!((list.oldest(), list.newest()), (None, None));
    }
}
