//! A table with a capacity, whose rows keep their places.
//!
//! Always true: a key finds the row for which it was made, or nothing; rows are visited in the order of their places.

use std::num::NonZeroU32;

use crate::Key;

/// A table of at most `capacity` rows.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    /// The first free place, if any; the other free places are linked by `Place::Free::next`.
    free: Option<u32>,
    taken: u32,
    capacity: u32,
}

#[derive(Debug)]
enum Place<T> {
    Taken { generation: NonZeroU32, row: T },
    Free { generation: NonZeroU32, next: Option<u32> },
}

impl<T> Slab<T> {
    /// Returns an empty table. Memory is allocated as rows are inserted.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Self {
        Self { places: Vec::new(), free: None, taken: 0, capacity }
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// Returns the row if the table is full.
    pub fn insert(&mut self, row: T) -> Result<Key, T> {
        if self.taken >= self.capacity {
            return Err(row);
        }
        self.taken += 1;
        let Some(index) = self.free else {
            let index = self.places.len() as u32;
            let key = Key::first(index);
            self.places.push(Place::Taken { generation: key.generation, row });
            return Ok(key);
        };
        let place = &mut self.places[index as usize];
        let Place::Free { generation, next } = *place else { unreachable!("the free list names a taken place") };
        self.free = next;
        *place = Place::Taken { generation, row };
        Ok(Key { index, generation })
    }

    /// Removes a row.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        match place {
            Place::Taken { generation, .. } if *generation == key.generation => {}
            _ => return None,
        }
        let next_tenant = key.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let old = std::mem::replace(place, Place::Free { generation: next_tenant, next: self.free });
        self.free = Some(key.index);
        self.taken -= 1;
        match old {
            Place::Taken { row, .. } => Some(row),
            Place::Free { .. } => None,
        }
    }

    /// Changes the capacity. Rows beyond a lowered capacity stay until they are removed.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// The row of this key, if it is still there.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize) {
            Some(Place::Taken { generation, row }) if *generation == key.generation => Some(row),
            _ => None,
        }
    }

    /// The row of this key, if it is still there.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index as usize) {
            Some(Place::Taken { generation, row }) if *generation == key.generation => Some(row),
            _ => None,
        }
    }

    /// The key of the row that is at this place now.
    #[must_use]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        match self.places.get(index as usize) {
            Some(Place::Taken { generation, .. }) => Some(Key { index, generation: *generation }),
            _ => None,
        }
    }

    /// The number of places, taken or free; they are numbered from 0.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// All rows, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| match place {
            Place::Taken { generation, row } => Some((Key { index: index as u32, generation: *generation }, row)),
            Place::Free { .. } => None,
        })
    }

    /// All rows, by place, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| match place {
            Place::Taken { generation, row } => Some((Key { index: index as u32, generation: *generation }, row)),
            Place::Free { .. } => None,
        })
    }

    /// All keys, by place; a copy, so that rows may be removed while it is iterated.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken as usize
    }

    /// Whether the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Whether the next [`Slab::insert`] would fail.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.taken >= self.capacity
    }

    /// The largest number of rows.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_find_the_next_tenant() {
        let mut slab = Slab::with_capacity(2);
        let old = slab.insert("a").expect("room");
        assert_eq!(slab.remove(old), Some("a"));
        let new = slab.insert("b").expect("room");
        assert_eq!(old.index, new.index);
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab.get(new), Some(&"b"));
    }

    #[test]
    fn a_full_table_gives_the_row_back() {
        let mut slab = Slab::with_capacity(1);
        let key = slab.insert(1).expect("room");
        assert_eq!(slab.insert(2), Err(2));
        slab.remove(key);
        assert!(slab.insert(3).is_ok());
    }

    #[test]
    fn rows_beyond_a_lowered_capacity_stay_and_no_new_one_comes() {
        let mut slab = Slab::with_capacity(2);
        let first = slab.insert(1).expect("room");
        slab.insert(2).expect("room");
        slab.set_capacity(1);
        assert_eq!(slab.len(), 2);
        slab.remove(first);
        assert!(slab.is_full());
    }

    #[test]
    fn a_key_survives_being_one_word() {
        let key = Key { index: 7, generation: NonZeroU32::MAX };
        assert_eq!(Key::from_bits(key.to_bits()), key);
        assert_eq!(Key::from_bits(7), Key::NOWHERE);
        assert_eq!(size_of::<Option<Key>>(), 8);
    }
}
