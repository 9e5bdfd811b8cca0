//! A table whose rows have the keys of another table.
//!
//! Always true: a row is found only by the key under which it was inserted; a lookup by the key of a removed row finds
//! nothing.

use std::num::NonZeroU32;

use base::Key;

/// Rows under keys that another table allocates.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    places: Vec<Option<(NonZeroU32, T)>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> Beside<T> {
    /// Inserts a row. A row under an older key at this index was removed when its key was freed.
    pub(crate) fn insert(&mut self, key: Key, row: T) {
        let index = key.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some((key.generation, row));
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        place.take_if(|(generation, _)| *generation == key.generation).map(|(_, row)| row)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (generation, row) = self.places.get(key.index as usize)?.as_ref()?;
        (*generation == key.generation).then_some(row)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, row) = self.places.get_mut(key.index as usize)?.as_mut()?;
        (*generation == key.generation).then_some(row)
    }

    /// The current key at this index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        let (generation, _) = self.places.get(index as usize)?.as_ref()?;
        Some(Key { index, generation: *generation })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let (generation, row) = place.as_ref()?;
            Some((Key { index: index as u32, generation: *generation }, row))
        })
    }

    /// The number of places, with and without a row.
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_only_by_its_own_key() {
        let old = Key::first(2);
        let new = Key { generation: NonZeroU32::MAX, ..old };
        let mut rows = Beside::default();
        rows.insert(old, "a");
        assert_eq!(rows.get(new), None);
        assert_eq!(rows.remove(new), None);
        assert_eq!(rows.remove(old), Some("a"));
        rows.insert(new, "b");
        assert_eq!(rows.get(old), None);
        assert_eq!(rows.key_at(2), Some(new));
        assert_eq!((rows.iter().count(), rows.places()), (1, 3));
    }
}
