//! For tests: the steps from version to version, which `versions.sql` records. The tables that come of them are those of today, and an
//! older dblock can write to them after each step.

use std::collections::BTreeSet;

use super::tables::{TABLES, VERSION};

/// The statements of all versions.
const RECORD: &str = include_str!("versions.sql");

/// The columns and keys of all tables, each with the name of its table in front.
type Shape = BTreeSet<String>;

/// The version and the statements of each step.
fn steps() -> impl Iterator<Item = (u32, Vec<&'static str>)> {
    RECORD.split("-- version ").skip(1).map(|step| {
        let (title, statements) = step.split_once('\n').expect("a title");
        let version = title.split(',').next().and_then(|word| word.parse().ok());
        let statements = statements.split(';').map(str::trim);
        let statements = statements.filter(|statement| !statement.is_empty());
        (version.expect("a version"), statements.collect())
    })
}

/// Applies a statement, if an older dblock can write to the tables after it, and `dblock init` can do the same.
fn apply(shape: &mut Shape, statement: &str) -> Result<(), &'static str> {
    if let Some(table) = statement.strip_prefix("CREATE TABLE ") {
        let (name, table) = table.split_once(" (\n").ok_or("has no columns")?;
        let (lines, _) = table.split_once("\n)").ok_or("has no end")?;
        let lines = lines.split(",\n").map(str::trim);
        shape.extend(lines.map(|line| format!("{name}: {line}")));
        return Ok(());
    }
    let alter = statement.strip_prefix("ALTER TABLE ");
    let (name, change) = alter
        .and_then(|alter| alter.split_once(' '))
        .ok_or("neither creates nor alters a table")?;
    if let Some(column) = change.strip_prefix("ADD COLUMN ") {
        let may_be_null = column.ends_with(" NULL") && !column.ends_with(" NOT NULL");
        if !may_be_null && !column.contains(" DEFAULT ") {
            return Err(
                "adds a column that an older dblock does not write, and that has no value without it",
            );
        }
        shape.insert(format!("{name}: {column}"));
    } else if let Some(key) = change.strip_prefix("ADD KEY ") {
        shape.insert(format!("{name}: KEY {key}"));
    } else if let Some(column) = change.strip_prefix("ALTER COLUMN ") {
        let (column, default) = column.split_once(" SET DEFAULT ").ok_or("has no default")?;
        let column = format!("{name}: {column} ");
        let old = shape.iter().find(|line| line.starts_with(&column)).cloned();
        let old = old.ok_or("has no such column")?;
        let (kind, _) = old.split_once(" DEFAULT ").ok_or("had no default")?;
        shape.remove(&old);
        shape.insert(format!("{kind} DEFAULT {default}"));
    } else {
        return Err("is a change that dblock init does not make, or that stops an older dblock");
    }
    Ok(())
}

#[test]
fn the_steps_of_all_versions_lead_to_the_tables_of_today() {
    let mut shape = Shape::new();
    let mut last = 1;
    for (version, statements) in steps() {
        assert!(
            version == last || version == last + 1,
            "{version} after {last}"
        );
        last = version;
        for statement in statements {
            if let Err(why) = apply(&mut shape, statement) {
                panic!("this step to version {version} {why}: {statement}");
            }
        }
    }
    assert_eq!(
        last, VERSION,
        "the steps to it are at the end of versions.sql"
    );
    let mut today = Shape::new();
    for table in &TABLES {
        let create = table.create("");
        let create = create.replace("IF NOT EXISTS .", "");
        apply(&mut today, &create).expect("it is created");
    }
    let lacks: Vec<_> = today.difference(&shape).collect();
    let more: Vec<_> = shape.difference(&today).collect();
    assert!(
        lacks.is_empty() && more.is_empty(),
        "the steps in versions.sql lack {lacks:#?}, and the definitions in tables.rs lack {more:#?}"
    );
}

#[test]
fn a_step_that_stops_an_older_dblock_or_that_init_does_not_make_is_refused() {
    let mut shape = Shape::new();
    let create = "CREATE TABLE dblock_x (\n  a INT NOT NULL,\n  b INT NOT NULL DEFAULT 1\n)";
    apply(&mut shape, create).unwrap();
    for change in [
        "ALTER TABLE dblock_x ADD COLUMN c INT NOT NULL",
        "ALTER TABLE dblock_x ADD COLUMN c BIGINT NOT NULL AUTO_INCREMENT",
        "ALTER TABLE dblock_x ADD UNIQUE KEY by_a (a)",
        "ALTER TABLE dblock_x ALTER COLUMN b DROP DEFAULT",
        "ALTER TABLE dblock_x DROP COLUMN b",
        "ALTER TABLE dblock_x DROP KEY by_a",
        "ALTER TABLE dblock_x MODIFY COLUMN b BIGINT NOT NULL DEFAULT 1",
        "ALTER TABLE dblock_x RENAME COLUMN a TO c",
        "DROP TABLE dblock_x",
    ] {
        assert!(apply(&mut shape, change).is_err(), "{change}");
    }
    assert_eq!(shape.len(), 2, "{shape:?}");
    for change in [
        "ALTER TABLE dblock_x ADD COLUMN c INT NOT NULL DEFAULT 0",
        "ALTER TABLE dblock_x ADD COLUMN d INT NULL",
        "ALTER TABLE dblock_x ADD KEY by_a (a)",
        "ALTER TABLE dblock_x ALTER COLUMN b SET DEFAULT 2",
    ] {
        apply(&mut shape, change).unwrap();
    }
    let found: Vec<_> = shape.iter().map(String::as_str).collect();
    let expected = [
        "dblock_x: KEY by_a (a)",
        "dblock_x: a INT NOT NULL",
        "dblock_x: b INT NOT NULL DEFAULT 2",
        "dblock_x: c INT NOT NULL DEFAULT 0",
        "dblock_x: d INT NULL",
    ];
    assert_eq!(found, expected);
}
