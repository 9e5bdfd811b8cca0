//! The same stories for both kernel interfaces, over unix sockets with abstract names: both have to behave alike.

use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::Time;
use reactor::tls::{HandshakePool, Tls};
use reactor::{
    Accepting, Address, Chunk, Close, Completion, Conn, End, Epoll, Equipment, Io, Kernel, LogTarget, Receive, Socket,
    Span, TcpTuning, Uring, Wanted, bind_unix, probe_uring, waker,
};

#[path = "kernels/tls.rs"]
mod tls;

/// Runs the story with each kernel interface that this machine allows.
fn both(story: fn(&mut dyn FnMut(u16) -> Stage)) {
    if probe_uring().is_ok() {
        story(&mut |buffers| Stage::new(buffers, |equipment| with_tls(equipment, Uring::new)));
    }
    story(&mut |buffers| Stage::new(buffers, |equipment| with_tls(equipment, Epoll::new)));
}

/// TLS on a kernel interface, as workers use it.
fn with_tls<K: Kernel + 'static>(
    equipment: Equipment,
    make: impl FnOnce(Equipment) -> std::io::Result<K>,
) -> Box<dyn Io<Socket = Socket>> {
    let waker = equipment.waker.clone();
    Box::new(Tls::new(make(equipment).expect("a kernel"), HandshakePool::new(2), waker))
}

/// One kernel interface, and the name of its listening socket.
struct Stage {
    io: Box<dyn Io<Socket = Socket>>,
    name: String,
    done: Vec<Completion<Socket>>,
}

impl Stage {
    fn new(buffers: u16, make: fn(Equipment) -> Box<dyn Io<Socket = Socket>>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trunkline-kernels-{}-{number}", std::process::id());
        let wanted = Wanted { backlog: 16, is_port_shared: false, defer_accept_secs: 0, tuning: TcpTuning::default() };
        let listener = Arc::new(bind_unix(&format!("@{name}"), &wanted).expect("a free name"));
        let log = Arc::new(LogTarget::new(false, None));
        let waker = waker().expect("a bell");
        let io = make(Equipment { listeners: vec![listener], waker, buffers, tuning: TcpTuning::default(), log });
        let mut stage = Self { io, name, done: Vec::new() };
        stage.io.accept(Accepting::All);
        stage
    }

    /// Runs turns until a completion arrives that `question` recognises.
    fn until<T>(&mut self, mut question: impl FnMut(Completion<Socket>) -> Option<T>) -> T {
        for _ in 0..10_000 {
            let soon = self.io.now() + Duration::from_secs(5);
            if self.done.is_empty() {
                self.io.turn(Some(soon), &mut self.done);
            }
            while !self.done.is_empty() {
                if let Some(answer) = question(self.done.remove(0)) {
                    return answer;
                }
            }
        }
        panic!("it never happened");
    }

    fn turn(&mut self) {
        let now = self.io.now();
        self.io.turn(Some(now), &mut self.done);
    }

    /// Connects, and returns the client's end and ours.
    fn caller(&mut self, owner: u64) -> (UnixStream, Conn) {
        let address = SocketAddr::from_abstract_name(&self.name).expect("a name");
        let theirs = UnixStream::connect_addr(&address).expect("a door");
        theirs.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
        let socket = self.until(|completion| match completion {
            Completion::Accepted { socket, is_last: false } => Some(socket),
            _ => None,
        });
        let conn = self.io.adopt(socket, owner).expect("ours");
        (theirs, conn)
    }

    fn received(&mut self, wanted: u64) -> Span {
        self.until(|completion| match completion {
            Completion::Received { owner, bytes: Chunk::Span(span) } if owner == wanted => Some(span),
            _ => None,
        })
    }
}

#[test]
fn what_is_received_is_sent_on_from_where_it_lies() {
    both(|make| {
        let mut stage = make(16);
        let (mut ann, near_ann) = stage.caller(1);
        let (mut bob, near_bob) = stage.caller(2);
        stage.io.receive(near_ann, Receive::Stream);
        for round in 0..100_u8 {
            ann.write_all(&[round; 100]).expect("sent");
            let span = stage.received(1);
            assert_eq!(span.len(), 100);
            stage.io.send(near_bob, Chunk::Span(span));
            stage.turn();
            let mut heard = [0; 100];
            bob.read_exact(&mut heard).expect("heard");
            assert_eq!(heard, [round; 100]);
        }
        let (all, free) = stage.io.buffers();
        assert!(free > 0, "{free} of {all}");
    });
}

#[test]
fn who_knocks_while_the_doors_rest_is_let_in_when_they_open() {
    both(|make| {
        let mut stage = make(16);
        stage.caller(1);
        stage.io.accept(Accepting::Paused);
        while !stage.io.is_accepting_at_rest() {
            stage.turn();
        }
        let address = SocketAddr::from_abstract_name(&stage.name).expect("a name");
        let _knocking = UnixStream::connect_addr(&address).expect("the kernel keeps it");
        stage.turn();
        assert!(stage.done.is_empty(), "{:?}", stage.done);
        stage.io.accept(Accepting::All);
        stage.until(|completion| matches!(completion, Completion::Accepted { .. }).then_some(()));
    });
}

/// As in an online restart: one process reads up to some moment, and another one from there on; if the other fails, the
/// first continues.
#[test]
fn a_connection_at_rest_can_go_on_elsewhere_or_here() {
    both(|make| {
        let (mut here, mut there) = (make(16), make(16));
        let (mut ann, near) = here.caller(1);
        here.io.receive(near, Receive::Stream);
        ann.write_all(b"one").expect("sent");
        assert_eq!(&*here.received(1), b"one");
        assert!(here.io.duplicate(near).is_err() || here.io.is_at_rest(near), "it is asked for bytes");
        here.io.pause(near);
        here.io.send(near, Chunk::Own((*b"taken").into()));
        while !here.io.is_at_rest(near) {
            here.turn();
        }
        ann.write_all(b"two").expect("sent");
        here.turn();
        assert!(here.done.is_empty(), "nobody has asked: {:?}", here.done);
        // A new process duplicates the connection, and dies.
        drop(here.io.duplicate(near).expect("a descriptor"));
        let socket = here.io.duplicate(near).expect("a descriptor");
        let far = there.io.adopt(socket, 7).expect("ours");
        there.io.receive(far, Receive::Stream);
        assert_eq!(&*there.received(7), b"two");
        there.io.send(far, Chunk::Own((*b"back").into()));
        there.turn();
        let mut heard = [0; 9];
        ann.read_exact(&mut heard).expect("heard");
        assert_eq!(&heard, b"takenback");
        there.io.close(far, Close::Now);
        there.turn();
        // What another process has set on the socket has no effect here.
        here.io.receive(near, Receive::Stream);
        ann.write_all(b"three").expect("sent");
        assert_eq!(&*here.received(1), b"three");
        assert_eq!(here.io.listeners().expect("a descriptor").len(), 1);
    });
}

#[test]
fn a_stream_goes_on_when_buffers_come_home() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        stage.io.receive(near, Receive::Stream);
        let writer = std::thread::spawn(move || ann.write_all(&vec![7; 1_000_000]));
        // While all buffers are kept nothing is received; once some are dropped, nothing has been lost.
        let (mut heard, mut kept) = (0, Vec::new());
        while heard < 1_000_000 {
            let span = stage.received(1);
            heard += span.len();
            kept.push(span);
            if stage.io.buffers().1 == 0 {
                kept.clear();
            }
        }
        assert_eq!(heard, 1_000_000);
        writer.join().expect("a writer").expect("all written");
    });
}

#[test]
fn once_is_once() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        stage.io.receive(near, Receive::Once);
        ann.write_all(b"first").expect("sent");
        assert_eq!(&*stage.received(1), b"first");
        ann.write_all(b"second").expect("sent");
        let (_bob, _) = stage.caller(2);
        assert!(!stage.done.iter().any(|done| matches!(done, Completion::Received { .. })));
        // With nothing under way, the connection can move to another worker, which receives the rest.
        let socket = stage.io.release(near).expect("at rest");
        let near = stage.io.adopt(socket, 3).expect("ours again");
        stage.io.receive(near, Receive::Stream);
        assert_eq!(&*stage.received(3), b"second");
    });
}

#[test]
fn chunks_arrive_in_order_and_drained_is_told_when_they_have_left() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        let parts: Vec<Vec<u8>> = (0..200_u8).map(|part| vec![part; 5000]).collect();
        for part in &parts {
            stage.io.send(near, part.clone().into());
        }
        assert_eq!(stage.io.unsent(near), 1_000_000);
        stage.io.tell_when_drained(near);
        let reader = std::thread::spawn(move || {
            let mut heard = vec![0; 1_000_000];
            ann.read_exact(&mut heard).expect("all of it");
            heard
        });
        stage.until(|completion| matches!(completion, Completion::Drained { owner: 1 }).then_some(()));
        assert_eq!(stage.io.unsent(near), 0);
        assert!(reader.join().expect("a reader") == parts.concat());
    });
}

/// A send for which the kernel has no room is told, so that the rest of it leaves although nothing else happens.
#[test]
fn what_finds_no_room_leaves_when_there_is_some() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        let mut said = Vec::new();
        while stage.io.unsent(near) == 0 {
            let part: Vec<u8> = (0..50_000_u32).map(|place| (place + said.len() as u32 / 7) as u8).collect();
            said.extend_from_slice(&part);
            stage.io.send(near, part.into());
            stage.turn();
        }
        let unsent = stage.io.unsent(near);
        assert!(unsent < 50_000, "{unsent}");
        let length = said.len();
        let reader = std::thread::spawn(move || {
            let mut heard = vec![0; length];
            ann.read_exact(&mut heard).expect("all of it");
            heard
        });
        while stage.io.unsent(near) > 0 {
            let soon = stage.io.now() + Duration::from_secs(5);
            stage.io.turn(Some(soon), &mut stage.done);
        }
        assert!(reader.join().expect("a reader") == said);
        assert!(stage.done.is_empty());
    });
}

#[test]
fn what_is_said_in_one_turn_leaves_together() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        for length in [10, 300, 5000] {
            let (head, rest) = (vec![1; length], vec![2; length]);
            stage.io.send(near, head.clone().into());
            stage.io.send(near, rest.clone().into());
            stage.turn();
            let mut heard = vec![0; 3 * length];
            let count = ann.read(&mut heard).expect("something");
            assert!(heard[..count] == [head, rest].concat(), "{count} of {}", 2 * length);
            stage.turn();
        }
    });
}

#[test]
fn last_words_are_heard_before_the_end() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        stage.io.receive(near, Receive::Stream);
        stage.turn();
        stage.io.send(near, b"good night".to_vec().into());
        stage.io.close(near, Close::AfterSending);
        stage.turn();
        stage.turn();
        let mut heard = Vec::new();
        ann.read_to_end(&mut heard).expect("the end");
        assert_eq!(heard, b"good night");
    });
}

#[test]
fn the_end_is_told_once_and_nothing_after_a_close() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        let (bob, near_bob) = stage.caller(2);
        stage.io.receive(near, Receive::Stream);
        stage.io.receive(near_bob, Receive::Stream);
        ann.write_all(b"x").expect("sent");
        drop(ann);
        assert_eq!(&*stage.received(1), b"x");
        let end = stage.until(|completion| match completion {
            Completion::Ended { owner: 1, end } => Some(end),
            _ => None,
        });
        assert!(matches!(end, End::Eof));
        stage.io.close(near, Close::Now);
        stage.io.close(near_bob, Close::Now);
        drop(bob);
        let (_carol, _) = stage.caller(3);
        assert!(stage.done.is_empty(), "{:?}", stage.done);
    });
}

#[test]
fn a_pause_holds_and_ends() {
    both(|make| {
        let mut stage = make(8);
        let (mut ann, near) = stage.caller(1);
        stage.io.receive(near, Receive::Stream);
        ann.write_all(b"one").expect("sent");
        assert_eq!(&*stage.received(1), b"one");
        stage.io.pause(near);
        stage.turn();
        stage.turn();
        ann.write_all(b"two").expect("sent");
        let (_bob, _) = stage.caller(2);
        assert!(!stage.done.iter().any(|done| matches!(done, Completion::Received { .. })));
        stage.io.receive(near, Receive::Stream);
        assert_eq!(&*stage.received(1), b"two");
    });
}

#[test]
fn a_connection_of_ours_stands_or_fails() {
    both(|make| {
        let mut stage = make(8);
        let to = Address::Abstract(stage.name.clone().into());
        let near = stage.io.connect(&to, 9).expect("begun");
        let (mut connected, mut accepted) = (false, None);
        stage.until(|completion| {
            match completion {
                Completion::Connected { owner: 9 } => connected = true,
                Completion::Accepted { socket, .. } => accepted = Some(socket),
                _ => {}
            }
            (connected && accepted.is_some()).then_some(())
        });
        let far = stage.io.adopt(accepted.expect("accepted"), 10).expect("ours");
        stage.io.send(near, b"hello".to_vec().into());
        stage.io.receive(far, Receive::Stream);
        assert_eq!(&*stage.received(10), b"hello");

        let nobody = Address::Abstract("trunkline-kernels-nobody".into());
        let error = match stage.io.connect(&nobody, 11) {
            Err(error) => error,
            Ok(_) => stage.until(|completion| match completion {
                Completion::ConnectFailed { owner: 11, error } => Some(error),
                _ => None,
            }),
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_turn_ends_when_it_is_told_to() {
    both(|make| {
        let mut stage = make(8);
        stage.turn();
        drop(stage.done.drain(..));
        let until: Time = stage.io.now() + Duration::from_millis(20);
        // The kernel may wake us early once or twice, for example because of a ring that has just been closed; it must
        // not keep us awake.
        let mut turns = 0;
        while stage.io.now() < until {
            stage.io.turn(Some(until), &mut stage.done);
            turns += 1;
        }
        assert!(turns <= 5 && stage.done.is_empty(), "{turns} turns, {:?}", stage.done);
    });
}

#[test]
fn a_door_that_is_shut_refuses() {
    both(|make| {
        let mut stage = make(8);
        let (_ann, _) = stage.caller(1);
        stage.io.accept(Accepting::Closed);
        stage.turn();
        stage.turn();
        let address = SocketAddr::from_abstract_name(&stage.name).expect("a name");
        let error = UnixStream::connect_addr(&address).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

/// With several processes on one port (`so_reuseport`), no other process can accept a connection that the kernel gave
/// to this one.
#[test]
fn who_has_knocked_at_a_door_before_it_is_shut_is_let_in() {
    both(|make| {
        let mut stage = make(8);
        stage.turn();
        let address = SocketAddr::from_abstract_name(&stage.name).expect("a name");
        let callers: Vec<_> = (0..5).map(|_| UnixStream::connect_addr(&address).expect("a door")).collect();
        stage.io.accept(Accepting::Closed);
        for _ in &callers {
            stage.until(|completion| matches!(completion, Completion::Accepted { .. }).then_some(()));
        }
        stage.turn();
        stage.turn();
        UnixStream::connect_addr(&address).expect_err("nobody listens");
    });
}
