//! Windows Server: its settings.

use super::row::{EMPTY, with_scaling};
use crate::advice::setting::{Effect, Elsewhere, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::LossResponse;
use longhaul_units::Bytes;

pub(super) const WINDOWS: System = System {
    name: "windows",
    title: "Windows Server",
    interface: "InternetCustom",
    default_window: Bytes(16_776_960),
    default_source: "autotuning level normal, a scale of 8; Microsoft, windowsserverdocs",
    max_window: Bytes(16_776_960),
    response: LossResponse::Cubic,
    congestion: "CUBIC since 2019 (unverified)",
    settings: SETTINGS,
    note: "A change is permanent at once. A group policy overrides it: AutoTuningLevelEffective shows that. The registry value \
        TcpWindowSize is ignored. A VPN gateway of Azure clamps the MSS to 1350, its tunnel has an MTU of 1400, and fragments \
        that arrive out of order are dropped.",
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "heuristics",
        place: "whole system",
        unit: "enabled or disabled",
        default: "disabled",
        effect: Effect::Ceiling,
        want: |_| Some("disabled".into()),
        read: "netsh interface tcp show heuristics",
        set_permanent: "netsh interface tcp set heuristics {value}",
        undo: "netsh interface tcp set heuristics enabled",
        caveat: "Switch them off before the level is set: they may change it again. Newer releases do not have them.",
        source: "Microsoft, netsh interface tcp set heuristics",
        ..EMPTY
    },
    Setting {
        name: "autotuninglevel",
        place: "whole system",
        unit: LEVELS,
        default: "normal",
        effect: Effect::ReceiveWindow,
        want: |goal| with_scaling(goal, "normal"),
        fit: Fit::Or(&["experimental"]),
        read: "netsh interface tcp show global",
        set_permanent: "netsh interface tcp set global autotuninglevel={value}",
        undo: "netsh interface tcp set global autotuninglevel={old}",
        caveat: SCALES,
        source: DOCS,
        ..EMPTY
    },
    Setting {
        name: "AutoTuningLevelLocal",
        place: "TCP setting InternetCustom",
        unit: LEVELS,
        default: "Normal",
        effect: Effect::ReceiveWindow,
        want: |goal| with_scaling(goal, "Normal"),
        fit: Fit::Or(&["Normal", "Experimental"]),
        read: "Get-NetTCPSetting | Select SettingName,AutoTuningLevelLocal,CongestionProvider",
        set_permanent: "Set-NetTCPSetting -SettingName {interface} -AutoTuningLevelLocal {value}",
        undo: "Set-NetTCPSetting -SettingName {interface} -AutoTuningLevelLocal {old}",
        caveat: "Windows Server 2012 R2 and older change only custom templates so (unverified): there, use the autotuninglevel of \
            netsh. The level is the window scale, as there.",
        source: DOCS,
        ..EMPTY
    },
    Setting {
        name: "CongestionProvider",
        place: "TCP setting",
        elsewhere: Some(Elsewhere {
            place: "whole system",
            read: "netsh interface tcp show supplemental",
            set_now: "",
            set_permanent: "netsh interface tcp set supplemental template=internet congestionprovider={value}",
            caveat: "",
        }),
        unit: "word",
        default: "CUBIC",
        effect: Effect::CongestionControl,
        want: |goal| goal.has_loss.then(|| "CUBIC".into()),
        read: "Get-NetTCPSetting | Select SettingName,AutoTuningLevelLocal,CongestionProvider",
        set_permanent: "Set-NetTCPSetting -SettingName {interface} -CongestionProvider {value}",
        undo: "Set-NetTCPSetting -SettingName {interface} -CongestionProvider {old}",
        caveat: "That CUBIC is the default since 2019, and that each template takes another one, is unverified.",
        source: "Microsoft, Set-NetTCPSetting",
        ..EMPTY
    },
    Setting {
        name: "timestamps",
        place: "whole system",
        unit: "word",
        default: "disabled",
        effect: Effect::Recovery,
        read: "netsh interface tcp show global",
        caveat: "Off by default. Leave it.",
        source: DOCS,
        ..EMPTY
    },
];

const LEVELS: &str = "disabled, highlyrestricted, restricted, normal or experimental";
const SCALES: &str = "The level is the window scale: normal 8, restricted 4, highlyrestricted 2, experimental 14. Disabled has no \
    scale, so no window is larger than 65,535 bytes.";
const DOCS: &str = "Microsoft, windowsserverdocs: TCP receive window autotuning";
