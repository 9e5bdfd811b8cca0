//! Rows that stand beside another table's rows, under the same keys.
//!
//! Always true: a row is found only by the key it was put in under; the place of a key that has gone holds nothing.

use base::Key;

/// Rows under keys that somebody else gives out.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    places: Vec<Option<(u32, T)>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> Beside<T> {
    /// Puts a row in. Whatever stood there under another key is gone already, since its key is.
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
        match self.places.get(key.index as usize)? {
            Some((generation, row)) if *generation == key.generation => Some(row),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize)? {
            Some((generation, row)) if *generation == key.generation => Some(row),
            _ => None,
        }
    }

    /// The key of whoever is at this place now.
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

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Places without a row.
    pub(crate) fn free(&self) -> usize {
        self.places.len() - self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_only_by_its_own_key() {
        let (old, new) = (Key { index: 2, generation: 1 }, Key { index: 2, generation: 2 });
        let mut rows = Beside::default();
        rows.insert(old, "a");
        assert_eq!(rows.get(new), None);
        assert_eq!(rows.remove(new), None);
        assert_eq!(rows.remove(old), Some("a"));
        rows.insert(new, "b");
        assert_eq!(rows.get(old), None);
        assert_eq!(rows.key_at(2), Some(new));
        assert_eq!((rows.len(), rows.free()), (1, 2));
    }
}
