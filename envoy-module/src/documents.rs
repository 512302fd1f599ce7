//! Which documents the configurations of all namespaces use, for a gauge of each.
//!
//! Envoy drops a gauge with the last configuration that has set it. After a change, each
//! configuration therefore sets all gauges to their values, instead of incrementing some.

use diana_filter::metrics::{MAX_DOCUMENTS, fingerprint_text};
use hashbrown::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The documents that are or were in use.
pub struct Documents {
    /// By root context; few.
    by_root: Vec<(u32, u64)>,
    /// The fingerprints that have a gauge of their own.
    known: Vec<u64>,
    /// Counts the changes.
    version: u64,
}

impl Documents {
    pub const fn new() -> Documents {
        Documents { by_root: Vec::new(), known: Vec::new(), version: 0 }
    }

    /// Notes that a root uses a document. Returns whether this is new.
    pub fn add(&mut self, root: u32, fingerprint: u64) -> bool {
        if self.by_root.contains(&(root, fingerprint)) {
            return false;
        }
        self.remove(root);
        self.by_root.push((root, fingerprint));
        if !self.known.contains(&fingerprint) && self.known.len() < MAX_DOCUMENTS {
            self.known.push(fingerprint);
        }
        self.version = self.version.wrapping_add(1);
        true
    }

    /// Ends a root. Returns whether it used a document.
    pub fn remove(&mut self, root: u32) -> bool {
        let before = self.by_root.len();
        self.by_root.retain(|(known, _)| *known != root);
        let had = self.by_root.len() < before;
        self.version = self.version.wrapping_add(had.into());
        had
    }

    /// Tells how many roots use each document, unless `told` is the present version.
    pub fn tell(&self, told: &AtomicU64, mut tell: impl FnMut(&str, u64)) {
        if told.swap(self.version, Ordering::Relaxed) == self.version {
            return;
        }
        let mut uses: HashMap<Option<u64>, u64> =
            self.known.iter().map(|fingerprint| (Some(*fingerprint), 0)).collect();
        for (_, fingerprint) in &self.by_root {
            let own = Some(*fingerprint).filter(|fingerprint| self.known.contains(fingerprint));
            let uses = uses.entry(own).or_default();
            *uses = uses.saturating_add(1);
        }
        if self.known.len() >= MAX_DOCUMENTS {
            uses.entry(None).or_default();
        }
        for (fingerprint, uses) in uses {
            tell(&fingerprint.map_or("other".into(), fingerprint_text), uses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_to_each_configuration() {
        let mut documents = Documents::new();
        let (one, other) = (AtomicU64::new(0), AtomicU64::new(0));
        let told = |documents: &Documents, told: &AtomicU64| {
            let mut all = Vec::new();
            documents.tell(told, |fingerprint, uses| all.push((fingerprint.to_owned(), uses)));
            all.sort();
            all.into_iter().map(|(_, uses)| uses).collect::<Vec<_>>()
        };
        assert!(documents.add(1, 10) && documents.add(2, 10) && documents.add(3, 11));
        assert!(!documents.add(3, 11));
        assert_eq!([told(&documents, &one), told(&documents, &one)], [vec![2, 1], vec![]]);
        assert!(documents.add(2, 11) && documents.remove(3) && !documents.remove(3));
        assert_eq!([told(&documents, &one), told(&documents, &other)], [vec![1, 1], vec![1, 1]]);
        assert!(documents.remove(1) && documents.remove(2));
        assert_eq!(told(&documents, &other), [0, 0]);
    }

    #[test]
    fn gauges_are_bounded() {
        let (mut documents, told) = (Documents::new(), AtomicU64::new(0));
        for fingerprint in 0..300 {
            documents.add(fingerprint as u32, fingerprint);
        }
        let mut all = Vec::new();
        documents.tell(&told, |of, uses| all.extend((of == "other").then_some(uses).or(Some(0))));
        assert_eq!((all.len(), all.iter().sum::<u64>()), (257, 44));
    }
}
