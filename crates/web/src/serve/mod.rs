//! Listening, and what is answered, until a signal ends it.

mod body;
mod connections;
mod gzip;
mod listen;
mod routes;
mod tls;
mod write_timeout;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::signal::{self as handlers, SigHandler};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::access::{Access, Peer};
use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;
use crate::base::{locked, say};
use crate::fleet::Fleet;
use crate::fleet::dblock::Dblock;
use crate::options::Options;
use connections::{Connection, Connections};
use listen::Listener;
use write_timeout::{Patient, Stream};

/// How long a client may take to send the head of a request, or its body; to take up more of an answer; and until it asks for more. Who
/// sends a byte a second is gone within ten.
const PATIENCE: Duration = Duration::from_secs(8);

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 * 1024;

/// Serves until a signal ends it.
///
/// # Errors
/// It cannot begin.
pub fn run(options: &Options) -> Result<(), Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| refused("start", &error))?;
    let ended = runtime.block_on(serve(options));
    // Connections end with it.
    runtime.shutdown_background();
    ended
}

async fn serve(options: &Options) -> Result<(), Failure> {
    let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
    let dblock = Dblock::find(options.dblock.clone(), options.handed_on.clone()).await?;
    let signals = Signals::new(options)?;
    let listener = Listener::bind(&options.listen).await?;
    let access = Arc::new(Access::new(options)?);
    let fleet = Arc::new(Fleet::new(dblock, options.refresh));
    let tls = tls.map(Mutex::new);
    let server = Server {
        router: routes::router(options, fleet.clone(), access.clone()),
        connections: Connections::default(),
    };
    let first = format!("{}{}", listener.url(options), access.first_query());
    announce(&first)?;
    tokio::select! {
        () = fleet.poll() => {}
        () = server.accept(&listener, tls.as_ref()) => {}
        () = signals.until_the_end(|| reload(options, &access, tls.as_ref())) => {}
    }
    Ok(())
}

/// The first line, for a person and for what starts it.
fn announce(url: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{url}").and_then(|()| stdout.flush());
    written.map_err(|error| refused("write to stdout", &error))
}

/// The system refuses this.
fn refused(what: &str, error: &io::Error) -> Failure {
    let line = format!("cannot {what}: {}", in_words(error));
    Failure::new(Reason::OsRefused, line)
}

/// Reads the password and the certificate again. What cannot be used is a warning: the old one stays.
fn reload(options: &Options, access: &Access, tls: Option<&Mutex<TlsAcceptor>>) {
    let password = options
        .password_file
        .as_ref()
        .map_or(Ok(()), |file| access.read_password_again(file));
    let certificate = options.tls.as_ref().map(tls::acceptor).transpose();
    let certificate = certificate.map(|new| {
        if let (Some(new), Some(tls)) = (new, tls) {
            *locked(tls) = new;
        }
    });
    for failure in [password, certificate].into_iter().filter_map(Result::err) {
        say(&format!("{failure}; what was read before stays in force"));
    }
}

struct Signals {
    ends: [Signal; 2],
    /// None: whoever started it wants it to survive its terminal, as nohup does.
    hangup: Option<Signal>,
    /// Whether that is a request to read files again. A terminal that closes sends it, too.
    reloads: bool,
}

impl Signals {
    fn new(options: &Options) -> Result<Self, Failure> {
        let of = |kind| signal(kind).map_err(|error| refused("wait for signals", &error));
        let has_files = options.password_file.is_some() || options.tls.is_some();
        let reloads = has_files && !io::stdin().is_terminal();
        let is_heard = reloads || !is_hangup_ignored();
        Ok(Self {
            ends: [of(SignalKind::terminate())?, of(SignalKind::interrupt())?],
            hangup: is_heard.then(|| of(SignalKind::hangup())).transpose()?,
            reloads,
        })
    }

    async fn until_the_end(self, reload: impl Fn()) {
        let [mut terminate, mut interrupt] = self.ends;
        let mut hangup = self.hangup;
        let mut hung_up = async || match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        };
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hung_up() => {
                    if !self.reloads {
                        return;
                    }
                    reload();
                }
            }
        }
    }
}

/// Whether SIGHUP was ignored when this was started. It is from then on.
fn is_hangup_ignored() -> bool {
    // SAFETY: no function is made a handler.
    let before = unsafe { handlers::signal(handlers::Signal::SIGHUP, SigHandler::SigIgn) };
    matches!(before, Ok(SigHandler::SigIgn))
}

struct Server {
    router: Router,
    connections: Connections,
}

impl Server {
    async fn accept(&self, listener: &Listener, tls: Option<&Mutex<TlsAcceptor>>) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // No descriptors are left, for example: those that end give some back.
                    say(&format!("cannot accept a connection: {}", in_words(&error)));
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let tls = tls.map(|tls| locked(tls).clone());
            let router = self.router.clone();
            self.connections
                .add(peer, |connection| client(stream, tls, router, connection));
        }
    }
}

/// One client, to its end.
async fn client(
    stream: Box<dyn Stream>,
    tls: Option<TlsAcceptor>,
    router: Router,
    connection: Connection,
) {
    let stream: Box<dyn Stream> = match tls {
        None => stream,
        Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => Box::new(stream),
            _ => return,
        },
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_header_size(LONGEST_HEAD)
        .max_buf_size(LONGEST_HEAD);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(connection.peer));
        request.extensions_mut().insert(connection.clone());
        router.call(request)
    });
    let _ = http
        .serve_connection(TokioIo::new(Patient::new(stream, PATIENCE)), service)
        .await;
}
