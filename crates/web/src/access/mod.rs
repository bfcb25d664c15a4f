//! Who may look: what each request must have before a page sees it, and what each answer says of how it may be used.

pub mod headers;
mod hosts;
mod login;
mod logins;
mod origin;
pub mod secret;

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::base::exit::Failure;
use crate::base::{locked, say};
use crate::options::{Listen, Options};
use crate::pages::{MAIN_ONLY, View, layout, links};

use hosts::Hosts;
use login::Attempts;
use logins::Logins;
use secret::{Digest, Secret};

/// What carries no secret: the page that asks for the password needs it, too.
const ASSETS: &str = "/assets/";

/// Where buttons are that change something.
const ACTIONS: &str = "/actions/";

/// Where the password is asked for.
const LOGIN: &str = "/login";

/// Where a login is ended.
const LOGOUT: &str = "/logout";

/// The cookie's name, or how it begins.
const COOKIE: &str = "dblock-web";

/// The parameter of the first URL.
const TOKEN: &str = "token";

/// Where a request comes from: the address of another host; None: this host.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub Option<IpAddr>);

impl Display for Peer {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "from {address}"),
            None => f.write_str("on this host"),
        }
    }
}

/// What one client has at its disposal: an address, or the /64 of IPv6 that a host usually gets.
pub fn network(address: IpAddr) -> IpAddr {
    beginning(address, 64)
}

/// What one client has at most: an address, or the /48 of IPv6 that a site may get, with all its networks.
pub fn site(address: IpAddr) -> IpAddr {
    beginning(address, 48)
}

/// An address of IPv6 with no more than its first bits.
fn beginning(address: IpAddr, bits: u32) -> IpAddr {
    let mask = u128::MAX << (128 - bits);
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & mask).into(),
    }
}

/// Who may look.
#[derive(Debug)]
pub struct Access {
    hosts: Hosts,
    gate: Mutex<Gate>,
    attempts: Attempts,
    /// Whether the cookie is for TLS alone.
    is_secure: bool,
    /// By which a browser opens the page.
    schemes: &'static [&'static str],
    /// Whether all come by way of a proxy: no header of theirs says where they are.
    is_behind_proxy: bool,
}

/// What somebody shows to be let in. A cookie's value is another secret than what is typed.
#[derive(Debug)]
enum Gate {
    /// The rights of the socket decide.
    Socket,
    /// The one who started it has its URL.
    Token { token: Secret, cookie: Secret },
    /// It is in a file.
    Password { password: Digest, logins: Logins },
}

impl Access {
    /// As the options say.
    ///
    /// # Errors
    /// The password's file cannot be used.
    pub fn new(options: &Options) -> Result<Self, Failure> {
        let gate = match (&options.password_file, &options.listen) {
            (Some(file), _) => Gate::Password {
                password: secret::password_in(file)?,
                logins: Logins::default(),
            },
            (None, Listen::Unix(_)) => Gate::Socket,
            (None, Listen::Tcp(_)) => Gate::Token {
                token: Secret::new()?,
                cookie: Secret::new()?,
            },
        };
        Ok(Self {
            hosts: Hosts::new(&options.host_names),
            gate: Mutex::new(gate),
            attempts: Attempts::default(),
            is_secure: is_secure(options),
            schemes: schemes(options),
            is_behind_proxy: options.behind_proxy,
        })
    }

    /// What is behind the first URL's path: the token, or nothing.
    pub fn first_query(&self) -> String {
        match &*self.gate() {
            Gate::Token { token, .. } => format!("?{TOKEN}={}", token.text()),
            Gate::Socket | Gate::Password { .. } => String::new(),
        }
    }

    /// Reads the password again. If it is another, everybody has to log in again.
    ///
    /// # Errors
    /// Its file cannot be used, and the password stays as it was.
    pub fn read_password_again(&self, file: &Path) -> Result<(), Failure> {
        let new = secret::password_in(file)?;
        if let Gate::Password { password, logins } = &mut *self.gate()
            && *password != new
        {
            *logins = Logins::default();
            *password = new;
        }
        Ok(())
    }

    /// Where a form goes that logs out; None: nobody has logged in.
    pub fn logout(&self) -> Option<&'static str> {
        self.has_password().then_some(LOGOUT)
    }

    fn has_password(&self) -> bool {
        matches!(*self.gate(), Gate::Password { .. })
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        locked(&self.gate)
    }

    /// Whether a request shows the cookie.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let mut shown = cookies(headers).into_iter();
        match &*self.gate() {
            Gate::Socket => true,
            Gate::Token { cookie, .. } => shown.any(|value| cookie.is(&value)),
            Gate::Password { logins, .. } => shown.any(|value| logins.has(&value)),
        }
    }

    /// Sends somebody who is known now, and has sent these headers, to a page.
    fn let_in(&self, headers: &HeaderMap, to: &str) -> Response {
        let value = match &mut *self.gate() {
            Gate::Socket => return see_other(to),
            Gate::Token { cookie, .. } => Ok(cookie.text().to_owned()),
            Gate::Password { logins, .. } => logins.begin().map(|own| own.text().to_owned()),
        };
        match value {
            Ok(value) => self.with_cookie(see_other(to), headers, &value, ""),
            Err(failure) => {
                say(&failure.line);
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// Ends the login of who has sent these headers, and has the browser forget the cookie.
    fn log_out(&self, headers: &HeaderMap) -> Response {
        if let Gate::Password { logins, .. } = &mut *self.gate() {
            for value in cookies(headers) {
                logins.end(&value);
            }
        }
        self.with_cookie(see_other(LOGIN), headers, "", "; Max-Age=0")
    }

    /// An answer with a cookie, which ends with the browser unless it is to end at once.
    fn with_cookie(
        &self,
        mut response: Response,
        headers: &HeaderMap,
        value: &str,
        end: &str,
    ) -> Response {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = cookie_name(headers);
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}");
        let cookie = HeaderValue::try_from(cookie).expect("letters and digits");
        response.headers_mut().insert(header::SET_COOKIE, cookie);
        response
    }
}

/// Whether browsers have TLS on the way to this server, or to the proxy in front of it.
fn is_secure(options: &Options) -> bool {
    options.tls.is_some() || options.behind_proxy
}

/// Those by which browsers open the page. In front of a socket is an `ssh -L`, or a proxy, which may do TLS.
fn schemes(options: &Options) -> &'static [&'static str] {
    match &options.listen {
        _ if is_secure(options) => &["https"],
        Listen::Unix(_) => &["http", "https"],
        Listen::Tcp(_) => &["http"],
    }
}

/// The values of the cookies that may be this server's. Other programs of this host have cookies of their own in the same line, in any
/// letters.
fn cookies(headers: &HeaderMap) -> Vec<String> {
    let mut values = Vec::new();
    for line in headers.get_all(header::COOKIE) {
        let line = String::from_utf8_lossy(line.as_bytes());
        let named = line.split(';').filter_map(|one| one.trim().split_once('='));
        let own = named.filter(|(name, _)| name.starts_with(COOKIE));
        values.extend(own.map(|(_, value)| value.to_owned()));
    }
    values
}

/// A browser keeps one cookie for all ports of a host, so its name has the port that the browser knows: several pages may be at the ends of
/// several `ssh -L`.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')?.1.parse::<u16>().ok());
    port.map_or(COOKIE.to_owned(), |port| format!("{COOKIE}-{port}"))
}

fn see_other(to: &str) -> Response {
    // It begins with a slash, and what follows is what a browser sent.
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

/// The page that asks for the password, and all others only for those who may look.
pub fn guarded(pages: Router, access: Arc<Access>, view: &View) -> Router {
    // Who sees a page of these does not count as logged in.
    let view = View {
        log_out: None,
        ..*view
    };
    let login = Router::new()
        .route(LOGIN, get(login::ask).post(login::check))
        .route(LOGOUT, get(login::stay).post(login::leave));
    let login = login.with_state(login::Login {
        access: access.clone(),
        view: view.clone(),
    });
    let guard = Guard { access, view };
    pages
        .merge(login)
        .method_not_allowed_fallback(read_only)
        .layer(axum::middleware::from_fn_with_state(guard, look))
}

/// The answer to a POST to a page that takes none. axum adds the header Allow.
async fn read_only() -> Response {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        "This page is read by GET.\n",
    )
        .into_response()
}

#[derive(Clone)]
struct Guard {
    access: Arc<Access>,
    view: View,
}

async fn look(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let is_asset = request.uri().path().starts_with(ASSETS);
    let mut response = match guard.refusal(&request) {
        Some(response) => response,
        None => next.run(request).await,
    };
    let may_be_kept = is_asset && response.status().is_success();
    headers::add(response.headers_mut(), may_be_kept);
    response
}

impl Guard {
    /// The answer to who may not look; None: they may.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let path = request.uri().path();
        if headers.contains_key(header::TRANSFER_ENCODING) {
            let words = "A request with a Transfer-Encoding is not taken: its length must be said.";
            let message = self.message(StatusCode::BAD_REQUEST, "Bad request", words);
            return Some(([(header::CONNECTION, "close")], message).into_response());
        }
        if ![Method::GET, Method::HEAD, Method::POST].contains(request.method()) {
            let words = "This page is read by GET.";
            let message = self.message(StatusCode::METHOD_NOT_ALLOWED, "Not allowed", words);
            let has_form = path.starts_with(ACTIONS) || is_of_login(path);
            let allowed = if has_form {
                "GET, HEAD, POST"
            } else {
                "GET, HEAD"
            };
            return Some(([(header::ALLOW, allowed)], message).into_response());
        }
        if let Err(words) = self.access.hosts.check(headers) {
            return Some(self.message(StatusCode::FORBIDDEN, "Not under this name", &words));
        }
        if request.method() == Method::POST && !origin::is_own(headers, self.access.schemes) {
            let words = "This was not sent by a page of this server.";
            return Some(self.message(StatusCode::FORBIDDEN, "Not from here", words));
        }
        if request.method() != Method::POST
            && origin::is_elsewhere(headers, !path.starts_with(ACTIONS))
        {
            let words = "A page of another server asked for this.";
            return Some(self.message(StatusCode::FORBIDDEN, "Not from here", words));
        }
        if path.starts_with(ASSETS) || is_of_login(path) || self.access.is_known(headers) {
            return self.without_token(request);
        }
        Some(self.stranger(request))
    }

    /// A token does not stay in the address bar, nor in the history, of who is known already.
    fn without_token(&self, request: &Request) -> Option<Response> {
        let query = request.uri().query().unwrap_or_default();
        let has_token =
            token_of(query).is_some() && matches!(*self.access.gate(), Gate::Token { .. });
        has_token.then(|| self.by_token(request)).flatten()
    }

    fn by_token(&self, request: &Request) -> Option<Response> {
        let query = request.uri().query().unwrap_or_default();
        let given = token_of(query)?;
        let is_it = matches!(&*self.access.gate(), Gate::Token { token, .. } if token.is(given));
        is_it.then(|| {
            let mut to = request.uri().path().to_owned();
            let query = without(query);
            if !query.is_empty() {
                to = format!("{to}?{query}");
            }
            self.access.let_in(request.headers(), local(&to))
        })
    }

    fn stranger(&self, request: &Request) -> Response {
        let is_password = self.access.has_password();
        let is_page =
            request.method() != Method::POST && !request.headers().contains_key(MAIN_ONLY);
        let to = request.uri().path_and_query().map_or("/", |to| to.as_str());
        if let Some(response) = self.by_token(request) {
            return response;
        }
        // They may be known: a browser sends the cookie with what a page of this server leads to, and not with a link of another one.
        if is_page && origin::is_of_another(request.headers()) {
            return Html(layout::detour(local(to)).into_string()).into_response();
        }
        if is_password && is_page {
            return see_other(&links::with(
                LOGIN,
                &[("to", if to == "/" { "" } else { to })],
            ));
        }
        let words = if is_password {
            "Log in again: this page was open for longer than the login is valid."
        } else {
            "Open the URL that dblock web printed when it was started. It has a token, which your browser then keeps until it is closed."
        };
        let message = self.message(StatusCode::FORBIDDEN, "Who are you?", words);
        // By the header the page's script knows that it was not a proxy that answered.
        ([(MAIN_ONLY, "1")], message).into_response()
    }

    fn message(&self, status: StatusCode, title: &str, words: &str) -> Response {
        let page = layout::message(&self.view, title, words);
        (status, Html(page.into_string())).into_response()
    }
}

/// Whether it is for those, too, who are not known.
fn is_of_login(path: &str) -> bool {
    [LOGIN, LOGOUT].contains(&path)
}

fn parameters(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|parameter| !parameter.is_empty())
}

fn token_of(query: &str) -> Option<&str> {
    parameters(query).find_map(|parameter| parameter.strip_prefix(TOKEN)?.strip_prefix('='))
}

fn without(query: &str) -> String {
    let others = parameters(query).filter(|parameter| token_of(parameter).is_none());
    others.collect::<Vec<_>>().join("&")
}

/// A path of this server with its query; the first page for what may lead to another one: `//host`, also with a backslash, or with a tab
/// that browsers leave out.
fn local(to: &str) -> &str {
    let is_other = |letter: char| letter.is_control() || letter == '\\';
    if to.starts_with('/') && !to.starts_with("//") && !to.contains(is_other) {
        to
    } else {
        "/"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_out_of_a_query_and_the_rest_stays() {
        assert_eq!(token_of("by=host&token=ab&until="), Some("ab"));
        assert_eq!(
            without("by=host&token=ab&until=&token=cd"),
            "by=host&until="
        );
        assert_eq!(token_of("mytoken=ab"), None);
    }

    #[test]
    fn nobody_is_sent_to_another_server() {
        for other in [
            "",
            "evil",
            "//evil",
            r"/\evil",
            r"\\evil",
            "/\t/evil",
            "\t//evil",
            "/\u{85}/evil",
            "https://evil",
        ] {
            assert_eq!(local(other), "/", "{other:?}");
        }
        for own in ["/", "/jobs/a%2Fb", "/history?name=//a&on=%09"] {
            assert_eq!(local(own), own);
        }
    }

    #[test]
    fn each_end_of_an_ssh_l_has_its_own_cookie() {
        let named = |host: &'static str| {
            cookie_name(
                &[(header::HOST, HeaderValue::from_static(host))]
                    .into_iter()
                    .collect(),
            )
        };
        assert_eq!(named("localhost:8080"), "dblock-web-8080");
        assert_eq!(named("[::1]:8081"), "dblock-web-8081");
        assert_eq!(named("fleet.example"), "dblock-web");
        assert_eq!(named("[::1]"), "dblock-web");
    }
}
