//! Where the file has each byte of a text. The text may be the value of a string in another
//! text, as an `envoy.yaml` in a block scalar of a Kubernetes manifest is.

/// Runs of bytes that the file holds unchanged. Runs are in ascending order in both texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The first byte of each run: in the text, and in the file.
    runs: Vec<(usize, usize)>,
    /// The end of the text in the file.
    end: usize,
}

impl Origin {
    /// A text that begins at byte `start` of the file and stands there unchanged, up to `end`.
    #[must_use]
    pub fn plain(start: usize, end: usize) -> Origin {
        Origin { runs: vec![(0, start)], end }
    }

    /// A text without a run yet, which ends at byte `end` of the file.
    #[must_use]
    pub fn ending_at(end: usize) -> Origin {
        Origin { runs: Vec::new(), end }
    }

    /// Records that byte `inner` of the text stands at byte `outer` of the file. Calls come in
    /// ascending order.
    pub fn add(&mut self, inner: usize, outer: usize) {
        let continues = self.runs.last().is_some_and(|(from, to)| {
            inner.checked_sub(*from).and_then(|length| to.checked_add(length)) == Some(outer)
        });
        if !continues {
            self.runs.push((inner, outer));
        }
    }

    /// The byte of the file for byte `inner` of the text.
    #[must_use]
    pub fn outer(&self, inner: usize) -> usize {
        let next = self.runs.partition_point(|(from, _)| *from <= inner);
        let limit = self.runs.get(next).map_or(self.end, |(_, to)| *to);
        match next.checked_sub(1).and_then(|index| self.runs.get(index)) {
            Some((from, to)) => to.saturating_add(inner.saturating_sub(*from)).min(limit.max(*to)),
            None => limit,
        }
    }

    /// The origin of a text within this one: `inner` says where that text stands in this one.
    #[must_use]
    pub fn through(&self, inner: &Origin) -> Origin {
        let mut origin = Origin::ending_at(self.outer(inner.end));
        let ends = inner.runs.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
        for ((from, middle), end) in inner.runs.iter().zip(ends) {
            origin.add(*from, self.outer(*middle));
            let first = self.runs.partition_point(|(start, _)| *start <= *middle);
            for (start, to) in self.runs.iter().skip(first) {
                let at = from.saturating_add(start.saturating_sub(*middle));
                if end.is_some_and(|end| at >= end) || *start >= inner.end {
                    break;
                }
                origin.add(at, *to);
            }
        }
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_through_two_texts() {
        // The file: `xx ab` and `xx cd` on two lines; the text `ab\ncd\n`.
        let mut middle = Origin::ending_at(12);
        middle.add(0, 3);
        middle.add(3, 9);
        assert_eq!([0, 1, 3, 4].map(|at| middle.outer(at)), [3, 4, 9, 10]);
        assert_eq!(middle.outer(100), 12);
        // A text that begins at `b`: `b\ncd`.
        let inner = Origin::plain(1, 5);
        let both = middle.through(&inner);
        assert_eq!([0, 2, 3].map(|at| both.outer(at)), [4, 9, 10]);
    }

    #[test]
    fn a_run_ends_where_the_next_one_begins() {
        let mut origin = Origin::ending_at(9);
        origin.add(0, 2);
        origin.add(4, 5);
        assert_eq!(origin.outer(3), 5, "four bytes of the text stand in three bytes of the file");
    }
}
