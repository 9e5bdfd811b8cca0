//! Letters, and descriptors with them, between two processes over a unix socket.
//!
//! Always true: a letter arrives whole, with the descriptors that were sent with it, or not at all; a letter takes no
//! longer than its time limit, however slowly its bytes come or are taken; the kernel tells who is at the other end.
//! Not here: the contents of the letters (`control::transfer`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// One end of the connection.
#[derive(Debug)]
pub struct Ipc {
    /// Non-blocking: the remaining time of a letter is spent in `poll`.
    stream: UnixStream,
    patience: Duration,
}

impl Ipc {
    /// Wraps `stream`. No letter takes longer than `patience`.
    ///
    /// # Errors
    /// The system refuses non-blocking mode.
    pub fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, patience })
    }

    /// The system user at the other end.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn peer_uid(&self) -> io::Result<u32> {
        peer_uid(&self.stream)
    }

    /// The process at the other end, if it is visible in this process's namespace.
    #[must_use]
    pub fn peer_pid(&self) -> Option<u32> {
        credentials(&self.stream).ok().and_then(|found| u32::try_from(found.pid).ok()).filter(|pid| *pid > 0)
    }

    /// Whether the other end is open and has sent nothing that is still unread.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&at_once)), Ok(0) | Err(Errno::INTR))
    }

    /// Sends a letter and duplicates of the descriptors, which stay open here.
    ///
    /// # Errors
    /// The other end is gone, or does not take the letter in time; the letter is longer than any may be.
    ///
    /// # Panics
    /// With more than [`DESCRIPTORS_MAX`] descriptors.
    pub fn send(&self, letter: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "more descriptors than a letter carries");
        let length = u32::try_from(letter.len()).ok().filter(|_| letter.len() <= LETTER_BYTES_MAX);
        let head = length.ok_or_else(|| io::Error::other(TOO_LONG))?.to_be_bytes();
        let deadline = Instant::now() + self.patience;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut enclosed = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            enclosed.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let total = head.len() + letter.len();
        let mut sent = 0;
        while sent < total {
            let slices = match sent.checked_sub(head.len()) {
                None => [IoSlice::new(&head[sent..]), IoSlice::new(letter)],
                Some(at) => [IoSlice::new(&letter[at..]), IoSlice::new(&[])],
            };
            match rustix::net::sendmsg(&self.stream, &slices, &mut enclosed, SendFlags::NOSIGNAL) {
                // The descriptors went with the first byte.
                Ok(bytes) => {
                    sent += bytes;
                    enclosed.clear();
                    if sent < total && Instant::now() >= deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives the next letter and its descriptors. `None` when the other end has closed.
    ///
    /// # Errors
    /// Nothing arrives in time, or what arrives is no letter.
    pub fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        self.receive_within(self.patience)
    }

    /// Like [`Ipc::receive`], with another time limit for this letter.
    ///
    /// # Errors
    /// Nothing arrives in time, or what arrives is no letter.
    pub fn receive_within(&self, limit: Duration) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let deadline = Instant::now() + limit;
        let mut descriptors = Vec::new();
        let mut head = [0; 4];
        if !self.fill(&mut head, &mut descriptors, Position::BetweenLetters, deadline)? {
            return Ok(None);
        }
        let length = u32::from_be_bytes(head) as usize;
        if length > LETTER_BYTES_MAX {
            return Err(io::Error::other(TOO_LONG));
        }
        let mut letter = vec![0; length];
        self.fill(&mut letter, &mut descriptors, Position::InLetter, deadline)?;
        Ok(Some((letter, descriptors)))
    }

    /// Fills `bytes`. Returns false if the other end closed before the first byte, which is an error in
    /// [`Position::InLetter`].
    fn fill(
        &self,
        bytes: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        position: Position,
        deadline: Instant,
    ) -> io::Result<bool> {
        let mut filled = 0;
        while filled < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut enclosed = RecvAncillaryBuffer::new(&mut space);
            let slices = &mut [IoSliceMut::new(&mut bytes[filled..])];
            let received = rustix::net::recvmsg(&self.stream, slices, &mut enclosed, RecvFlags::CMSG_CLOEXEC);
            for message in enclosed.drain() {
                if let RecvAncillaryMessage::ScmRights(given) = message {
                    descriptors.extend(given);
                }
            }
            match received {
                Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => {
                    return Err(io::Error::other("descriptors were lost: the limit of open files is too low"));
                }
                Ok(received) if received.bytes == 0 && filled == 0 && position == Position::BetweenLetters => {
                    return Ok(false);
                }
                Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => filled += received.bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(error) => return Err(error.into()),
            }
            // The limit holds for a sender that dribbles bytes without end as well as for one that sends nothing.
            if filled < bytes.len() && Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(true)
    }

    /// Waits until something can be sent or received.
    fn wait(&self, what: PollFlags, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.stream, what)], Some(&left)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where in the stream of letters the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Between two letters: the connection may end here.
    BetweenLetters,
    /// Within a letter.
    InLetter,
}

/// The system user at the other end of a connection.
///
/// # Errors
/// The system does not report it.
pub fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(credentials(stream)?.uid)
}

fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // Safe because the option fills one `ucred`, and no more than `length` bytes of it. (rustix assumes that there is a
    // process id, but the kernel reports none for a process in another namespace.)
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// Most descriptors with one letter; Linux takes 253.
pub const DESCRIPTORS_MAX: usize = 200;
/// Most bytes of one letter.
const LETTER_BYTES_MAX: usize = 256 << 20;
const TOO_LONG: &str = "a letter is longer than any";

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    fn pair() -> (Ipc, Ipc) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let ipc = |stream| Ipc::new(stream, Duration::from_secs(5)).expect("a hatch");
        (ipc(near), ipc(far))
    }

    #[test]
    fn descriptors_arrive_with_their_own_letter() {
        let (near, far) = pair();
        let (mut one, two) = UnixStream::pair().expect("a pair");
        near.send(b"first", &[]).expect("sent");
        near.send(b"second", &[two.as_fd(), near.stream.as_fd()]).expect("sent");
        near.send(b"", &[]).expect("sent");
        drop((near, two));
        let (letter, descriptors) = far.receive().expect("heard").expect("a letter");
        assert_eq!((letter, descriptors.len()), (b"first".to_vec(), 0));
        let (letter, mut descriptors) = far.receive().expect("heard").expect("a letter");
        assert_eq!((letter, descriptors.len()), (b"second".to_vec(), 2));
        let mut two = UnixStream::from(descriptors.remove(0));
        one.write_all(b"x").expect("written");
        let mut heard = [0];
        two.read_exact(&mut heard).expect("it is the same connection");
        assert_eq!(far.receive().expect("heard").expect("a letter").0, b"");
        drop(descriptors);
        assert!(far.receive().expect("its end").is_none());
    }

    #[test]
    fn a_letter_longer_than_any_buffer_arrives_whole() {
        let (near, far) = pair();
        let letter = vec![7; 3 << 20];
        let writer = std::thread::spawn(move || near.send(&letter, &[]));
        assert_eq!(far.receive().expect("heard").expect("a letter").0.len(), 3 << 20);
        writer.join().expect("it ends").expect("sent");
    }

    #[test]
    fn half_a_letter_is_none() {
        let (near, far) = pair();
        (&near.stream).write_all(&[0, 0, 0, 9, 1]).expect("written");
        drop(near);
        assert_eq!(far.receive().expect_err("torn").kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The limit once applied to each read: a sender of single bytes could keep the receiver waiting without end.
    #[test]
    fn the_time_is_a_letters_and_not_a_bytes() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let far = Ipc::new(far, Duration::from_millis(300)).expect("a hatch");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let dribbler = std::thread::spawn(move || {
            let mut letter = [&[0, 0, 1, 0][..], &[7; 256]].concat().into_iter();
            let pause = Duration::from_millis(20);
            while let (Some(byte), Err(std::sync::mpsc::RecvTimeoutError::Timeout)) =
                (letter.next(), stopped.recv_timeout(pause))
            {
                (&near).write_all(&[byte]).expect("written");
            }
        });
        assert_eq!(far.receive().expect_err("too slow").kind(), io::ErrorKind::TimedOut);
        drop(stop);
        dribbler.join().expect("it ends");
    }

    #[test]
    fn who_takes_nothing_is_given_up() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let near = Ipc::new(near, Duration::from_millis(50)).expect("a hatch");
        assert_eq!(near.send(&vec![7; 3 << 20], &[]).expect_err("full").kind(), io::ErrorKind::TimedOut);
        let longer = vec![0; LETTER_BYTES_MAX + 1];
        assert_eq!(near.send(&longer, &[]).expect_err("too long").to_string(), TOO_LONG);
    }

    #[test]
    fn silence_ends_with_a_word_or_with_the_other_end() {
        let (near, far) = pair();
        assert!(far.is_silent());
        near.send(b"word", &[]).expect("sent");
        assert!(!far.is_silent());
        far.receive().expect("heard").expect("a letter");
        assert!(far.is_silent());
        assert_eq!(far.peer_pid(), Some(std::process::id()));
        drop(near);
        assert!(!far.is_silent());
    }
}
