//! A server's role in a cluster: several servers that all take writes, or one that has not joined the others.

use super::ask::{Ask, ask};

/// An SQL condition: this server is a member of a group in which all members take writes. A server without the plugin does not know the
/// variables.
pub const IS_MULTI_PRIMARY: &str = "IFNULL(@@global.group_replication_group_name, '') <> '' \
     AND NOT @@global.group_replication_single_primary_mode";

/// An SQL condition: this server is set up as a member of a group, and has not sent a message to it since its start. Every account may
/// read that, unlike the list of members. A server that counts no messages is treated as a member.
pub const HAS_NOT_JOINED: &str = "(IFNULL(@@global.group_replication_group_name, '') <> '' AND \
     (SELECT IFNULL(SUM(VARIABLE_VALUE) = 0, 0) FROM performance_schema.global_status \
     WHERE VARIABLE_NAME = 'Gr_control_messages_sent_count'))";

/// Why a server that [has not joined](HAS_NOT_JOINED) its group is passed over.
pub const NOT_JOINED: &str = "is a member of a group that it has not joined since it was started: what it takes is its own; START \
     GROUP_REPLICATION there, or set super_read_only in its configuration";

/// Whether a server's version comment is that of a MySQL with Galera. MariaDB has `@@wsrep_on` for that.
pub fn is_wsrep(version_comment: &str) -> bool {
    let comment = version_comment.to_lowercase();
    let words = ["wsrep", "galera", "xtradb cluster"];
    words.iter().any(|word| comment.contains(word))
}

/// Asks for [`IS_MULTI_PRIMARY`].
pub fn ask_multi_primary() -> Ask<'static, bool> {
    let sql = format!("SELECT {IS_MULTI_PRIMARY}");
    ask("multi-primary", sql, |rows| {
        Ok(rows.value()?.unwrap_or(false))
    })
}

/// Asks for [`HAS_NOT_JOINED`].
pub fn ask_has_not_joined() -> Ask<'static, bool> {
    let sql = format!("SELECT {HAS_NOT_JOINED}");
    ask("has joined", sql, |rows| Ok(rows.value()?.unwrap_or(false)))
}
