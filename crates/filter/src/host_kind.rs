//! The two kinds of host, which allow a filter different things.

use diana_limiter::cells::store::CasSemantics;

/// A kind of host. No host call names the host. The two kinds compare and swap shared data by
/// different rules, so the rules tell nginx from other hosts.
///
/// The filter holds no request in nginx, because nginx crashes if a timer resumes a request or a
/// stream sets the timer. A missing callback also crashes nginx. Keys of the shared data may be
/// evicted in nginx. The filter reads each part of a request by itself there
/// ([`nginx`](crate::nginx)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Envoy, and everything that embeds Envoy's runtime.
    Envoy,
    /// nginx with ngx_wasm_module.
    Nginx,
}

impl HostKind {
    /// The kind of host whose shared data has these rules.
    #[must_use]
    pub fn of(rules: CasSemantics) -> HostKind {
        match rules {
            CasSemantics::Lenient => HostKind::Envoy,
            CasSemantics::Strict => HostKind::Nginx,
        }
    }

    /// Whether this is nginx.
    #[must_use]
    pub fn is_nginx(self) -> bool {
        self == HostKind::Nginx
    }
}
