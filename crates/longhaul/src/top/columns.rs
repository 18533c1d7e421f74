//! The columns of the two tables: those of the figures.

use super::column::Column;
use crate::admin::figures::{FLOWS, Figure, TUNNELS, of_leg};
use crate::admin::snapshot::{FlowState, TunnelState};
use longhaul_config::options::Leg;
use std::sync::LazyLock;

/// The columns of the table of flows, in their order on the screen: the dial leg comes first.
pub(super) static FLOW_COLUMNS: LazyLock<Vec<Column<FlowState>>> = LazyLock::new(|| {
    static LEGS: LazyLock<Vec<Figure<FlowState>>> =
        LazyLock::new(|| of_leg(Leg::Dial).chain(of_leg(Leg::Accept)).collect());
    Column::of(&FLOWS).chain(Column::of(&LEGS)).collect()
});

/// The columns of the table of tunnels, in their order on the screen.
pub(super) static TUNNEL_COLUMNS: LazyLock<Vec<Column<TunnelState>>> = LazyLock::new(|| Column::of(&TUNNELS).collect());

#[cfg(test)]
mod tests {
    use super::super::column::choose;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rank_is_taken_once() {
        let flows: Vec<u8> = FLOW_COLUMNS.iter().filter_map(|column| column.place.rank).collect();
        let tunnels: Vec<u8> = TUNNEL_COLUMNS.iter().filter_map(|column| column.place.rank).collect();
        for ranks in [flows, tunnels] {
            assert_eq!(BTreeSet::from_iter(&ranks).len(), ranks.len(), "{ranks:?}");
        }
    }

    #[test]
    fn the_command_of_an_ftp_data_connection_has_a_column_if_a_flow_has_one() {
        let mut rows = [FlowState::default(), FlowState::default()];
        let is_shown = |rows: &[FlowState]| {
            let needs: Vec<u16> = FLOW_COLUMNS.iter().map(|column| column.needs(rows.iter(), rows.iter())).collect();
            choose(&FLOW_COLUMNS, &needs, 79).iter().any(|(at, _)| FLOW_COLUMNS[*at].place.title.as_str() == "FTP")
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
            choose(&FLOW_COLUMNS, &needs, width).iter().map(|(at, _)| FLOW_COLUMNS[*at].place.title.as_str()).collect()
        };
        assert_eq!(titles(39), ["FLOW", "CLIENT", "UP b/s", "DN b/s"]);
        let at_80 = ["FLOW", "TUNNEL", "CLIENT", "STATE", "UP b/s", "DN b/s", "LIMITED BY", "D.RTT"];
        assert_eq!(titles(79), at_80);
        // Neither the one that only sorts, nor that of FTP without FTP.
        assert_eq!(titles(200).len(), FLOW_COLUMNS.len() - 2);
        let mut ranked: Vec<(u8, &str)> = FLOW_COLUMNS
            .iter()
            .filter_map(|column| Some((column.place.rank?, column.place.title.trim_end_matches(" b/s"))))
            .collect();
        ranked.sort_unstable();
        let titles: Vec<&str> = ranked.into_iter().map(|(_, title)| title).collect();
        let manual: Vec<&str> = include_str!("../../../../docs/admin.md").split_whitespace().collect();
        let order = format!("They come in this order: {}.", titles.join(", "));
        assert!(manual.join(" ").contains(&order), "docs/admin.md lacks: {order}");
    }
}
