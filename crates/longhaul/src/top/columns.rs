//! The columns of the two tables. A new column is a row here.

use super::column::{Column, Key, Width};
use crate::admin::snapshot::{FlowState, HopState, LegState, TunnelState, VerifyState, VerifyStateName};
use crate::admin::verdict::Words;
use crate::figures;
use longhaul_core::path::limit::Limit;
use std::borrow::Cow;

/// The columns of the table of flows, in their order on the screen.
pub(super) const FLOW_COLUMNS: &[Column<FlowState>] = &[
    Column {
        title: "FLOW",
        name: "number",
        width: Width::Number(6),
        rank: Some(0),
        cell: |row| row.flow.to_string().into(),
        key: |row| Key::Number(Some(row.flow as f64)),
    },
    Column {
        title: "TUNNEL",
        name: "tunnel",
        width: Width::Text(6, 16),
        rank: Some(5),
        cell: |row| Cow::Borrowed(&row.tunnel),
        key: |row| Key::Text(&row.tunnel),
    },
    Column {
        title: "CLIENT",
        name: "client",
        width: Width::Text(12, 47),
        rank: Some(3),
        cell: |row| Cow::Borrowed(&row.peer),
        key: |row| Key::Text(&row.peer),
    },
    Column {
        title: "NEXT HOP",
        name: "next hop",
        width: Width::Text(12, 47),
        rank: Some(10),
        cell: |row| row.next_hop.as_deref().unwrap_or("-").into(),
        key: |row| Key::Text(row.next_hop.as_deref().unwrap_or_default()),
    },
    Column {
        title: "FTP",
        name: "command of an FTP data connection",
        width: Width::Optional(8, 24),
        rank: Some(6),
        cell: |row| row.transfer.as_deref().unwrap_or_default().into(),
        key: |row| Key::Text(row.transfer.as_deref().unwrap_or_default()),
    },
    Column {
        title: "STATE",
        name: "state",
        width: Width::Text(5, 13),
        rank: Some(4),
        cell: |row| row.state.text().into(),
        key: |row| Key::Text(row.state.text()),
    },
    Column {
        title: "AGE",
        name: "age",
        width: Width::Number(6),
        rank: Some(8),
        cell: |row| figures::age(row.age_seconds).into(),
        key: |row| Key::Number(Some(row.age_seconds)),
    },
    Column {
        title: "UP b/s",
        name: "rate up",
        width: Width::Number(6),
        rank: Some(2),
        cell: |row| rate(row.rates.up),
        key: |row| Key::Number(row.rates.up),
    },
    Column {
        title: "DN b/s",
        name: "rate down",
        width: Width::Number(6),
        rank: Some(1),
        cell: |row| rate(row.rates.down),
        key: |row| Key::Number(row.rates.down),
    },
    Column {
        title: "RATE b/s",
        name: "total rate",
        width: Width::Number(8),
        rank: None,
        cell: |row| rate(row.rates.both()),
        key: |row| Key::Number(row.rates.both()),
    },
    Column {
        title: "D.RTT",
        name: "RTT of the dial leg",
        width: Width::Number(6),
        rank: Some(7),
        cell: |row| rtt(row.dial.as_ref()),
        key: |row| Key::Number(row.dial.as_ref().and_then(|leg| leg.rtt_ms)),
    },
    Column {
        title: "D.CWND",
        name: "congestion window of the dial leg",
        width: Width::Number(6),
        rank: Some(15),
        cell: |row| cwnd(row.dial.as_ref()),
        key: |row| Key::Number(row.dial.as_ref().map(|leg| leg.cwnd_segments.into())),
    },
    Column {
        title: "D.RETR",
        name: "bytes retransmitted on the dial leg",
        width: Width::Number(7),
        rank: Some(13),
        cell: |row| retransmitted(row.dial.as_ref()),
        key: |row| Key::Number(row.dial.as_ref().map(|leg| leg.retrans_bytes as f64)),
    },
    Column {
        title: "D.CC",
        name: "congestion control of the dial leg",
        width: Width::Text(4, 8),
        rank: Some(17),
        cell: |row| congestion(row.dial.as_ref()).into(),
        key: |row| Key::Text(congestion(row.dial.as_ref())),
    },
    Column {
        title: "D.LIM",
        name: "limit of the dial leg",
        width: Width::Text(5, 8),
        rank: Some(11),
        cell: |row| limit(row.dial.as_ref()).into(),
        key: |row| Key::Text(limit(row.dial.as_ref())),
    },
    Column {
        title: "A.RTT",
        name: "RTT of the accept leg",
        width: Width::Number(6),
        rank: Some(9),
        cell: |row| rtt(row.accept.as_ref()),
        key: |row| Key::Number(row.accept.as_ref().and_then(|leg| leg.rtt_ms)),
    },
    Column {
        title: "A.CWND",
        name: "congestion window of the accept leg",
        width: Width::Number(6),
        rank: Some(16),
        cell: |row| cwnd(row.accept.as_ref()),
        key: |row| Key::Number(row.accept.as_ref().map(|leg| leg.cwnd_segments.into())),
    },
    Column {
        title: "A.RETR",
        name: "bytes retransmitted on the accept leg",
        width: Width::Number(7),
        rank: Some(14),
        cell: |row| retransmitted(row.accept.as_ref()),
        key: |row| Key::Number(row.accept.as_ref().map(|leg| leg.retrans_bytes as f64)),
    },
    Column {
        title: "A.CC",
        name: "congestion control of the accept leg",
        width: Width::Text(4, 8),
        rank: Some(18),
        cell: |row| congestion(row.accept.as_ref()).into(),
        key: |row| Key::Text(congestion(row.accept.as_ref())),
    },
    Column {
        title: "A.LIM",
        name: "limit of the accept leg",
        width: Width::Text(5, 8),
        rank: Some(12),
        cell: |row| limit(row.accept.as_ref()).into(),
        key: |row| Key::Text(limit(row.accept.as_ref())),
    },
];

/// The columns of the table of tunnels, in their order on the screen.
pub(super) const TUNNEL_COLUMNS: &[Column<TunnelState>] = &[
    Column {
        title: "TUNNEL",
        name: "tunnel",
        width: Width::Text(10, 30),
        rank: Some(0),
        cell: |row| Cow::Borrowed(&row.name),
        key: |row| Key::Text(&row.name),
    },
    Column {
        title: "STATE",
        name: "state",
        width: Width::Text(9, 9),
        rank: Some(1),
        cell: |row| tunnel_state(row).into(),
        key: |row| Key::Text(tunnel_state(row)),
    },
    Column {
        title: "FLOWS",
        name: "flows",
        width: Width::Number(6),
        rank: Some(2),
        cell: |row| row.flows_now.to_string().into(),
        key: |row| Key::Number(Some(row.flows_now as f64)),
    },
    Column {
        title: "UP b/s",
        name: "rate up",
        width: Width::Number(6),
        rank: Some(4),
        cell: |row| rate(row.rates.up),
        key: |row| Key::Number(row.rates.up),
    },
    Column {
        title: "DN b/s",
        name: "rate down",
        width: Width::Number(6),
        rank: Some(3),
        cell: |row| rate(row.rates.down),
        key: |row| Key::Number(row.rates.down),
    },
    Column {
        title: "VERIFY",
        name: "result of the daemon's own probes",
        width: Width::Text(7, 7),
        rank: Some(5),
        cell: |row| verified(row).into(),
        key: |row| Key::Text(verified(row)),
    },
    Column {
        title: "NEXT HOPS",
        name: "next hops",
        width: Width::Text(12, u16::MAX),
        rank: Some(6),
        cell: |row| row.next_hops.iter().map(hop).collect::<Vec<_>>().join(", ").into(),
        key: |_| Key::Number(None),
    },
];

/// Returns the word for the state of a tunnel.
pub(super) fn tunnel_state(row: &TunnelState) -> &'static str {
    if row.listening || row.health.is_broken() { Words::of(row.health).tunnel } else { "closed" }
}

/// Returns the result of the daemon's own probes of a tunnel, or a dash if it makes none.
fn verified(row: &TunnelState) -> &'static str {
    row.verify.as_ref().map_or("-", |verify| Words::of(verify.health).verify)
}

/// Returns the word for the state of a tunnel by the daemon's own probes.
pub(super) fn verify_state(verify: &VerifyState) -> &'static str {
    match verify.state {
        VerifyStateName::Whole => "whole",
        VerifyStateName::Broken if verify.health.is_broken() => "BROKEN",
        VerifyStateName::Broken => "broken",
        VerifyStateName::Pending => "pending",
    }
}

/// Returns a next hop and its state: `b1:6000 up`.
fn hop(hop: &HopState) -> String {
    format!("{} {}", hop.next_hop, hop.state.text())
}

/// Returns a rate, or a dash while it is not known.
pub(super) fn rate(bits_per_second: Option<f64>) -> Cow<'static, str> {
    bits_per_second.map_or("-".into(), |rate| figures::rate(rate).into())
}

fn rtt(leg: Option<&LegState>) -> Cow<'_, str> {
    leg.and_then(|leg| leg.rtt_ms).map_or("-".into(), |ms| figures::rtt(ms).into())
}

fn cwnd(leg: Option<&LegState>) -> Cow<'_, str> {
    leg.map_or("-".into(), |leg| leg.cwnd_segments.to_string().into())
}

fn retransmitted(leg: Option<&LegState>) -> Cow<'_, str> {
    leg.map_or("-".into(), |leg| figures::bytes(leg.retrans_bytes).into())
}

fn congestion(leg: Option<&LegState>) -> &str {
    leg.and_then(|leg| leg.congestion.as_deref()).unwrap_or("-")
}

/// Returns a short word for what keeps the relay from sending more on a leg.
fn limit(leg: Option<&LegState>) -> &str {
    let name = leg.and_then(|leg| leg.limit.as_deref()).unwrap_or("-");
    // A newer daemon may have another limit.
    Limit::named(name).map_or(name, |limit| limit.short())
}

#[cfg(test)]
mod tests {
    use super::super::column::choose;
    use super::*;

    #[test]
    fn each_limit_has_its_short_word_and_an_unknown_one_its_name() {
        let leg = |limit: Option<&str>| LegState { limit: limit.map(Into::into), ..LegState::default() };
        for limit in Limit::ALL {
            assert_eq!(super::limit(Some(&leg(Some(limit.name())))), limit.short());
        }
        assert_eq!([Some(&leg(Some("clock"))), Some(&leg(None)), None].map(super::limit), ["clock", "-", "-"]);
    }

    #[test]
    fn every_rank_is_taken_once() {
        let mut ranks: Vec<u8> = FLOW_COLUMNS.iter().filter_map(|column| column.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..ranks.len() as u8).collect::<Vec<_>>());
        let mut ranks: Vec<u8> = TUNNEL_COLUMNS.iter().filter_map(|column| column.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..ranks.len() as u8).collect::<Vec<_>>());
    }

    #[test]
    fn the_command_of_an_ftp_data_connection_has_a_column_if_a_flow_has_one() {
        let mut rows = [FlowState::default(), FlowState::default()];
        let is_shown = |rows: &[FlowState]| {
            let needs: Vec<u16> = FLOW_COLUMNS.iter().map(|column| column.needs(rows.iter(), rows.iter())).collect();
            choose(FLOW_COLUMNS, &needs, 79).iter().any(|(at, _)| FLOW_COLUMNS[*at].title == "FTP")
        };
        assert!(!is_shown(&rows) && !is_shown(&[]));
        rows[1].transfer = Some("RETR a.iso".into());
        assert!(is_shown(&rows));
    }

    #[test]
    fn columns_are_dropped_in_the_order_of_the_manual() {
        let rows = [FlowState {
            tunnel: "ssh-to-b".into(),
            peer: "192.0.2.10:50000".into(),
            next_hop: Some("10.20.20.20:6000".into()),
            ..FlowState::default()
        }];
        let needs: Vec<u16> = FLOW_COLUMNS.iter().map(|column| column.needs(rows.iter(), rows.iter())).collect();
        let titles = |width| -> Vec<&str> {
            choose(FLOW_COLUMNS, &needs, width).iter().map(|(at, _)| FLOW_COLUMNS[*at].title).collect()
        };
        assert_eq!(titles(39), ["FLOW", "CLIENT", "UP b/s", "DN b/s"]);
        let at_80 = ["FLOW", "TUNNEL", "CLIENT", "STATE", "AGE", "UP b/s", "DN b/s", "D.RTT", "A.RTT"];
        assert_eq!(titles(79), at_80);
        // Neither the one that only sorts, nor that of FTP without FTP.
        assert_eq!(titles(200).len(), FLOW_COLUMNS.len() - 2);
        let mut ranked: Vec<(u8, &str)> = FLOW_COLUMNS
            .iter()
            .filter_map(|column| Some((column.rank?, column.title.trim_end_matches(" b/s"))))
            .collect();
        ranked.sort_unstable();
        let titles: Vec<&str> = ranked.into_iter().map(|(_, title)| title).collect();
        let manual: Vec<&str> = include_str!("../../../../docs/admin.md").split_whitespace().collect();
        let order = format!("They come in this order: {}.", titles.join(", "));
        assert!(manual.join(" ").contains(&order), "docs/admin.md lacks: {order}");
    }
}
