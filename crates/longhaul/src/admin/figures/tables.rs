//! The figures of flows, legs, next hops and tunnels, in the order of the columns of every view.

use super::figure::{Figure, TopColumn, Unit, Width};
use crate::admin::snapshot::{FlowState, HopState, LegState, SavedHours, TunnelState, VerifyState, VerifyStateName};
use crate::admin::verdict::Words;
use longhaul_config::options::Leg;
use longhaul_core::next_hop::Availability;
use longhaul_relay::COUNTERS;
use std::sync::LazyLock;

/// The figures of a flow, without those of its legs.
pub static FLOWS: LazyLock<Vec<Figure<FlowState>>> = LazyLock::new(|| {
    vec![
        Figure::number("number", Unit::Count, |flow: &FlowState| Some(flow.flow as f64))
            .top("FLOW", Width::Number(6), 0)
            .status("flow")
            .page("flow", "flow"),
        Figure::text("tunnel", |flow: &FlowState| Some(flow.tunnel.as_str().into()))
            .top("TUNNEL", Width::Text(6, 16), 5)
            .status("tunnel")
            .page("tunnel", "tunnel"),
        Figure::text("client", |flow: &FlowState| Some(flow.peer.as_str().into()))
            .top("CLIENT", Width::Text(12, 47), 3)
            .status("client")
            .page("peer", "client"),
        Figure::text("next hop", |flow: &FlowState| Some(flow.next_hop.as_deref()?.into())).top(
            "NEXT HOP",
            Width::Text(12, 47),
            11,
        ),
        Figure::text("address of the next hop", |flow: &FlowState| Some(flow.next_hop_address?.to_string().into()))
            .status("next hop")
            .page("next_hop_address", "next hop"),
        Figure::text("command of an FTP data connection", |flow: &FlowState| Some(flow.transfer.as_deref()?.into()))
            .top("FTP", Width::Optional(8, 24), 6)
            .short_status("ftp", 32),
        Figure::text("state", |flow: &FlowState| Some(flow.state.text().into()))
            .top("STATE", Width::Text(5, 13), 4)
            .status("state")
            .page("state", "state"),
        Figure::number("age", Unit::Age, |flow: &FlowState| Some(flow.age_seconds))
            .top("AGE", Width::Number(6), 9)
            .status("age")
            .page("age_seconds", "age"),
        Figure::number("rate up", Unit::Rate, |flow: &FlowState| flow.rates.up)
            .top("UP b/s", Width::Number(6), 2)
            .page("rates.up", "rate up"),
        Figure::number("rate down", Unit::Rate, |flow: &FlowState| flow.rates.down)
            .top("DN b/s", Width::Number(6), 1)
            .page("rates.down", "rate down"),
        Figure::number("total rate", Unit::Rate, |flow: &FlowState| flow.rates.both()).top(
            "RATE b/s",
            Width::Number(8),
            None,
        ),
        Figure::number("bytes up", Unit::Bytes, |flow: &FlowState| Some(flow.up_bytes as f64))
            .status("up")
            .page("up_bytes", "up"),
        Figure::number("bytes down", Unit::Bytes, |flow: &FlowState| Some(flow.down_bytes as f64))
            .status("down")
            .page("down_bytes", "down"),
        Figure::text("limit, of the direction that carries more", |flow: &FlowState| {
            Some(flow.finding.as_ref()?.kind.as_str().into())
        })
        .top("LIMITED BY", Width::Text(10, 18), 7)
        .status("limited by")
        .page("finding.kind", "limited by"),
        Figure::text("rate, and the most that it would be without relays", |flow: &FlowState| {
            Some(flow.gain.as_ref()?.says.as_str().into())
        })
        .short_status("gain", GAIN_CHARS)
        .page("gain.says", "gain"),
        Figure::text("cap", |flow: &FlowState| Some(flow.cap.as_deref()?.into()))
            .short_status("cap", CAP_CHARS)
            .page("cap", "cap"),
    ]
});

/// The figures of a leg. `LEG` in a name stands for `accept leg` or `dial leg`. The rank is that of the dial leg's column.
pub static LEGS: LazyLock<Vec<Figure<LegState>>> = LazyLock::new(|| {
    vec![
        Figure::text("own address of the LEG", |leg: &LegState| Some(leg.local?.to_string().into()))
            .details("own address", ""),
        Figure::number("RTT of the LEG", Unit::Milliseconds, |leg: &LegState| leg.rtt_ms)
            .details("RTT", "")
            .top("RTT", Width::Number(6), 8)
            .page("rtt_ms", "RTT"),
        Figure::number("congestion window of the LEG", Unit::Count, |leg: &LegState| Some(leg.cwnd_segments.into()))
            .details("congestion window", " segments")
            .top("CWND", Width::Number(6), 19)
            .page("cwnd_segments", "cwnd"),
        Figure::number("bytes retransmitted on the LEG", Unit::Bytes, |leg: &LegState| Some(leg.retrans_bytes as f64))
            .details("retransmitted", "")
            .top("RETR", Width::Number(7), 15)
            .page("retrans_bytes", "retrans"),
        Figure::number("delivery rate of the LEG", Unit::Rate, |leg: &LegState| {
            leg.delivery_bits_per_second.map(|rate| rate as f64)
        })
        .details("delivery rate", "bit/s")
        .page("delivery_bits_per_second", "delivery"),
        Figure::text("congestion control of the LEG", |leg: &LegState| Some(leg.congestion.as_deref()?.into()))
            .details("congestion control", "")
            .top("CC", Width::Text(4, 8), 23)
            .page("congestion", "control"),
        Figure::number("cap of the LEG", Unit::Rate, |leg: &LegState| leg.cap_bits_per_second.map(|cap| cap as f64))
            .details("cap", "bit/s"),
    ]
});

/// Returns the figures of one leg of a flow that have a column in `top`, such as `D.RTT`: `RTT of the dial leg`.
pub fn of_leg(leg: Leg) -> impl Iterator<Item = Figure<FlowState>> {
    let (letter, behind, of): (_, _, fn(&FlowState) -> Option<&LegState>) = match leg {
        Leg::Accept => ("A", 2, |flow| flow.accept.as_ref()),
        Leg::Dial => ("D", 0, |flow| flow.dial.as_ref()),
    };
    LEGS.iter().filter_map(move |figure| {
        let TopColumn { title, width, rank } = figure.top.as_ref()?;
        let name = figure.name.replace("LEG", &format!("{leg} leg"));
        let rank = rank.map(|rank| rank + behind);
        Some(figure.part(name, of).top(format!("{letter}.{title}"), *width, rank))
    })
}

/// The figures of a next hop.
pub static HOPS: LazyLock<Vec<Figure<HopState>>> = LazyLock::new(|| {
    vec![
        Figure::text("next hop", |hop: &HopState| Some(hop.next_hop.as_str().into()))
            .status("next hop")
            .page("next_hop", "next hop"),
        Figure::text("state", |hop: &HopState| Some(hop_state(hop).into())).status("state").page("state", "state"),
        Figure::number("time in the state", Unit::Age, |hop: &HopState| Some(hop.state_seconds))
            .status("state age")
            .page("state_seconds", "state age")
            .metric("longhaul_next_hop_state_seconds", "Time since the hop last changed its state."),
        Figure::number("flows", Unit::Count, |hop: &HopState| Some(hop.flows_now as f64))
            .status("flows")
            .page("flows_now", "flows")
            .metric("longhaul_next_hop_flows", "Flows to the hop, with those that are being dialled."),
        Figure::number("handshake", Unit::Milliseconds, |hop: &HopState| hop.rtt_ms)
            .status("handshake")
            .page("rtt_ms", "handshake")
            .metric("longhaul_next_hop_rtt_seconds", "Smoothed time of the hop's handshakes."),
        Figure::number("failed dials", Unit::Count, |hop: &HopState| Some(hop.failed_dials as f64))
            .status("failed dials")
            .page("failed_dials", "failed dials")
            .metric(
                "longhaul_next_hop_failed_dials",
                "Failed dials since the hop last answered, or passed its checks.",
            ),
        Figure::text("failure", |hop: &HopState| Some(hop.failure.as_deref()?.into()))
            .status("failing")
            .page("failure", "failing"),
    ]
});

/// The figures of a tunnel, and the counters that have a heading. A narrow screen drops the columns of counters first.
pub static TUNNELS: LazyLock<Vec<Figure<TunnelState>>> = LazyLock::new(|| {
    let mut figures = vec![
        Figure::text("tunnel", |tunnel: &TunnelState| Some(tunnel.name.as_str().into()))
            .top("TUNNEL", Width::Text(10, 30), 0)
            .status("tunnel"),
        Figure::text("state", |tunnel: &TunnelState| Some(tunnel_state(tunnel).into())).top(
            "STATE",
            Width::Text(9, 9),
            1,
        ),
        Figure::text("address", |tunnel: &TunnelState| {
            let TunnelState { listen, listening, .. } = tunnel;
            Some(if *listening { listen.as_str().into() } else { format!("{listen} closed").into() })
        })
        .status("listens on"),
        Figure::number("flows", Unit::Count, |tunnel: &TunnelState| Some(tunnel.flows_now as f64))
            .top("FLOWS", Width::Number(6), 2)
            .status("flows"),
        Figure::text("hours that the relays have saved", |tunnel: &TunnelState| Some(saved(tunnel)?.into()))
            .short_status("saved", GAIN_CHARS),
        Figure::text("cap", |tunnel: &TunnelState| Some(tunnel.cap.as_deref()?.into())).short_status("cap", CAP_CHARS),
    ];
    let shown = COUNTERS.iter().filter_map(|counter| Some((counter, counter.heading?)));
    figures.extend(shown.zip(7..).map(|((counter, heading), rank)| {
        Figure::number(counter.name, Unit::Count, |tunnel: &TunnelState| Some((counter.of)(&tunnel.counters) as f64))
            .top(heading.to_uppercase(), Width::Number(6), rank)
            .status(heading)
            .page(format!("counters.{}", counter.name), heading)
    }));
    figures.extend([
        Figure::number("rate up", Unit::Rate, |tunnel: &TunnelState| tunnel.rates.up).top(
            "UP b/s",
            Width::Number(6),
            4,
        ),
        Figure::number("rate down", Unit::Rate, |tunnel: &TunnelState| tunnel.rates.down).top(
            "DN b/s",
            Width::Number(6),
            3,
        ),
        Figure::text("result of the daemon's own probes", |tunnel: &TunnelState| Some(verified(tunnel).into())).top(
            "VERIFY",
            Width::Text(7, 7),
            5,
        ),
        Figure::text("next hops", |tunnel: &TunnelState| {
            let hop = |hop: &HopState| format!("{} {}", hop.next_hop, hop_state(hop));
            Some(tunnel.next_hops.iter().map(hop).collect::<Vec<_>>().join(", ").into())
        })
        .top("NEXT HOPS", Width::Text(12, u16::MAX), 6),
    ]);
    figures
});

/// Number of characters of the sentence about a cap: more than it has.
const CAP_CHARS: usize = 120;

/// Number of characters of a gain, and of the hours saved: more than they have.
const GAIN_CHARS: usize = 60;

/// Returns the hours that the relays have saved the flows of a tunnel: `0.52 h today, 3.10 h in all`. `None` if they have saved less than a
/// hundredth of one.
pub fn saved(tunnel: &TunnelState) -> Option<String> {
    let SavedHours { today, all } = tunnel.saved_hours;
    (all >= 0.005).then(|| format!("{today:.2} h today, {all:.2} h in all"))
}

/// Returns the word for the state of a tunnel.
pub fn tunnel_state(tunnel: &TunnelState) -> &'static str {
    if tunnel.listening || tunnel.health.is_broken() { Words::of(tunnel.health).tunnel } else { "closed" }
}

/// Returns the state of a next hop, with its health if the state does not tell that it is not well.
pub fn hop_state(hop: &HopState) -> String {
    match hop.state {
        Availability::Ejected | Availability::Down => hop.state.text().into(),
        Availability::Up | Availability::SlowStart => format!("{}{}", hop.state.text(), Words::of(hop.health).hop),
    }
}

/// Returns the result of the daemon's own probes of a tunnel, or a dash if it makes none.
fn verified(tunnel: &TunnelState) -> &'static str {
    match &tunnel.verify {
        None => "-",
        // As on a backup relay. No probe is due.
        Some(verify) if verify.elsewhere => "away",
        Some(verify) => Words::of(verify.health).verify,
    }
}

/// Returns the word for the state of a tunnel by the daemon's own probes.
pub fn verify_state(verify: &VerifyState) -> &'static str {
    match verify.state {
        VerifyStateName::Whole => "whole",
        VerifyStateName::Broken if verify.health.is_broken() => "BROKEN",
        VerifyStateName::Broken => "broken",
        VerifyStateName::Pending => "pending",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::manual_tests::full;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    /// The dashboard reads a figure by its path. The rates are its own.
    fn paths_lead_to_a_value<T: Serialize + DeserializeOwned>(figures: &[Figure<T>]) {
        let of: T = full();
        let json = serde_json::to_value(&of).unwrap();
        let shown = figures.iter().filter_map(|figure| Some((figure, figure.page.as_ref()?)));
        for (figure, page) in shown.filter(|(_, page)| !page.path.starts_with("rates.")) {
            let value =
                json.pointer(&format!("/{}", page.path.replace('.', "/"))).unwrap_or_else(|| panic!("{}", page.path));
            assert_eq!(value.as_f64(), figure.value(&of), "{}", page.path);
            let text = if figure.unit().is_none() { figure.cell(&of) } else { None };
            assert_eq!(value.as_str(), text.as_deref(), "{}", page.path);
            assert_eq!(value.is_string(), figure.unit().is_none(), "{}", page.path);
        }
    }

    #[test]
    fn hours_saved_are_shown_from_half_a_minute_on() {
        let with = |today, all| TunnelState { saved_hours: SavedHours { today, all }, ..TunnelState::default() };
        assert_eq!(saved(&with(0.0, 0.004)), None);
        assert_eq!(saved(&with(0.0, 41.5)).unwrap(), "0.00 h today, 41.50 h in all");
    }

    #[test]
    fn the_dashboard_finds_every_figure() {
        paths_lead_to_a_value(&FLOWS);
        paths_lead_to_a_value(&LEGS);
        paths_lead_to_a_value(&HOPS);
        paths_lead_to_a_value(&TUNNELS);
    }
}
