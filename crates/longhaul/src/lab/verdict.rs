//! Whether what a run expects came out.

use super::result::RunReport;
use super::scenario::{Expect, Run};
use std::ops::RangeInclusive;

/// What did not come out as expected, a clause each; `earlier` are the runs before.
pub(super) fn faults(run: &Run, report: &RunReport, earlier: &[RunReport]) -> Vec<String> {
    let Expect { within, speed, gain, times, cpu, figures } = &run.expect;
    let measured = report.measured.unwrap_or_default();
    let mut faults = Vec::new();
    let may_stand_still = speed.as_ref().is_some_and(|speed| speed.contains(&0.0));
    if report.bytes == 0 && !may_stand_still {
        faults.push("nothing arrived, and expect.MBps does not allow that".into());
    }
    if report.cut > 0 && !may_stand_still {
        faults.push(format!("{} connections did not end long after their time and were cut off", report.cut));
    }
    if let (Some(_), None) = (within, report.computed) {
        faults.push("nothing is computed for this carrier, so `within` cannot be judged".into());
    }
    if let (Some(within), Some(computed)) = (within, report.computed) {
        let off = measured / computed - 1.0;
        if off.abs() > *within {
            faults.push(format!("{measured:.2} MB/s is {:+.0} % of the computed {computed:.2}", off * 100.0));
        }
    }
    outside(&mut faults, "MB/s", Some(measured), speed.as_ref());
    // What others are compared with is no gain itself.
    if report.carrier != "direct" {
        outside(&mut faults, "times direct", report.gain_over_direct, gain.as_ref());
    }
    if let Some((of, by)) = times {
        let same = earlier.iter().filter(|other| other.id == *of && other.measured.is_some());
        let other = same.clone().find(|other| other.carrier == report.carrier).or_else(|| same.clone().next());
        let ratio = other.and_then(|other| other.measured).filter(|speed| *speed > 0.0).map(|speed| measured / speed);
        outside(&mut faults, &format!("times {of}"), ratio, Some(by));
    }
    if let Some(most) = cpu {
        let share = report.series.last().filter(|point| point.t_s > 0.0).map(|point| report.relay_cpu_s / point.t_s);
        outside(&mut faults, "of a CPU", share, Some(&(0.0..=*most)));
    }
    for (name, range) in figures {
        outside(&mut faults, name, report.figures.get(name).copied(), Some(range));
    }
    faults
}

/// Notes when `value` is not in `range`, or not there at all.
fn outside(faults: &mut Vec<String>, what: &str, value: Option<f64>, range: Option<&RangeInclusive<f64>>) {
    let Some(range) = range else { return };
    let wanted = match (range.start(), range.end()) {
        (least, most) if most.is_infinite() => format!("at least {least:.2}"),
        (least, most) if *least == 0.0 => format!("at most {most:.2}"),
        (least, most) => format!("{least:.2} to {most:.2}"),
    };
    match value {
        Some(value) if range.contains(&value) => {}
        Some(value) => faults.push(format!("{value:.2} {what}, expected {wanted}")),
        None => faults.push(format!("{what}: there is nothing to compare with, expected {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_range_is_a_fault_and_so_is_none() {
        let said = |value, range| {
            let mut faults = Vec::new();
            outside(&mut faults, "MB/s", value, Some(&range));
            faults.join("")
        };
        assert_eq!(said(Some(3.0), 1.0..=4.0), "");
        assert_eq!(said(Some(5.0), 1.0..=4.0), "5.00 MB/s, expected 1.00 to 4.00");
        assert_eq!(said(Some(5.0), 6.0..=f64::INFINITY), "5.00 MB/s, expected at least 6.00");
        assert_eq!(said(None, 0.0..=2.0), "MB/s: there is nothing to compare with, expected at most 2.00");
    }
}
