//! A TCP proxy between dblock and a server: it notes the client's packets, and can freeze, cut, refuse and slow down
//! connections.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Kind, Server, url_of_kind, within};

/// The first byte of a client's packet that carries statements.
const COM_QUERY: u8 = 3;

/// The first byte of a client's packet that says goodbye.
const COM_QUIT: u8 = 1;

/// The types of the same messages of PostgreSQL's.
const QUERY: u8 = b'Q';
const TERMINATE: u8 = b'X';

/// The server's message that a login is good: its type, and what follows its length.
const AUTHENTICATION_OK: [u8; 5] = [b'R', 0, 0, 0, 0];

/// A proxy to one server, on a port of its own.
#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    kind: Kind,
    address: Ipv4Addr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    /// Freezes before a client's statements with this in them.
    freezes_at: Option<String>,
    refusing: bool,
    delay: Duration,
    stalls: Option<Stalls>,
    connections: usize,
    /// Of so many the server is not told that the client is gone.
    abandoned: usize,
    /// Of each connection the client's end and the server's.
    open: Vec<[TcpStream; 2]>,
    /// From which port the server has seen a connection come, and since when. In time ports are used again.
    ports: Vec<(u16, Instant)>,
    packets: Vec<Packet>,
    /// The connections whose clients have sent nothing since the latest bytes of the server.
    answered: BTreeSet<usize>,
}

/// Moments in which the network carries nothing.
#[derive(Debug)]
struct Stalls {
    random: fastrand::Rng,
    longest: Duration,
}

/// Of so many pieces one is stalled.
const STALLED: u8 = 4;

/// A packet of a client, after its handshake.
#[derive(Clone)]
pub struct Packet {
    /// Which connection through this proxy, from 0.
    pub connection: usize,
    pub at: Instant,
    /// Of PostgreSQL's, its type, and what follows its length.
    pub payload: Vec<u8>,
    kind: Kind,
}

impl Packet {
    /// The statements, if it carries any, without the comments that name them.
    pub fn statements(&self) -> Option<String> {
        let sent = self.sent()?;
        let mut parts = sent.split("/* dblock ");
        let first = parts.next().unwrap_or_default().to_owned();
        let unnamed = |part: &str| match part.split_once("*/") {
            Some((_, rest)) => rest.trim_start().to_owned(),
            None => part.to_owned(),
        };
        Some(first + &parts.map(unnamed).collect::<String>())
    }

    /// The statements as they were sent, if it carries any.
    pub fn sent(&self) -> Option<String> {
        let (&command, text) = self.payload.split_first()?;
        let (is_query, text) = match self.kind {
            Kind::Postgres => (command == QUERY, text.strip_suffix(b"\0").unwrap_or(text)),
            Kind::MariaDb | Kind::MySql => (command == COM_QUERY, text),
        };
        is_query.then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// Whether it says goodbye.
    pub fn is_quit(&self) -> bool {
        match self.kind {
            Kind::Postgres => self.payload == [TERMINATE],
            Kind::MariaDb | Kind::MySql => self.payload == [COM_QUIT],
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{}: {:?} at {:?}",
            self.connection,
            String::from_utf8_lossy(&self.payload),
            self.at
        )
    }
}

impl Proxy {
    /// A proxy to `server`.
    pub fn to(server: &Server) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, server)
    }

    /// A proxy to `server` that listens on `address`.
    pub fn at(address: Ipv4Addr, server: &Server) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        let target = (server.address, server.port);
        Self::of_kind(server.kind, listener, address, target)
    }

    /// A proxy that takes the connections of `listener`, whichever network that is in, to whatever speaks MySQL's protocol.
    pub fn of(listener: TcpListener, address: Ipv4Addr, target: (Ipv4Addr, u16)) -> Self {
        Self::of_kind(Kind::MySql, listener, address, target)
    }

    fn of_kind(
        kind: Kind,
        listener: TcpListener,
        address: Ipv4Addr,
        target: (Ipv4Addr, u16),
    ) -> Self {
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::<Shared>::default();
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if state.lock().refusing {
                    continue;
                }
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let _ = state.carry(kind, &client, &server);
            }
        });
        Self {
            port,
            kind,
            address,
            shared,
        }
    }

    /// What a user gives as `--url` to go through the proxy.
    pub fn url(&self) -> String {
        url_of_kind(self.kind, self.address, self.port)
    }

    /// Whether the server has answered, on its way through the proxy, what the client has sent last on a connection.
    pub fn is_answered(&self, connection: usize) -> bool {
        self.shared.lock().answered.contains(&connection)
    }

    /// The clients' packets after their handshakes, so far.
    pub fn packets(&self) -> Vec<Packet> {
        self.shared.lock().packets.clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// Carries nothing on, in either direction, and closes nothing: a network that was cut.
    pub fn freeze(&self) {
        self.shared.lock().frozen = true;
    }

    /// The same before the next statements of a client with this in them, which the server does not get.
    pub fn freeze_at(&self, part: String) {
        self.shared.lock().freezes_at = Some(part);
    }

    /// The same before the next statement of this name.
    pub fn freeze_at_named(&self, name: &str) {
        // On PostgreSQL more follows in the comment.
        let end = match self.kind {
            Kind::Postgres => ";",
            Kind::MariaDb | Kind::MySql => " */",
        };
        self.freeze_at(format!("/* dblock {name}{end}"));
    }

    /// Whether it carries nothing on.
    pub fn is_frozen(&self) -> bool {
        self.shared.lock().frozen
    }

    /// Carries on, what came meanwhile first.
    pub fn thaw(&self) {
        self.shared.lock().frozen = false;
        self.shared.changed.notify_all();
    }

    /// Takes so much longer for everything, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// Stalls now and then for up to `longest`, in each direction; the same `seed` makes the same choices.
    pub fn stalls(&self, seed: u64, longest: Duration) {
        let random = fastrand::Rng::with_seed(seed);
        self.shared.lock().stalls = Some(Stalls { random, longest });
    }

    /// Since when the server has seen one of this proxy's connections come from this port, if it has.
    pub fn comes_from(&self, port: u16) -> Option<Instant> {
        let state = self.shared.lock();
        let mut latest = state.ports.iter().rev();
        latest
            .find(|(from, _)| *from == port)
            .map(|(_, since)| *since)
    }

    /// Closes every connection.
    pub fn cut(&self) {
        for stream in self.shared.lock().open.drain(..).flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Closes the clients' connections, of which the server hears nothing.
    pub fn abandon(&self) {
        let mut state = self.shared.lock();
        state.abandoned = state.connections;
        for [client, _] in &state.open {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refusing: bool) {
        self.shared.lock().refusing = refusing;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse(true);
        self.thaw();
        self.cut();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to carry between two ends.
    fn carry(
        self: &Arc<Self>,
        kind: Kind,
        client: &TcpStream,
        server: &TcpStream,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let connection = state.connections;
        state.connections += 1;
        state.open.push([client.try_clone()?, server.try_clone()?]);
        state
            .ports
            .push((server.local_addr()?.port(), Instant::now()));
        let through = Arc::new(Mutex::new(false));
        for from_client in [true, false] {
            let (shared, through) = (Arc::clone(self), Arc::clone(&through));
            let (client, server) = (client.try_clone()?, server.try_clone()?);
            let (from, to) = if from_client {
                (client, server)
            } else {
                (server, client)
            };
            let mut packets = Packets::of(kind, from_client);
            let good: &[u8] = match kind {
                Kind::Postgres => &AUTHENTICATION_OK,
                Kind::MariaDb | Kind::MySql => &[0],
            };
            let watch = move |shared: &Self, bytes: &[u8]| {
                for payload in packets.take(bytes) {
                    let mut through = through.lock().unwrap_or_else(PoisonError::into_inner);
                    if from_client && *through {
                        let packet = Packet {
                            connection,
                            at: Instant::now(),
                            payload,
                            kind,
                        };
                        shared.lock().note(packet);
                    } else if !from_client && payload.starts_with(good) {
                        *through = true;
                    }
                }
            };
            let way = (connection, from_client);
            thread::spawn(move || shared.carry_one_way(way, from, to, watch));
        }
        Ok(())
    }

    fn carry_one_way(
        &self,
        (connection, from_client): (usize, bool),
        mut from: TcpStream,
        mut to: TcpStream,
        mut watch: impl FnMut(&Self, &[u8]),
    ) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..length];
            // Before anybody sees the packet, and below before the client has the answer and sends the next one.
            if from_client {
                self.lock().answered.remove(&connection);
            }
            watch(self, bytes);
            let pause = self.lock().pause();
            if !pause.is_zero() {
                within(pause, || false);
            }
            let wait = self.changed.wait_while(self.lock(), |state| state.frozen);
            drop(wait.unwrap_or_else(PoisonError::into_inner));
            if !from_client {
                self.lock().answered.insert(connection);
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        if connection >= self.lock().abandoned {
            let _ = to.shutdown(Shutdown::Write);
        }
    }
}

impl State {
    fn note(&mut self, packet: Packet) {
        let sent = packet.sent();
        let is_it = |part: &mut String| sent.is_some_and(|sent| sent.contains(part.as_str()));
        self.frozen |= self.freezes_at.take_if(is_it).is_some();
        self.packets.push(packet);
    }

    /// What the next piece is held back for.
    fn pause(&mut self) -> Duration {
        let stalls = self.stalls.as_mut().map_or(Duration::ZERO, |stalls| {
            let stalled = stalls.random.u8(..STALLED) == 0;
            stalls
                .longest
                .mul_f64(if stalled { stalls.random.f64() } else { 0.0 })
        });
        self.delay + stalls
    }
}

/// Cuts a stream of bytes into the payloads of packets.
#[derive(Debug)]
struct Packets {
    kind: Kind,
    /// PostgreSQL's client begins with messages that have no type.
    is_untyped: bool,
    rest: Vec<u8>,
}

impl Packets {
    fn of(kind: Kind, from_client: bool) -> Self {
        Self {
            kind,
            is_untyped: from_client && kind == Kind::Postgres,
            rest: Vec::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(bytes);
        let mut payloads = Vec::new();
        while let Some((header, length)) = self.header() {
            let Some(payload) = self.rest.get(header..header + length) else {
                break;
            };
            let kind = self.rest[..header].iter().take(1).copied();
            payloads.push(if self.kind == Kind::Postgres && header == 5 {
                kind.chain(payload.iter().copied()).collect()
            } else {
                payload.to_vec()
            });
            // Only what asks for another way to speak, such as TLS, has no type as well; it is eight bytes long.
            self.is_untyped &= length == 4;
            self.rest.drain(..header + length);
        }
        payloads
    }

    /// How long the next packet's header is, and what follows it.
    fn header(&self) -> Option<(usize, usize)> {
        if self.kind != Kind::Postgres {
            let [a, b, c, _] = *self.rest.first_chunk()?;
            let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            return Some((4, length));
        }
        let start = usize::from(!self.is_untyped);
        let length = u32::from_be_bytes(*self.rest.get(start..)?.first_chunk()?) as usize;
        Some((start + 4, length.saturating_sub(4)))
    }
}
