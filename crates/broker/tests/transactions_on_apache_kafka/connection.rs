//! A connection that asks one thing at a time, in frames of our own codec.

use std::io::{Read, Write};
use std::net::TcpStream;

use atonce_protocol::frame::{RequestHeader, decode_response_header, encode_request};
use atonce_protocol::wire::{Message, Reader, Request};
use bytes::Bytes;

pub(crate) struct Connection {
    address: String,
    stream: TcpStream,
    correlation_id: i32,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).expect("an open socket takes options");
        Self { address: address.to_owned(), stream, correlation_id: 0 }
    }

    /// The answer; `None` where the broker closed the connection instead. Another one is open then.
    pub(crate) fn call<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        self.correlation_id += 1;
        let header = RequestHeader::new(R::KEY, version, self.correlation_id, None);
        let frame = encode_request(&header, request).expect("the question fits its version");
        let Ok(answer) = self.exchange(&frame) else {
            *self = Self::open(&self.address);
            return None;
        };
        let mut reader = Reader::new(answer);
        let header = decode_response_header(&mut reader, R::KEY, version).expect("a response header");
        assert_eq!(header.correlation_id, self.correlation_id, "answers come in the order of the questions");
        let response = R::Response::decode(&mut reader, version).expect("a response of that version");
        reader.finish().expect("nothing after the response");
        Some(response)
    }

    fn exchange(&mut self, frame: &[u8]) -> std::io::Result<Bytes> {
        self.stream.write_all(frame)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut answer)?;
        Ok(Bytes::from(answer))
    }
}
