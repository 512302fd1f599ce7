//! What other quotas would refuse: a slider over the quotas, the curve, and the same numbers in a
//! table, which the page's script reads. Without the script only the table is there.

use super::chart::curve::{Curve, Places};
use super::table::Column::{Number, Text};
use super::{number, table, text};
use crate::caution::no_quotas;
use crate::summary::{Least, RuleSummary, WhatIf};
use maud::{Markup, html};

/// The panel of a rule over a log of `log_s` seconds. A rule without other quotas has only its
/// suggestion.
pub fn panel(id: &str, rule: &RuleSummary, log_s: f64) -> Markup {
    // Such a rule is meant to refuse.
    if rule.rpu == 0 {
        return html! {};
    }
    let curve = Curve::of(rule);
    let doubt = no_quotas(rule, log_s);
    html! {
        div .split.what-if data-what-if=[curve.is_some().then_some("")] {
            @if let (Some(curve), Some((chosen, point))) = (curve, nearest(rule, rule.rpu)) {
                div .panel {
                    h3 { "What if the quota were different?" }
                    p .sub {
                        "Refused shares by quota, in requests " (number::unit(rule.unit_s))
                        @if let Some(burst) = rule.burst.filter(|burst| *burst != rule.rpu) {
                            ". The burst stays " (number::count(burst))
                        }
                    }
                    @if let Some(doubt) = &doubt { p { strong { (text::prose(doubt)) } } }
                    (slider(id, rule, chosen, point))
                    p .key {
                        span {
                            svg width="22" height="12" aria-hidden="true" {
                                path .requests-line d="M0 6H22" {}
                            }
                            "Refused requests"
                        }
                        span {
                            svg width="22" height="12" aria-hidden="true" {
                                path .actors-line d="M0 6H22" {}
                            }
                            "Refused actors"
                        }
                    }
                    (curve.draw(&format!("{id}-curve"), point))
                    (table::behind("Other quotas as a table", quotas(rule, &curve)))
                }
            }
            (advice(rule, doubt.as_deref()))
        }
    }
}

/// The slider and the sentence about the chosen quota. The script shows both.
fn slider(id: &str, rule: &RuleSummary, chosen: usize, point: &WhatIf) -> Markup {
    let last = rule.what_if.len().saturating_sub(1);
    html! {
        div .slider hidden {
            label .hidden for={ (id) "-slider" } { "Quota of " (text::isolated(&rule.name)) }
            input type="range" id={ (id) "-slider" } min="0" max=(last) step="1" value=(chosen) autocomplete="off";
        }
        p .would {
            span .quota { span data-quota { (number::quota(point.rpu, rule.unit_s)) } }
            ": this rule alone would refuse "
            strong {
                span data-refused { (number::count(point.refused)) } " "
                span data-refused-noun { (noun(point.refused, "request")) }
            }
            " (" span data-refused-share { (number::percent(point.refused, rule.checked)) } "), "
            strong {
                span data-actors { (number::count(point.refused_actors)) } " "
                span data-actors-noun { (noun(point.refused_actors, "actor")) }
            }
            " (" span data-actors-share { (number::percent(point.refused_actors, rule.actors)) } ")"
        }
    }
}

fn noun(count: u64, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}

/// The table. The script takes the texts of the cells and the places of the markers from the rows.
fn quotas(rule: &RuleSummary, curve: &Curve) -> Markup {
    html! {
        table {
            caption { "What other quotas of this rule alone would refuse" }
            (table::head([
                Text("Quota"), Number("Refused requests"), Number("Share"), Number("Refused actors"), Number("Share"),
            ]))
            tbody {
                @for point in &rule.what_if {
                    @let Places { x, requests_y, actors_y } = curve.places(point);
                    tr data-x=(x) data-requests-y=(requests_y) data-actors-y=(actors_y) {
                        th scope="row" { (number::quota(point.rpu, rule.unit_s)) }
                        td .n { (number::count(point.refused)) }
                        td .n { (number::percent(point.refused, rule.checked)) }
                        td .n { (number::count(point.refused_actors)) }
                        td .n { (number::percent(point.refused_actors, rule.actors)) }
                    }
                }
            }
        }
    }
}

/// The quotas worth a look. If the slider has such a quota, the script makes the entry a button.
fn advice(rule: &RuleSummary, doubt: Option<&str>) -> Markup {
    let least = if doubt.is_some() { Least::default() } else { rule.least };
    let entries = [
        ("Quota now", Some(rule.rpu)),
        ("Lowest that refuses nothing", least.none),
        ("Lowest that refuses up to 0.1\u{a0}%", least.per_mille),
        ("Lowest that refuses up to 1\u{a0}%", least.percent),
    ];
    html! {
        div .panel.advice {
            h3 { "Quotas to consider" }
            p .sub { "For this rule alone. Other rules refuse requests, too" }
            @if let Some(doubt) = doubt { p { strong { (text::prose(doubt)) } } }
            ul .marks {
                @for (label, rpu) in entries {
                    @if let Some(rpu) = rpu {
                        li data-to=[exact(rule, rpu)] {
                            span { (label) }
                            span .value { (number::quota(rpu, rule.unit_s)) }
                        }
                    }
                }
            }
            @if let Some(suggestion) = &rule.suggestion {
                div .suggestion {
                    h4 { "Suggestion" }
                    ul .marks {
                        li data-to=[exact(rule, suggestion.rpu)] {
                            span { "From the log" }
                            span .value { (number::quota(suggestion.rpu, rule.unit_s)) }
                        }
                        @if let Some(burst) = suggestion.burst {
                            li {
                                span { "Burst" }
                                span .value { (number::count(burst)) }
                            }
                        }
                    }
                    @for warning in suggestion.compared.iter().chain(&suggestion.caveat) {
                        p { strong { (text::prose(warning)) } }
                    }
                    p { (text::prose(&suggestion.why)) }
                }
            }
        }
    }
}

/// The place of a quota on the slider.
fn exact(rule: &RuleSummary, rpu: u64) -> Option<usize> {
    rule.what_if.iter().position(|point| point.rpu == rpu)
}

/// The quota on the slider that is nearest to `rpu`; of two, the lower.
fn nearest(rule: &RuleSummary, rpu: u64) -> Option<(usize, &WhatIf)> {
    rule.what_if.iter().enumerate().min_by_key(|(_, point)| point.rpu.abs_diff(rpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slider_starts_at_the_nearest_quota() {
        let what_if = [10, 20, 40].map(|rpu| WhatIf { rpu, ..WhatIf::default() }).to_vec();
        let rule = RuleSummary { what_if, ..RuleSummary::default() };
        let index = |rpu| nearest(&rule, rpu).map(|(index, _)| index);
        assert_eq!([index(0), index(15), index(16), index(999)], [Some(0), Some(0), Some(1), Some(2)]);
        assert_eq!([exact(&rule, 40), exact(&rule, 41)], [Some(2), None]);
        assert!(nearest(&RuleSummary::default(), 1).is_none());
    }
}
