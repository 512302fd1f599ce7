//! The bytes of a request that decide an actor's value, before they are read as a value.

/// The bytes that decide the value of an actor. Two requests with the same raw value have the same
/// value, or both lack the actor. So a worker that has read one of them need not read the other.
///
/// ```
/// # use diana_limiter::actor::{Actors, Scope, ip::ClientIp};
/// use diana_limiter::actor::Raw;
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// # let mut parts = Parts::default();
/// # let ip = ClientIp::compile(None, &mut parts);
/// # let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
/// // Connections of one client differ in their ports.
/// for sent in ["192.0.2.7", "192.0.2.7:80", "192.0.2.7:41022"] {
///     let values = Values::default().with(Part::Address, sent);
///     let request = Request::new(&values, &parts);
///     assert_eq!(address.actor().raw(&request), Raw::Value(b"192.0.2.7"));
/// }
/// let nobody = Values::default();
/// assert_eq!(address.actor().raw(&Request::new(&nobody, &parts)), Raw::Missing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'r> {
    /// These bytes decide the value.
    Value(&'r [u8]),
    /// The request lacks the actor.
    Missing,
    /// More than a few bytes decide the value.
    Unknown,
}

impl<'r> Raw<'r> {
    /// A value that is read as it is. An empty value counts as missing.
    pub(super) fn of(value: Option<&'r [u8]>) -> Raw<'r> {
        value.filter(|value| !value.is_empty()).map_or(Raw::Missing, Raw::Value)
    }
}
