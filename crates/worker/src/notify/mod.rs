//! LISTEN and NOTIFY: one session of a database listens for all its clients.
//!
//! Always true: who may have missed something is told so; what concerns very many is done a part in each turn.
//! Not here: what one client has heard (`protocol::state::Subscriptions`).

pub(crate) mod backlog;
pub(crate) mod behind;
pub(crate) mod channels;
pub(crate) mod farewell;
pub(crate) mod join;
pub(crate) mod joined;
pub(crate) mod later;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod listening;
pub(crate) mod news;
pub(crate) mod own_news;
pub(crate) mod release;
pub(crate) mod work_off;
