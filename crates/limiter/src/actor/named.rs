//! An actor with its name.

use super::{Actor, Scope, compile};
use diana_document::Node;
use std::sync::Arc;

/// An actor with its name. Two are equal if they have the same source, whatever their names.
#[derive(Clone, Debug)]
pub struct Named {
    name: Arc<str>,
    meaning: Arc<str>,
    actor: Arc<dyn Actor>,
    /// The position in the rule's list.
    place: usize,
}

impl Named {
    pub(super) fn new(name: &str, actor: Arc<dyn Actor>, scope: &Scope) -> Named {
        let meaning = actor.meaning(scope.parts).into();
        Named { name: name.into(), meaning, actor, place: 0 }
    }

    /// Compiles a definition, as in `actors`. Reports each mistake at its place and then returns
    /// `None`.
    pub fn compile(name: &str, node: Node, scope: &mut Scope) -> Option<Named> {
        let actor = compile(node, scope)?.into();
        Some(Named::new(name, actor, scope))
    }

    /// The same actor at this position in a rule's list.
    pub(super) fn at(self, place: usize) -> Named {
        Named { place, ..self }
    }

    /// The order in which a rule's actors are counted.
    pub(super) fn order(&self) -> (Arc<str>, usize) {
        (Arc::clone(&self.meaning), self.place)
    }

    /// The name; `user` for the alias `account`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The canonical text of the source, without the name: see [`Actor::meaning`].
    #[must_use]
    pub fn meaning(&self) -> &str {
        &self.meaning
    }

    /// The position in the rule's list of actors, from 0.
    #[must_use]
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The source of the value.
    #[must_use]
    pub fn actor(&self) -> &dyn Actor {
        &*self.actor
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Named) -> bool {
        self.meaning == other.meaning
    }
}

impl Eq for Named {}
