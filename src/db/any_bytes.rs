//! Whatever bytes a server sends, a login and a statement end in time, and this process goes on. Each case changes a few bytes of a talk
//! that is right. More cases: `PROPTEST_CASES=1000000 script/test any_bytes::`.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    ConnectOptions, Connector, Kind, Password, PostgresOptions, SslMode, Target, TlsFiles,
    TlsOptions, ask_session_info,
};

/// A server that says this gets an answer.
const CUT_OFF: Duration = Duration::from_secs(5);

/// What is changed of a talk: bytes at these places, and its end.
type Change = (Vec<(prop::sample::Index, u8)>, Option<prop::sample::Index>);

fn change() -> impl Strategy<Value = Change> {
    (
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<Option<prop::sample::Index>>(),
    )
}

fn changed(mut talk: Vec<u8>, (bytes, end): &Change) -> Vec<u8> {
    for (place, byte) in bytes {
        let place = place.index(talk.len());
        talk[place] = *byte;
    }
    if let Some(end) = end {
        talk.truncate(end.index(talk.len()));
    }
    talk
}

/// Logs in to a server that says this, and asks it something. Returns whether there was an answer.
fn asks(kind: Kind, talk: Vec<u8>) -> bool {
    // By TCP there would be no port left after some ten thousand cases.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        // The other side may be gone.
        let _ = client.write_all(&talk);
        let _ = client.shutdown(Shutdown::Write);
        while let Ok(1..) = client.read(&mut [0; 4096]) {}
    });
    let options = ConnectOptions {
        kind,
        postgres: PostgresOptions::default(),
        targets: vec![Target::Socket(socket)],
        user: Some("app".to_owned()),
        password: Password::Given("secret".to_owned().into()),
        tls: TlsOptions {
            mode: SslMode::Disabled,
            ca: None,
            identity: None,
            server_public_key: None,
            sends_name: false,
            names: TlsFiles::OPTIONS,
        },
        connect_timeout: CUT_OFF,
        database: "app".to_owned(),
        schema: "dblock".to_owned(),
    };
    let silent = Rc::new(|_, _: &str| {});
    let connector = Connector::new(&options, HashMap::new(), CUT_OFF, silent).unwrap();
    let begun = Instant::now();
    let answer = connector.connect(|session| session.run(&ask_session_info(kind)));
    let is_answered = answer.is_ok();
    drop(answer);
    assert!(begun.elapsed() < 2 * CUT_OFF, "{:?}", begun.elapsed());
    server.join().unwrap();
    is_answered
}

/// PostgreSQL's messages.
fn message(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

fn postgres() -> Vec<u8> {
    let mut columns = vec![0, 3];
    for name in ["pid", "user", "version"] {
        columns.extend(name.as_bytes());
        // No table, a text.
        columns.extend([
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
        ]);
    }
    let mut row = vec![0, 3];
    for value in ["7", "app", "15.4"] {
        row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        row.extend(value.as_bytes());
    }
    [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0015.4\0"),
        message(b'K', &[0, 0, 0, 7, 0, 0, 0, 1]),
        message(b'Z', b"I"),
        message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0"),
        message(b'T', &columns),
        message(b'D', &row),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ]
    .concat()
}

/// MySQL's packets.
fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn mysql() -> Vec<u8> {
    let row = ["7", "app@%", "9.7.4"].map(text).concat();
    mysql_with(&row)
}

/// With this for its row.
fn mysql_with(row: &[u8]) -> Vec<u8> {
    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    const END: &[u8] = &[0xfe, 0, 0, 2, 0];
    let mut greeting = vec![10];
    greeting.extend(b"9.7.4\0");
    greeting.extend([7, 0, 0, 0]);
    greeting.extend(b"saltsalt\0");
    // What it can do, in two halves; between them its character set and status.
    greeting.extend([0x0f, 0xa2, 45, 2, 0, 0x1f, 0, 21]);
    greeting.extend([0; 10]);
    greeting.extend(b"moresaltsalt\0mysql_native_password\0");
    let column = |name: &str| {
        let names = ["def", "", "", "", name, ""].map(text).concat();
        // A text of UTF-8.
        [&names[..], &[12, 45, 0, 0xff, 0, 0, 0, 253, 0, 0, 0, 0, 0]].concat()
    };
    [
        packet(0, &greeting),
        packet(2, OK),
        packet(1, &[3]),
        packet(2, &column("id")),
        packet(3, &column("account")),
        packet(4, &column("version")),
        packet(5, END),
        packet(6, row),
        packet(7, END),
    ]
    .concat()
}

#[test]
fn without_a_change_there_is_an_answer() {
    assert!(asks(Kind::Postgres, postgres()));
    assert!(asks(Kind::MySql, mysql()));
}

#[test]
fn a_row_without_bytes_is_no_answer() {
    assert!(!asks(Kind::MySql, mysql_with(&[])));
}

proptest! {
    #[test]
    fn of_postgres(change in change()) {
        asks(Kind::Postgres, changed(postgres(), &change));
    }

    #[test]
    fn of_mysql(change in change()) {
        asks(Kind::MySql, changed(mysql(), &change));
    }

    #[test]
    fn of_anything(is_postgres: bool, talk in vec(any::<u8>(), 0..300)) {
        let kind = if is_postgres { Kind::Postgres } else { Kind::MySql };
        asks(kind, talk);
    }
}
