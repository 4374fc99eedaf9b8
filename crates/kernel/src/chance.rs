//! Chance as a value: a seeded generator that replays. Nothing here reads entropy.

use crate::ids::Uuid;

/// A stream of pseudo-random numbers from a seed (SplitMix64, Steele and others 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream of its own for `consumer`, so that a new consumer does not move what others draw.
    #[must_use]
    pub fn derive(&self, consumer: u64) -> Self {
        let mut child = Self { state: self.state ^ consumer.wrapping_mul(0xd134_2543_de82_ef95) };
        child.next_u64();
        child
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits fits 64")
    }

    /// True `numerator` times out of `denominator`.
    pub fn one_in(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A random id (version 4), never zero.
    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream() {
        let (mut a, mut b) = (Chance::from_seed(7), Chance::from_seed(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Chance::from_seed(7).derive(1).next_u64(), Chance::from_seed(7).derive(2).next_u64());
    }

    #[test]
    fn below_stays_below() {
        let mut chance = Chance::from_seed(1);
        assert!((0..1000).all(|_| chance.below(3) < 3));
        assert_eq!(chance.below(0), 0);
    }
}
