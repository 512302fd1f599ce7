//! The shards among which a global store's counts are divided, and the names of counts.

use crate::cells::table::Hasher;
use crate::policy::rendezvous;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher as _;

/// The name of a count in a global store: a keyed hash of the rule and the actor.
pub type CountKey = [u8; 16];

/// The shards among which all counts are divided, and the secret that names counts.
#[derive(Debug)]
pub(crate) struct Shards {
    names: Vec<u64>,
    secret: SipHasher13,
}

impl Default for Shards {
    fn default() -> Shards {
        Shards::new(&[], "")
    }
}

impl Shards {
    /// Shards with these names. The secret may have any length; its hash is a key of 128 bits.
    pub(crate) fn new(names: &[String], secret: &str) -> Shards {
        let mut hasher = SipHasher13::new();
        hasher.write(secret.as_bytes());
        let secret = SipHasher13::new_with_key(&hasher.finish128().as_bytes());
        Shards { names: names.iter().map(|name| Hasher::name(name.as_bytes())).collect(), secret }
    }

    /// A checksum of the secret, of 16 bits. Different secrets have different checksums, except for
    /// one in 65,536. The checksum tells nothing else about the secret.
    pub(crate) fn fingerprint(&self) -> u16 {
        let mut hasher = self.secret;
        hasher.write(b"fingerprint");
        let [first, second, ..] = hasher.finish128().as_bytes();
        u16::from_be_bytes([first, second])
    }

    fn hash(&self, numbers: &[u64], key: &[u8]) -> CountKey {
        let mut hasher = self.secret;
        numbers.iter().for_each(|number| hasher.write(&number.to_le_bytes()));
        hasher.write(key);
        hasher.finish128().as_bytes()
    }

    /// The name of the count of a rule and an actor. Nobody without the secret can tell whose count
    /// it is.
    pub(crate) fn count_key(&self, rule: [u64; 4], key: &[u8]) -> CountKey {
        self.hash(&rule, key)
    }

    /// The shard that counts the actor with this key in this group.
    pub(crate) fn of(&self, group: u64, key: &[u8]) -> usize {
        match self.names.as_slice() {
            [] | [_] => 0,
            names => {
                let key = self.hash(&[group], key);
                rendezvous::shard(names, key.first_chunk().map_or(0, |key| u64::from_le_bytes(*key)))
            }
        }
    }
}
