//! Between two processes: letters over a unix socket, and descriptors with them.
//!
//! Always true: a letter arrives whole, with the descriptors that were given with it, or not at all; nobody waits longer than
//! was said; who is at the other end is known from the kernel.
//! Not here: what the letters say (`control::handover`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// One end of it.
#[derive(Debug)]
pub struct Hatch {
    stream: UnixStream,
}

impl Hatch {
    /// The end that this connection is. Nothing at it is waited for longer than `patience`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream })
    }

    /// The system user at the other end.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn peer_uid(&self) -> io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(&self.stream)?.uid.as_raw())
    }

    /// From now on letters are waited for so long.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait_up_to(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    /// Gives a letter and descriptors, which stay open here.
    ///
    /// # Errors
    /// The other end is gone, or takes nothing.
    ///
    /// # Panics
    /// With more descriptors than [`DESCRIPTORS_MAX`].
    pub fn send(&self, letter: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "more descriptors than a letter carries");
        let head = u32::try_from(letter.len()).map_err(io::Error::other)?.to_be_bytes();
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
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next letter and the descriptors in it. `None` when the other end has closed.
    ///
    /// # Errors
    /// Nothing comes in time, or what comes is no letter.
    pub fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut descriptors = Vec::new();
        let mut head = [0; 4];
        if !self.fill(&mut head, &mut descriptors, true)? {
            return Ok(None);
        }
        let length = u32::from_be_bytes(head) as usize;
        if length > LETTER_BYTES_MAX {
            return Err(io::Error::other("a letter is longer than any"));
        }
        let mut letter = vec![0; length];
        self.fill(&mut letter, &mut descriptors, false)?;
        Ok(Some((letter, descriptors)))
    }

    /// Fills `bytes`; whether there was anything, where there need not be.
    fn fill(&self, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>, may_end: bool) -> io::Result<bool> {
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
                Ok(received) if received.bytes == 0 && filled == 0 && may_end => return Ok(false),
                Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => filled += received.bytes,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Descriptors that go with one letter; Linux takes 253.
pub const DESCRIPTORS_MAX: usize = 200;
/// The longest letter.
const LETTER_BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    fn pair() -> (Hatch, Hatch) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let hatch = |stream| Hatch::new(stream, Duration::from_secs(5)).expect("a hatch");
        (hatch(near), hatch(far))
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
}
