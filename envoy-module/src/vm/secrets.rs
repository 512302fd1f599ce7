//! The secrets that one thread's filter uses, by the roots of configurations.

use diana_config::Secret;
use hashbrown::HashMap;

/// The secrets.
#[derive(Default)]
pub struct Secrets(HashMap<u32, Used>);

/// The secret of one configuration.
struct Used {
    /// What Envoy delivered last.
    delivered: Vec<u8>,
    secret: Secret,
    /// Changes with the secret; 0 until there is one.
    version: u32,
}

/// What Envoy has now.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The secret of this version; version 0 is none.
    Version(u32),
    /// A secret that cannot be used. The secret of this version stays.
    Wrong(u32),
}

impl Secrets {
    /// Takes the secret that Envoy has now for a configuration.
    pub fn update(&mut self, root: u32, delivered: &[u8]) -> Delivered {
        let absent = || Used { delivered: Vec::new(), secret: Secret::Absent, version: 0 };
        let used = self.0.entry(root).or_insert_with(absent);
        if used.delivered == delivered {
            return Delivered::Version(used.version);
        }
        used.delivered = delivered.to_vec();
        match Secret::of(delivered) {
            // Files may differ in the last line break.
            Some(secret) if secret == used.secret => Delivered::Version(used.version),
            Some(secret) => {
                used.secret = secret;
                used.version = used.version.wrapping_add(1).max(1);
                Delivered::Version(used.version)
            }
            None if delivered.is_empty() => Delivered::Version(used.version),
            None => Delivered::Wrong(used.version),
        }
    }

    /// The secret of a configuration that has one of Envoy's.
    pub fn get(&self, root: u32) -> Secret {
        self.0.get(&root).map_or(Secret::Absent, |used| used.secret.clone())
    }

    /// Forgets the secret of a configuration that has gone.
    pub fn remove(&mut self, root: u32) {
        self.0.remove(&root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_secret_is_a_version() {
        let mut secrets = Secrets::default();
        let (one, other) = (b"0123456789abcdef".as_slice(), b"fedcba9876543210".as_slice());
        let known = |text: &[u8]| Secret::of(text).unwrap();
        assert_eq!(secrets.update(1, b""), Delivered::Version(0));
        assert_eq!((secrets.get(1), secrets.get(2)), (Secret::Absent, Secret::Absent));
        assert_eq!(secrets.update(1, b"short"), Delivered::Wrong(0));
        assert_eq!(secrets.update(1, one), Delivered::Version(1));
        assert_eq!(secrets.update(1, &[one, b"\n"].concat()), Delivered::Version(1));
        assert_eq!(secrets.update(1, b"short"), Delivered::Wrong(1));
        assert_eq!(secrets.update(1, b"short"), Delivered::Version(1), "it is reported once");
        assert_eq!(secrets.get(1), known(one));
        assert_eq!(secrets.update(1, b""), Delivered::Version(1), "a secret that is removed stays");
        assert_eq!(secrets.update(1, other), Delivered::Version(2));
        assert_eq!(secrets.get(1), known(other));
        secrets.remove(1);
        assert_eq!(secrets.get(1), Secret::Absent);
    }
}
