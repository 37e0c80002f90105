//! Generational slab: a table of connections, addressed by slot and generation.
//!
//! A token outlives its connection. A late event or response for a closed connection finds another generation and has
//! no effect, even if a new connection uses the slot.

/// Token of one connection, unique while the server runs. Generation 0 is never assigned to a connection; the event
/// loop uses it for its own tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    slot: u32,
    generation: u32,
}

impl Name {
    /// Packs the token into one number, which `poll` returns with an event.
    pub(super) fn to_number(self) -> usize {
        let number = u64::from(self.generation) << 32 | u64::from(self.slot);
        usize::try_from(number).expect("pointers have 64 bits on every machine we serve on")
    }

    /// Unpacks the number made by `to_number`.
    pub(super) fn from_number(number: usize) -> Name {
        let number = number as u64;
        let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).expect("masked to 32 bits");
        Name { slot: half(number), generation: half(number >> 32) }
    }

    /// Returns true if the token belongs to a connection, not to the loop itself.
    pub(super) fn is_connection(self) -> bool {
        self.generation != 0
    }

    fn index(self) -> usize {
        self.slot as usize
    }
}

struct Slot<T> {
    generation: u32,
    value: Option<Box<T>>,
}

/// A slab of at most `slots_max` values.
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    slots_max: usize,
}

impl<T> Slots<T> {
    /// Creates an empty slab with a limit of `slots_max`.
    pub(super) fn new(slots_max: usize) -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), slots_max }
    }

    /// Inserts the value that `make` creates from its token; `None` if the slab is full.
    pub(super) fn insert<E>(
        &mut self,
        make: impl FnOnce(Name) -> Result<T, E>,
    ) -> Option<Result<Name, E>> {
        if self.free.is_empty() {
            if self.slots.len() >= self.slots_max {
                return None;
            }
            let slot = u32::try_from(self.slots.len()).expect("connections_max is below 2^32");
            self.slots.push(Slot { generation: 1, value: None });
            self.free.push(slot);
        }
        let slot = *self.free.last().expect("one was free or was just added");
        let place = &mut self.slots[slot as usize];
        let name = Name { slot, generation: place.generation };
        match make(name) {
            Ok(value) => {
                self.free.pop();
                place.value = Some(Box::new(value));
                Some(Ok(name))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Removes a value. Its token is not reused until 2^32 - 1 other values have used the slot.
    pub(super) fn remove(&mut self, name: Name) -> Option<Box<T>> {
        let place = self.slots.get_mut(name.index()).filter(|p| p.generation == name.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.checked_add(1).unwrap_or(1);
        self.free.push(name.slot);
        Some(value)
    }

    /// Returns the value of this token, if still present.
    pub(super) fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let place = self.slots.get_mut(name.index()).filter(|p| p.generation == name.generation)?;
        place.value.as_deref_mut()
    }

    /// Tokens of all values.
    pub(super) fn names(&self) -> Vec<Name> {
        let taken = self.slots.iter().enumerate().filter(|(_, place)| place.value.is_some());
        taken
            .map(|(at, place)| Name {
                slot: u32::try_from(at).expect("connections_max is below 2^32"),
                generation: place.generation,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(slots: &mut Slots<char>, value: char) -> Option<Name> {
        slots.insert(|_| Ok::<_, ()>(value)).map(|made| made.unwrap())
    }

    #[test]
    fn an_old_name_does_not_reach_the_new_tenant_of_its_slot() {
        let mut slots = Slots::new(2);
        let first = put(&mut slots, 'a').unwrap();
        assert_eq!(slots.remove(first), Some(Box::new('a')));
        let second = put(&mut slots, 'b').unwrap();
        assert_eq!(first.slot, second.slot);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut 'b'));
        assert_eq!(Name::from_number(second.to_number()), second);
    }

    #[test]
    fn places_are_bounded_and_a_failed_insert_takes_none() {
        let mut slots = Slots::new(1);
        assert_eq!(slots.insert(|_| Err::<char, _>("no")), Some(Err("no")));
        assert_eq!(slots.names(), []);
        let name = put(&mut slots, 'a').unwrap();
        assert_eq!(put(&mut slots, 'b'), None);
        assert_eq!(slots.names(), [name]);
    }
}
