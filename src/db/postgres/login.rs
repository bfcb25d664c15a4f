//! One attempt at one address: TLS, and the login.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use rustls::{ClientConnection, StreamOwned};

use super::account::Account;
use super::end_point::certificate_hash;
use super::fault::Refusal;
use super::scram::{Begun, Binding, MOST_ROUNDS, Unproven};
use super::stream::{Socket, Stream, tcp, unix};
use super::wire::{ENDLESS, MOST_REPLIES, PostgresWire, garbled, of_transport};
use crate::base::exit::{Failure, Reason};
use crate::base::random;
use crate::db::address::Address;
use crate::db::fault::Fault;
use crate::db::target::{ChannelBinding as Setting, Target};
use crate::db::tls;
use crate::db::wire::{LogIn, LoginLimit, Wire};

/// The server's answer to the request for TLS: yes, no.
const WITH_TLS: u8 = b'S';
const WITHOUT_TLS: u8 = b'N';
/// It cannot start a process, say.
const AN_ERROR: u8 = b'E';

/// Why a login is refused that is to be bound to the TLS channel.
const NOT_BOUND: &str = "channel_binding=require, and the server does not bind the login to TLS";

/// Why a login is refused by another way than passwords.
const UNKNOWN_WAY: &str = "it wants a way to log in that dblock does not have";

/// How often a server may ask for the password in clear.
const MOST_REQUESTS: u32 = 3;

/// The largest number of a process on Linux. A larger one is a pooler's, which makes it up.
const LARGEST_PID: u32 = 4 * 1024 * 1024;

impl LogIn for Account {
    fn log_in(
        &self,
        target: &Target,
        (address, server): (&Address, &str),
        limit: LoginLimit,
        tell: &dyn Fn(&str),
    ) -> Result<Box<dyn Wire>, Fault> {
        let socket = match address {
            Address::Tcp(ip, port) => tcp(*ip, *port, limit).and_then(|socket| {
                self.keep_alive.set(&socket)?;
                Ok(socket)
            }),
            Address::Socket(path) => unix(path, limit),
        };
        let socket = socket.map_err(|error| of_transport(&error))?;
        let (stream, encryption) = match (target, address) {
            (Target::Tcp(host, _), Address::Tcp(ip, _)) if self.tls.is_used() => {
                self.encrypt(socket, (host, *ip), server, tell)?
            }
            _ => (Stream::Plain(socket), None),
        };
        let mut wire = PostgresWire::new(stream, encryption, server, self.comment.clone());
        let logged_in = self
            .start(&mut wire)
            .and_then(|()| self.authenticate(&mut wire, target, server))
            .and_then(|()| self.become_ready(&mut wire, server));
        match (logged_in, &wire.alert) {
            (Ok(()), _) => {
                wire.stream.end_login();
                Ok(Box::new(wire))
            }
            (Err(_), Some(alert)) => Err(Fault::of_tls(alert, server)),
            (Err(fault), None) => Err(fault),
        }
    }
}

impl Account {
    /// Asks for TLS, and goes on without it if that is allowed and the server has none.
    fn encrypt(
        &self,
        mut socket: Socket,
        (host, ip): (&str, IpAddr),
        server: &str,
        tell: &dyn Fn(&str),
    ) -> Result<(Stream, Option<String>), Fault> {
        let Some((config, name)) = self.tls.prepare(host, ip)? else {
            return Ok((Stream::Plain(socket), None));
        };
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        // One byte, and not more: what an attacker adds in clear text is read as a part of the handshake, which then fails.
        let mut answer = [0];
        let asked = socket.write_all(&request);
        asked
            .and_then(|()| socket.read_exact(&mut answer))
            .map_err(|error| of_transport(&error))?;
        match answer[0] {
            WITH_TLS => {}
            // What follows is read without TLS, and so is not believed.
            AN_ERROR => return Err(Fault::Gone("the server cannot start a session".to_owned())),
            WITHOUT_TLS if self.tls.is_optional() => {
                tell(&format!("{server} offers no TLS; connecting without"));
                return Ok((Stream::Plain(socket), None));
            }
            WITHOUT_TLS => {
                let line =
                    format!("{server} offers no TLS, which sslmode demands; set it up there");
                return Err(Fault::Untrusted(Failure::new(Reason::Configuration, line)));
            }
            _ => return Err(garbled(server, &"an answer to the request for TLS")),
        }
        let mut tls = ClientConnection::new(Arc::clone(&config), name)
            .map_err(|error| Fault::of_tls(&error, server))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)
                .map_err(|error| of_handshake(error, server))?;
        }
        let encryption = tls
            .protocol_version()
            .zip(tls.negotiated_cipher_suite())
            .map(|(version, suite)| tls::in_use(version, suite.suite()));
        let stream = Stream::Tls(Box::new(StreamOwned::new(tls, socket)));
        Ok((stream, encryption))
    }

    fn start(&self, wire: &mut PostgresWire) -> Result<(), Fault> {
        let parameters = [
            ("user", &*self.user),
            ("database", &*self.database),
            ("application_name", &*self.application_name),
            ("client_encoding", "UTF8"),
        ];
        let options = self.settings.options.as_deref();
        let options = options.map(|options| ("options", options));
        // In another schema any role may have put an operator, which would run with the rights of dblock's. PgBouncer takes no such
        // setting, and it would stay with a session that a pooler gives to somebody else: there each transaction sets it.
        let path = (!self.settings.has_pooler).then_some(("search_path", "pg_catalog"));
        let mut startup = BytesMut::new();
        let parameters = parameters.into_iter().chain(options).chain(path);
        frontend::startup_message(parameters, &mut startup)
            .map_err(|error| wire.garbled(&error))?;
        wire.write(&startup)
    }

    /// Proves who dblock is, in the way that the server demands.
    fn authenticate(
        &self,
        wire: &mut PostgresWire,
        target: &Target,
        server: &str,
    ) -> Result<(), Fault> {
        let must_be_bound = self.settings.channel_binding == Setting::Require;
        // Whether the server knows by a proof that the password is known, and not by the password itself.
        let mut has_proven = false;
        let mut asked = 0;
        loop {
            let mut answer = BytesMut::new();
            let made = match self.answer(wire, server)? {
                // Only SCRAM can be bound, and proves that the server knows the password.
                Message::AuthenticationOk
                | Message::AuthenticationMd5Password(_)
                | Message::AuthenticationCleartextPassword
                    if must_be_bound && !has_proven =>
                {
                    return Err(self.refused(server, NOT_BOUND));
                }
                Message::AuthenticationOk => return Ok(()),
                // One that knows only what it keeps of the password would get the password itself so.
                _ if has_proven => return Err(wire.garbled(&"a second request for a password")),
                Message::AuthenticationSasl(body) => {
                    self.authenticate_by_scram(wire, &body, target, server)?;
                    has_proven = true;
                    continue;
                }
                Message::AuthenticationMd5Password(body) => {
                    let password = self.password_for(target, server)?;
                    has_proven = true;
                    let hash = md5_hash(self.user.as_bytes(), password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut answer)
                }
                // PAM may ask for it several times.
                Message::AuthenticationCleartextPassword
                    if wire.encryption.is_some() && asked < MOST_REQUESTS =>
                {
                    asked += 1;
                    frontend::password_message(self.password_for(target, server)?, &mut answer)
                }
                Message::AuthenticationCleartextPassword if asked > 0 => {
                    return Err(self.refused(server, "it asks for the password again and again"));
                }
                Message::AuthenticationCleartextPassword => {
                    return Err(self.refused(server, "it wants the password in clear, without TLS"));
                }
                Message::AuthenticationGss
                | Message::AuthenticationSspi
                | Message::AuthenticationKerberosV5
                | Message::AuthenticationScmCredential => {
                    return Err(self.refused(server, UNKNOWN_WAY));
                }
                _ => return Err(wire.garbled(&"an answer to the login")),
            };
            made.map_err(|error| wire.garbled(&error))?;
            wire.write(&answer)?;
        }
    }

    /// By SCRAM, bound to the TLS channel where the server can do that. So the server proves that it knows the password, too.
    fn authenticate_by_scram(
        &self,
        wire: &mut PostgresWire,
        body: &AuthenticationSaslBody,
        target: &Target,
        server: &str,
    ) -> Result<(), Fault> {
        let (mut has_scram, mut has_plus) = (false, false);
        let mut mechanisms = body.mechanisms();
        while let Some(mechanism) = mechanisms.next().map_err(|error| wire.garbled(&error))? {
            has_scram |= mechanism == SCRAM_SHA_256;
            has_plus |= mechanism == SCRAM_SHA_256_PLUS;
        }
        let binding = self.settings.channel_binding;
        let hash = match &wire.stream {
            _ if binding == Setting::Disable => None,
            Stream::Plain(_) => None,
            Stream::Tls(tls) => {
                let certificates = tls.conn.peer_certificates();
                let certificate = certificates.and_then(|all| all.first());
                // Anybody can show a certificate. Of one that cannot be read it was not verified that the server has its key.
                let proven = certificate.filter(|certificate| tls::is_readable(certificate));
                proven.and_then(certificate_hash)
            }
        };
        let may_bind = binding != Setting::Disable && wire.encryption.is_some();
        let (mechanism, binding) = match hash {
            Some(hash) if has_plus => (SCRAM_SHA_256_PLUS, Binding::Certificate(hash)),
            _ if binding == Setting::Require => {
                return Err(self.refused(server, NOT_BOUND));
            }
            // Whatever certificate was shown: somebody in between may have chosen it.
            _ if has_scram && !has_plus && may_bind => (SCRAM_SHA_256, Binding::NotOffered),
            _ if has_scram => (SCRAM_SHA_256, Binding::None),
            _ => {
                return Err(self.refused(server, UNKNOWN_WAY));
            }
        };
        let password = self.password_for(target, server)?;
        let begun = Begun::new(binding, random::id().map_err(Fault::Final)?);
        let mut first = BytesMut::new();
        frontend::sasl_initial_response(mechanism, begun.message().as_bytes(), &mut first)
            .map_err(|error| wire.garbled(&error))?;
        wire.write(&first)?;
        let (message, proven) = match self.answer(wire, server)? {
            Message::AuthenticationSaslContinue(body) => {
                let proof = begun.prove(password, body.data());
                proof.map_err(|unproven| self.of_proof(server, &unproven))?
            }
            _ => return Err(wire.garbled(&"an answer to the login")),
        };
        let mut proof = BytesMut::new();
        frontend::sasl_response(message.as_bytes(), &mut proof)
            .map_err(|error| wire.garbled(&error))?;
        wire.write(&proof)?;
        match self.answer(wire, server)? {
            Message::AuthenticationSaslFinal(body) if proven.is_proven_by(body.data()) => Ok(()),
            Message::AuthenticationSaslFinal(_) => Err(self.refused(
                server,
                "it does not know the password itself: is it the right server?",
            )),
            _ => Err(wire.garbled(&"an answer to the login")),
        }
    }

    /// The next message of the server that is no refusal.
    fn answer(&self, wire: &mut PostgresWire, server: &str) -> Result<Message, Fault> {
        match wire.receive()? {
            Message::ErrorResponse(body) => Err(Refusal::read(&body).of_login(server, &self.user)),
            message => Ok(message),
        }
    }

    fn of_proof(&self, server: &str, unproven: &Unproven) -> Fault {
        match unproven {
            Unproven::Garbled(what) => garbled(server, what),
            Unproven::TooManyRounds(rounds) => {
                let line = format!(
                    "the password was set with {rounds} rounds of SCRAM, and dblock computes {MOST_ROUNDS} at most: set \
                     scram_iterations there, and the password again"
                );
                self.refused(server, &line)
            }
        }
    }

    /// Reads what the server says of itself after the login.
    fn become_ready(&self, wire: &mut PostgresWire, server: &str) -> Result<(), Fault> {
        wire.may_be_pooled = self.settings.has_pooler;
        for _ in 0..MOST_REPLIES {
            match self.answer(wire, server)? {
                Message::BackendKeyData(body) if !self.settings.has_pooler => {
                    wire.pid = body.process_id().cast_unsigned();
                    // It may have dropped the setting of the login.
                    wire.may_be_pooled = wire.pid > LARGEST_PID;
                }
                // The pooler's number is of no use.
                Message::BackendKeyData(_) => {}
                // By that number it is found out whether a pooler shares sessions.
                Message::ReadyForQuery(_) if wire.pid == 0 && !self.settings.has_pooler => {
                    return Err(wire.garbled(&"a login without the number of the session"));
                }
                Message::ReadyForQuery(_) => return Ok(()),
                _ => return Err(wire.garbled(&"an answer to the login")),
            }
        }
        Err(wire.garbled(&ENDLESS))
    }

    fn password_for(&self, target: &Target, server: &str) -> Result<&[u8], Fault> {
        let none = || {
            let line = format!(
                "it wants a password, and none is given for role {}, database {}; dblock config shows where it would come from",
                self.user, self.database
            );
            self.refused(server, &line)
        };
        self.password(target).ok_or_else(none)
    }

    fn refused(&self, server: &str, why: &str) -> Fault {
        let line = format!("cannot log in to {server} as {}: {why}", self.user);
        Fault::Final(Failure::new(Reason::AccountRefused, line))
    }
}

fn of_handshake(error: std::io::Error, server: &str) -> Fault {
    match error.downcast::<rustls::Error>() {
        Ok(error) => Fault::of_tls(&error, server),
        Err(error) => of_transport(&error),
    }
}
