//! The rows of any server, whose values are texts, as what a test wants of them.

use std::fmt::Debug;
use std::str::FromStr;

use mysql::Value;

/// A row: each value as text; `None` is NULL.
pub type Texts = Vec<Option<String>>;

/// A row of MySQL.
pub fn of_mysql(row: mysql::Row) -> Texts {
    let text = |value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => panic!("no text: {other:?}"),
    };
    row.unwrap().into_iter().map(text).collect()
}

/// What a value is read as.
pub trait FromText: Sized {
    fn from_text(text: Option<String>) -> Self;
}

/// What a row is read as: a value for each column.
pub trait FromTexts: Sized {
    fn from_texts(texts: Texts) -> Self;
}

fn parsed<T: FromStr<Err: Debug>>(text: Option<String>) -> T {
    let text = text.expect("it is not NULL");
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

macro_rules! parsed {
    ($($type:ty)*) => {$(
        impl FromText for $type {
            fn from_text(text: Option<String>) -> Self {
                parsed(text)
            }
        }
    )*};
}

parsed!(String u8 u32 u64 usize i32 i64 f64);

impl FromText for bool {
    fn from_text(text: Option<String>) -> Self {
        matches!(text.as_deref(), Some("1" | "t"))
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: Option<String>) -> Self {
        text.map(|text| T::from_text(Some(text)))
    }
}

impl<T: FromText> FromTexts for T {
    fn from_texts(mut texts: Texts) -> Self {
        T::from_text(texts.swap_remove(0))
    }
}

impl FromTexts for Texts {
    fn from_texts(texts: Texts) -> Self {
        texts
    }
}

macro_rules! rows {
    ($($type:ident)*) => {
        impl<$($type: FromText),*> FromTexts for ($($type,)*) {
            fn from_texts(texts: Texts) -> Self {
                let mut texts = texts.into_iter();
                ($($type::from_text(texts.next().expect("a column")),)*)
            }
        }
    };
}

rows!(A B);
rows!(A B C);
rows!(A B C D);
rows!(A B C D E);
rows!(A B C D E F G H I);
