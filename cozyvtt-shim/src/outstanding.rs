//! The requests that were passed on and are not answered yet.

use crate::message::{Id, Method};

/// A request without its answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    /// The id that its answer will carry.
    pub(crate) id: Id,
    /// What was asked for.
    pub(crate) method: Method,
}

/// Every request that is due an answer, oldest first. Whoever takes a request
/// out is the one who answers it, so that none is answered twice.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    sent: Vec<Request>,
    /// The one whose line is just being written. It belongs to the writer, who
    /// alone will know whether the daemon has had it.
    sending: Option<Request>,
}

impl Outstanding {
    /// Nothing is due.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.sending.is_none()
    }

    /// A request is about to be written.
    pub(crate) fn begin(&mut self, id: Id, method: Method) {
        self.sending = Some(Request { id, method });
    }

    /// That request has been written.
    pub(crate) fn sent(&mut self) {
        self.sent.extend(self.sending.take());
    }

    /// Takes out the request that was about to be written; `None` if somebody
    /// has answered it already.
    pub(crate) fn take_sending(&mut self) -> Option<Request> {
        self.sending.take()
    }

    /// Takes the oldest request with this `id` out. (A careless client may use
    /// one id twice; the daemon answers in whatever order, and it is the number
    /// of answers that counts.)
    pub(crate) fn take(&mut self, id: &Id) -> Option<Request> {
        match self.sent.iter().position(|request| request.id == *id) {
            Some(at) => Some(self.sent.remove(at)),
            None => self.sending.take_if(|request| request.id == *id),
        }
    }

    /// Takes all out that have been written.
    pub(crate) fn take_sent(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn id(json: &str) -> Id {
        match Message::of(format!(r#"{{"id":{json},"result":0}}"#).as_bytes()) {
            Message::Answer { id } => id,
            other => panic!("{other:?}"),
        }
    }

    fn send(outstanding: &mut Outstanding, json: &str, method: Method) {
        outstanding.begin(id(json), method);
        outstanding.sent();
    }

    #[test]
    fn a_request_can_be_taken_once() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        assert!(outstanding.take(&id("2")).is_none());
        assert!(outstanding.take(&id("1")).is_some());
        assert!(outstanding.take(&id("1")).is_none());
        assert!(outstanding.is_empty());
    }

    #[test]
    fn a_number_and_a_string_are_different_ids() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        send(&mut outstanding, "\"1\"", Method::ToolsCall);
        let taken = outstanding.take(&id("\"1\"")).unwrap();
        assert_eq!(taken.method, Method::ToolsCall);
        assert!(!outstanding.is_empty());
    }

    #[test]
    fn an_id_used_twice_is_due_two_answers() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        send(&mut outstanding, "1", Method::ToolsCall);
        assert!(outstanding.take(&id("1")).is_some());
        assert!(!outstanding.is_empty());
        assert!(outstanding.take(&id("1")).is_some());
        assert!(outstanding.is_empty());
    }

    #[test]
    fn all_are_taken_in_the_order_they_came() {
        let mut outstanding = Outstanding::default();
        for number in ["3", "1", "2"] {
            send(&mut outstanding, number, Method::Other);
        }
        let requests = outstanding.take_sent();
        let ids: Vec<_> = requests.iter().map(|each| each.id.raw().get()).collect();
        assert_eq!(ids, ["3", "1", "2"]);
        assert!(outstanding.is_empty());
    }

    #[test]
    fn the_request_that_is_being_written_stays_with_the_writer() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        outstanding.begin(id("2"), Method::ToolsCall);
        assert_eq!(outstanding.take_sent().len(), 1);
        assert!(!outstanding.is_empty());
        assert_eq!(outstanding.take_sending().unwrap().id, id("2"));
        assert!(outstanding.is_empty());
    }

    #[test]
    fn an_answer_may_be_faster_than_the_end_of_the_write() {
        let mut outstanding = Outstanding::default();
        outstanding.begin(id("1"), Method::ToolsCall);
        assert!(outstanding.take(&id("1")).is_some());
        outstanding.sent();
        assert!(outstanding.is_empty());
    }
}
