//! Tests the errors of options that the kernel refuses: call, errno and remedy.

use longhaul_config::options::{Leg, Mismatch, Setting, Value, missing, row};
use longhaul_sys::limits::sysctl;
use longhaul_sys::sockopt::available_congestion_controls;
use longhaul_sys::{Result, SysError};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use socket2::{Domain, Protocol, Socket, Type};
use std::os::fd::AsFd;

fn apply(key: &str, value: Value) -> Result<Option<Mismatch>> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    let row = row(Leg::Dial, key).expect("a key of the table");
    Setting { row, value }.apply(socket.as_fd())
}

fn refused(key: &str, value: Value) -> SysError {
    apply(key, value).expect_err("the kernel must refuse this")
}

fn name(text: &str) -> Value {
    Value::Name(text.into())
}

/// Runs `test` without privileges: on its own thread without effective capabilities.
fn without_capabilities(test: impl FnOnce() + Send + 'static) {
    let ordinary = move || {
        let mut sets = capabilities(None).expect("capget");
        sets.effective = CapabilitySet::empty();
        set_capabilities(None, sets).expect("capset");
        test();
    };
    std::thread::spawn(ordinary).join().expect("the test on its thread");
}

#[test]
fn the_error_about_an_unknown_congestion_control_lists_the_available_ones() {
    let err = refused("congestion", name("nosuch"));
    assert_eq!((err.call.as_str(), err.errno), ("setsockopt(TCP_CONGESTION, \"nosuch\")", libc::ENOENT));
    let offered = available_congestion_controls().expect("the kernel's list");
    assert_eq!(err.hint, format!("the kernel offers {offered}; try modprobe tcp_nosuch"));
}

#[test]
fn congestion_auto_is_not_set_in_the_kernel() {
    assert_eq!(apply("congestion", name("auto")), Ok(None));
}

#[test]
fn the_error_about_an_unknown_interface_says_how_to_list_them() {
    let err = refused("bind-device", name("nosuch0"));
    assert_eq!((err.errno, err.hint.as_ref()), (libc::ENODEV, "there is no such interface: `ip link` lists them"));
}

#[test]
fn the_error_about_a_value_out_of_range_has_the_range() {
    let err = refused("mss", Value::Number(20));
    assert_eq!(err.to_string(), "setsockopt(TCP_MAXSEG, 20): EINVAL: Invalid argument (mss takes 88 to 32767)");
    let err = refused("mss", Value::Number(u64::MAX));
    assert_eq!((err.errno, err.hint.as_ref()), (libc::EINVAL, "mss takes 88 to 32767"));
    assert_eq!(refused("dscp", Value::Number(64)).hint, "dscp takes 0 to 63");
}

#[test]
fn the_error_about_a_mark_names_the_missing_capability() {
    without_capabilities(|| {
        let err = refused("mark", Value::Number(16));
        assert_eq!((err.call.as_str(), err.errno), ("setsockopt(SO_MARK, 16)", libc::EPERM));
        assert!(err.hint.contains("CAP_NET_ADMIN"), "{}", err.hint);
    });
}

#[test]
fn without_capability_a_buffer_beyond_the_limit_is_clamped_and_reported() {
    without_capabilities(|| {
        let asked = Value::Number(1 << 29);
        let mismatch = apply("sndbuf", asked.clone()).expect("a clamp is no error").expect("it must be clamped");
        assert_eq!((mismatch.key, &mismatch.asked), ("sndbuf", &asked));
        // `got` is half the value of getsockopt(2), because the kernel doubles the value that is set (socket(7) SO_SNDBUF).
        let max: u64 = sysctl("net/core/wmem_max").expect("a limit").parse().expect("a number");
        assert_eq!(mismatch.got, Value::Number(max));
        assert_eq!(
            mismatch.remedy,
            "raise net.core.wmem_max, or grant CAP_NET_ADMIN by the drop-in /usr/share/longhaul/net-admin.conf"
        );
    });
}

/// The refusal comes from a filter: which controls are restricted is the whole machine's state, and any program with privileges
/// that makes one its network namespace's default lifts the restriction for all (net/ipv4/tcp_cong.c).
#[test]
fn the_error_about_a_forbidden_congestion_control_names_the_sysctl() {
    let offered = available_congestion_controls().expect("the kernel's list");
    let last = offered.split(' ').next_back().expect("one control at least").to_string();
    std::thread::spawn(move || {
        forbid_setsockopt(libc::IPPROTO_TCP, libc::TCP_CONGESTION);
        let err = refused("congestion", name(&last));
        assert_eq!(err.errno, libc::EPERM);
        assert!(err.hint.contains("sysctl -w net.ipv4.tcp_allowed_congestion_control='"), "{}", err.hint);
        assert!(err.hint.ends_with(&format!(" {last}'")), "{}", err.hint);
    })
    .join()
    .expect("the test on its thread");
}

/// Each option of the kernel that is hidden by seccomp(2) is missing, and no other.
#[test]
fn an_option_that_the_kernel_does_not_know_is_missing() {
    let lacks = |number, option: &str| {
        let option = format!("this kernel lacks {option} (Linux ");
        let before = missing();
        std::thread::spawn(move || {
            forbid(libc::SYS_getsockopt, libc::IPPROTO_TCP, number, libc::ENOPROTOOPT);
            let new: Vec<_> = missing().into_iter().filter(|line| !before.contains(line)).collect();
            let was_missing = before.iter().any(|line| line.starts_with(&option));
            assert!(
                was_missing && new.is_empty() || new.len() == 1 && new[0].starts_with(&option),
                "{option}: {new:?}"
            );
        })
        .join()
        .expect("the test on its thread");
    };
    lacks(libc::TCP_NOTSENT_LOWAT, "option `notsent-lowat`");
    // TCP_RTO_MAX_MS of linux/tcp.h.
    lacks(44, "option `rto-max`");
}

/// From now on setsockopt(2) of this option fails with EPERM on this thread.
fn forbid_setsockopt(level: i32, option: i32) {
    forbid(libc::SYS_setsockopt, level, option, libc::EPERM);
}

/// From now on `call` with this option fails with `errno` on this thread.
fn forbid(call: libc::c_long, level: i32, option: i32, errno: i32) {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    let is = |argument, value: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64).expect("a condition")
    };
    let rule = SeccompRule::new(vec![is(1, level), is(2, option)]).expect("a rule");
    let rules = [(call, vec![rule])].into_iter().collect();
    let machine = std::env::consts::ARCH.try_into().expect("a processor that seccompiler knows");
    let refuse = SeccompAction::Errno(errno as u32);
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).and_then(TryInto::try_into).expect("a filter");
    seccompiler::apply_filter(&filter).expect("seccomp(2)");
}
