//! Replies on their way from the main thread to the thread whose filter made the call.

use crate::alarm::Alarm;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

/// The reply to a call.
#[derive(Debug)]
pub struct Reply {
    /// The number of the call.
    pub token: u32,
    pub content: Content,
}

/// What came back. Without headers, the call has failed.
#[derive(Debug, Default)]
pub struct Content {
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// The replies for one thread.
#[derive(Default)]
pub struct Mailbox {
    replies: Mutex<Vec<Reply>>,
    alarm: Arc<Alarm>,
}

impl Mailbox {
    /// A mailbox that rings this alarm.
    pub fn new(alarm: Arc<Alarm>) -> Mailbox {
        Mailbox { replies: Mutex::default(), alarm }
    }

    /// Puts a reply into the mailbox and rings.
    pub fn put(&self, reply: Reply) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        self.alarm.ring();
    }

    /// Takes all replies.
    pub fn take(&self) -> Vec<Reply> {
        take(&mut self.replies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
