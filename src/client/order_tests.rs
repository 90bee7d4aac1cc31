//! [`Order`] without sockets.

use serde_json::json;

use super::super::options::SubscribeOptions;
use super::super::queue::tests::{drain, event};
use super::*;
use crate::Kind;

struct Rig {
    order: Order,
    queue: Arc<Queue>,
    now: Instant,
}

impl Rig {
    /// In force in session `s` after event 0.
    fn new() -> Rig {
        let queue = Arc::new(Queue::new(&SubscribeOptions::default()));
        let mut rig = Rig { order: Order::new(queue.clone()), queue, now: Instant::now() };
        assert_eq!(rig.synced("s", 0), None);
        rig
    }

    fn event(&mut self, topic: &str, id: u64, seq: u64) -> Option<u64> {
        self.order.event(event(topic, id, seq, "s"), self.now).map(|ask| ask.after)
    }

    fn synced(&mut self, session: &str, id: u64) -> Option<(String, u64)> {
        self.order.synced(session, id, self.now).map(|ask| (ask.session, ask.after))
    }

    /// The answer to the last replay asked for.
    fn page(
        &mut self,
        session: &str,
        complete: bool,
        next: Option<u64>,
        events: &[(u64, u64)],
    ) -> Option<u64> {
        let events: Vec<Value> = events
            .iter()
            .map(|(id, seq)| {
                let header = json!({"id": id, "seq": seq, "session": session, "time_ns": "0"});
                json!({"topic": "a/", "header": header, "data": "x"})
            })
            .collect();
        let newest = 1000;
        let result = json!({"session": session, "complete": complete, "newest": newest, "next": next, "events": events});
        let number = self.order.replays;
        self.order.replayed(number, Ok(result), self.now).map(|ask| ask.after)
    }

    fn read(&self) -> Vec<String> {
        drain(&self.queue)
    }
}

#[test]
fn a_gap_while_connected_is_closed_by_a_replay() {
    let mut rig = Rig::new();
    assert_eq!(rig.event("a/", 1, 7), None);
    assert_eq!(rig.event("a/", 1, 7), None);
    assert_eq!(rig.event("a/", 4, 9), Some(1));
    assert_eq!(rig.event("b/", 5, 1), None);
    assert_eq!(rig.read(), ["a/#1"]);
    assert_eq!(rig.page("s", true, None, &[(3, 8), (4, 9)]), None);
    assert_eq!(rig.read(), ["a/#3", "a/#4", "b/#5"]);
    // Soon after, the gap is told at once.
    assert_eq!(rig.event("a/", 9, 12), None);
    assert_eq!(rig.read(), ["missed 2", "a/#9"]);
    rig.now += REPLAY_PAUSE;
    assert_eq!(rig.event("a/", 12, 14), Some(9));
    // A topic that the gateway forgot begins again, and is no gap.
    assert_eq!(rig.page("s", true, None, &[(11, 13)]), None);
    assert_eq!(rig.event("a/", 20, 1), None);
    assert_eq!(rig.read(), ["a/#11", "a/#12", "a/#20"]);
}

#[test]
fn what_waited_goes_between_what_the_ring_still_has() {
    let mut rig = Rig::new();
    rig.event("a/", 1, 1);
    rig.event("a/", 3, 3);
    rig.event("a/", 4, 4);
    // The ring has lost 2, 3 and 4 meanwhile.
    assert_eq!(rig.page("s", false, Some(5), &[(5, 5)]), Some(5));
    assert_eq!(rig.read(), ["a/#1", "missed 1", "a/#3", "a/#4", "a/#5"]);
    rig.event("a/", 7, 7);
    assert_eq!(rig.page("s", true, None, &[(6, 6), (7, 7)]), None);
    assert_eq!(rig.read(), ["a/#6", "a/#7"]);
}

#[test]
fn after_a_reconnect_what_came_meanwhile_is_fetched() {
    let mut rig = Rig::new();
    rig.event("a/", 1, 1);
    rig.order.disconnected();
    rig.order.disconnected();
    assert_eq!(rig.event("a/", 5, 5), None);
    assert_eq!(rig.synced("s", 5), Some(("s".into(), 1)));
    assert_eq!(rig.page("s", true, None, &[(2, 2), (4, 4), (5, 5)]), None);
    assert_eq!(rig.read(), ["a/#1", "disconnected", "reconnected false", "a/#2", "missed 1", "a/#4", "a/#5"]);
    // Nothing new: no need to ask.
    rig.order.disconnected();
    assert_eq!(rig.synced("s", 5), None);
    assert_eq!(rig.event("a/", 6, 6), None);
    assert_eq!(rig.read(), ["disconnected", "reconnected false", "a/#6"]);
}

#[test]
fn another_session_is_a_gap_of_unknown_size_and_all_its_events_come() {
    let mut rig = Rig::new();
    rig.event("a/", 10, 10);
    // A replay of the old session that never comes back.
    rig.event("a/", 12, 12);
    rig.order.disconnected();
    assert_eq!(rig.order.event(event("a/", 2, 2, "t"), rig.now), None);
    assert_eq!(rig.synced("t", 2), Some(("t".into(), 0)));
    assert_eq!(rig.page("t", true, None, &[(1, 1), (2, 2)]), None);
    assert_eq!(
        rig.read(),
        ["a/#10", "disconnected", "missed 1", "a/#12", "reconnected true", "missed some", "a/#1", "a/#2"]
    );
    assert_eq!(rig.order.in_force_with(), Some("t"));
}

#[test]
fn a_replay_that_fails_or_has_nothing_is_told() {
    let mut rig = Rig::new();
    rig.event("a/", 1, 1);
    rig.order.disconnected();
    rig.synced("s", 9);
    rig.event("b/", 10, 1);
    let number = rig.order.replays;
    let failed = Err(crate::Error::new(Kind::Timeout, "no reply"));
    assert_eq!(rig.order.replayed(number + 1, failed.clone(), rig.now), None);
    assert_eq!(rig.order.replayed(number, failed, rig.now), None);
    assert_eq!(rig.read(), ["a/#1", "disconnected", "reconnected false", "missed some", "b/#10"]);
    rig.order.disconnected();
    rig.synced("s", 11);
    assert_eq!(rig.page("s", false, None, &[]), None);
    assert_eq!(rig.read(), ["disconnected", "reconnected false", "missed some"]);
}

#[test]
fn a_second_loss_during_a_replay_asks_again() {
    let mut rig = Rig::new();
    rig.event("a/", 1, 1);
    rig.order.disconnected();
    rig.synced("s", 3);
    rig.event("a/", 4, 4);
    rig.order.disconnected();
    assert_eq!(rig.synced("s", 2000), None);
    rig.event("a/", 2001, 8);
    assert_eq!(rig.page("s", true, None, &[(2, 2), (3, 3), (4, 4)]), Some(4));
    assert_eq!(rig.page("s", true, None, &[(1500, 5), (1600, 6), (2000, 7), (2001, 8)]), None);
    let expected = ["a/#2", "a/#3", "a/#4", "a/#1500", "a/#1600", "a/#2000", "a/#2001"];
    let read = rig.read();
    assert_eq!(read[read.len() - 7..], expected, "{read:?}");
}
