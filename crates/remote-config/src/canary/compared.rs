//! What the head tells about a comparison: which document is compared with the active one.

use crate::head::Head;

impl Head {
    /// The hash of the document that is compared with the active one. This is the candidate, or
    /// during the watch the previous document. Zero if nothing is compared.
    pub(crate) fn compared_document(&self) -> u64 {
        if self.candidate > 0 { self.candidate } else { self.previous }
    }

    /// Identifies a comparison. The number changes with each document, on promotion, and when the
    /// comparison restarts; zero if nothing is compared.
    pub(crate) fn comparison_id(&self) -> u64 {
        match self.compared_document() {
            0 => 0,
            document => {
                let over = document ^ self.local_document;
                over.wrapping_add(self.generation).wrapping_add(self.since.as_ns()).max(1)
            }
        }
    }
}
