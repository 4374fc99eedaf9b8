//! A connection to a broker: frames out, frames in, and what happened instead.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A frame, without its length.
    Frame(Bytes),
    /// The broker closed the connection.
    Closed,
    /// Nothing, for as long as we would wait.
    Nothing,
}

/// An open connection, opened again after it was closed.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: TcpStream,
}

impl Connection {
    /// Connects to `HOST:PORT`.
    pub fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { address: address.to_owned(), stream })
    }

    /// Sends a frame, its length included.
    pub fn send(&mut self, frame: &[u8]) {
        // A broker may close before it has read all: that no answer comes tells it.
        let _ = self.stream.write_all(frame);
    }

    /// The next frame, if it comes within `patience`.
    pub fn receive(&mut self, patience: Duration) -> Result<Heard> {
        self.stream.set_read_timeout(Some(patience))?;
        match self.read_frame() {
            Ok(frame) => Ok(Heard::Frame(frame)),
            Err(error) => {
                let heard = match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => Heard::Nothing,
                    _ => Heard::Closed,
                };
                *self = Self::open(&self.address)?;
                Ok(heard)
            }
        }
    }

    fn read_frame(&mut self) -> std::io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| std::io::Error::other("no length"))?;
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}
