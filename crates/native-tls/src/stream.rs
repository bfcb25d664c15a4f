//! A stream after its handshake.

use std::fmt;
use std::io::{self, Read, Write};

use rustls::{ClientConnection, StreamOwned};

/// Encrypts and decrypts what goes over a stream.
pub struct TlsStream<S: Read + Write>(Box<StreamOwned<ClientConnection, S>>);

impl<S: Read + Write> TlsStream<S> {
    pub(crate) fn new(tls: ClientConnection, stream: S) -> Self {
        Self(Box::new(StreamOwned::new(tls, stream)))
    }

    /// The stream beneath.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.0.sock
    }

    /// With TLS 1.3 the server looks at a client's certificate when the client has already gone on, so what it thinks of it
    /// may lie unread when a write finds the connection closed. Nothing more will come, so reading does not wait.
    fn last_words(&mut self, error: io::Error) -> io::Error {
        if !matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ) {
            return error;
        }
        let StreamOwned { conn, sock } = &mut *self.0;
        while let Ok(1..) = conn.read_tls(sock) {
            if let Err(told) = conn.process_new_packets() {
                return io::Error::new(io::ErrorKind::InvalidData, told);
            }
        }
        error
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// An end without TLS's good-bye is an end: MySQL's packets have their lengths, so one that was cut short is noticed, and
    /// servers that end a session do not say good-bye.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| self.last_words(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| self.last_words(error))
    }
}

impl<S: Read + Write + fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("TlsStream").field(self.get_ref()).finish()
    }
}
