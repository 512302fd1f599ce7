//! What nginx does around the filter, which runs in the rewrite phase. A response of the filter is
//! only kept then; the content handler of its location sends the response later.
//!
//! Sources: nginx 1.27.4 `src/http/ngx_http_core_module.c`, ngx_wasm_module
//! `src/http/ngx_http_wasm_module.c`.

use super::{Later, Stream, Vm};
use crate::host::gateway::Fate;
use diana::Action;

/// What the location of a request does besides the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Location {
    /// The content handler answers.
    #[default]
    Answers,
    /// `return`, or a check of the access phase, responds with this status before the content
    /// phase.
    Responds(u32),
    /// `rewrite … last`, or an `if` with a handler: another content handler takes the place of the
    /// module's.
    Rewrites,
    /// A subrequest comes first, as for `auth_request`, to a location whose directive is this
    /// plugin.
    Asks(u32),
    /// `try_files`, `error_page` or `index`: an internal redirect to a location whose directive is
    /// this plugin. nginx forgets all contexts of modules.
    Redirects(u32),
}

impl Vm {
    /// The phases after the filter's.
    pub(super) fn go_on_in_nginx(&self, id: u32, action: Action) {
        match self.world().location.get() {
            Location::Answers => self.run_content(id, action),
            Location::Responds(status) => self.answer(id, status, &[]),
            Location::Rewrites => self.run_content(id, Action::Continue),
            Location::Asks(root) => match self.subrequest(id, root) {
                200 => self.run_content(id, action),
                _ => self.answer(id, 500, &[]),
            },
            Location::Redirects(root) => {
                let request = self.request_of(id).unwrap();
                // The module never ends a context whose response it has not sent.
                let is_refused = self.0.streams.borrow().get(&id).is_some_and(|stream| stream.kept.is_some());
                let (before, id) = ((!is_refused).then_some(id), self.id());
                let action = self.begin(id, Stream { root, request, before, ..Stream::default() });
                self.run_content(id, action);
            }
        }
    }

    /// The content phase: the response that the filter has sent, or the upstream.
    fn run_content(&self, id: u32, action: Action) {
        let kept = self.0.streams.borrow_mut().get_mut(&id).and_then(|stream| stream.kept.take());
        match kept.filter(|_| action == Action::Stop) {
            Some(response) => self.act(Later::Answer(id, response)),
            None => self.go_on(id, action),
        }
    }

    /// Runs a subrequest of a stream. Returns the status of its response.
    fn subrequest(&self, of: u32, root: u32) -> u32 {
        let (request, id) = (self.request_of(of).unwrap(), self.id());
        self.begin(id, Stream { root, request, ..Stream::default() });
        let kept = self.0.streams.borrow_mut().get_mut(&id).and_then(|stream| stream.kept.take());
        let (status, headers) = kept.unwrap_or((200, Vec::new()));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.respond(id, status, &headers);
        self.delete(id);
        status
    }

    /// The client gets this response, and the stream ends.
    pub(super) fn answer(&self, id: u32, status: u32, headers: &[(&str, &str)]) {
        let Some(request) = self.request_of(id) else { return };
        self.world().note(request, Fate::Answered(status));
        self.respond(id, status, headers);
        self.delete(id);
    }
}
