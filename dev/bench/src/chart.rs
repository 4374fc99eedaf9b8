//! A chart of one row as SVG: for each of its lines two bars, ours and the peer's, with the spread drawn over them. Text in, text out.
//!
//! The scale is logarithmic, since a ratio of sixty and one of two stand side by side.

use crate::figures::{Line, Spread};
use crate::table::number;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 110.0;
const BAR: f64 = 16.0;
const GROUP: f64 = 46.0;
const TOP: f64 = 56.0;
const OURS: &str = "#2a78b8";
const PEER: &str = "#c98b3b";

/// A chart of these lines, or nothing where none has a value.
pub(crate) fn render(title: &str, lines: &[&Line]) -> Option<String> {
    let values: Vec<f64> = lines
        .iter()
        .flat_map(|line| line.ours.iter().chain(&line.peer))
        .copied()
        .filter(|value| *value > 0.0)
        .collect();
    let Spread { least, most, .. } = Spread::of(&values)?;
    let scale = Scale { from: least.log10().floor() - 1.0, to: most.log10().ceil() };
    let height = TOP + GROUP * lines.len() as f64 + 16.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"16\">{}</text>\n\
         <text x=\"16\" y=\"42\" fill=\"#666\">logarithmic; bar: median, line: least to most</text>\n",
        escaped(title)
    );
    for decade in (scale.from as i32)..=(scale.to as i32) {
        let x = scale.x(10f64.powi(decade));
        svg.push_str(&format!(
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#999\" text-anchor=\"middle\" font-size=\"10\">{}</text>\n",
            height - 16.0,
            height - 4.0,
            number(10f64.powi(decade))
        ));
    }
    for (index, line) in lines.iter().enumerate() {
        let y = TOP + GROUP * index as f64;
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            y + BAR + 4.0,
            escaped(&format!("{}, {}", line.work, line.unit))
        ));
        bar(&mut svg, &scale, y, OURS, &line.ours_name, &line.ours);
        bar(&mut svg, &scale, y + BAR + 2.0, PEER, &line.peer_name, &line.peer);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

struct Scale {
    /// Powers of ten.
    from: f64,
    to: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - self.from) / (self.to - self.from);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }
}

fn bar(svg: &mut String, scale: &Scale, y: f64, colour: &str, name: &str, values: &[f64]) {
    let Some(spread) = Spread::of(values).filter(|spread| spread.least > 0.0) else { return };
    let (x, middle) = (scale.x(spread.median), y + BAR / 2.0);
    svg.push_str(&format!(
        "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\n\
         <line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"black\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        x - LEFT,
        scale.x(spread.least),
        scale.x(spread.most),
        scale.x(spread.most) + 4.0,
        y + BAR - 4.0,
        escaped(&format!("{} {name}", number(spread.median)))
    ));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(work: &str, ours: &[f64], peer: &[f64]) -> Line {
        Line::plain(2, work, "commits/s", ("atonce", ours.to_vec()), ("Kafka", peer.to_vec()))
    }

    #[test]
    fn ten_times_as_much_is_a_decade_further_to_the_right() {
        let scale = Scale { from: 0.0, to: 2.0 };
        assert_eq!(scale.x(1.0), LEFT);
        assert_eq!(scale.x(100.0), WIDTH - RIGHT);
        assert_eq!(scale.x(10.0), (LEFT + WIDTH - RIGHT) / 2.0);
    }

    #[test]
    fn a_chart_has_a_bar_for_each_series_and_escapes_its_words() {
        let (one, two) = (line("1 & <2>", &[100.0, 200.0], &[3.0]), line("alone", &[5.0], &[]));
        let svg = render("Row", &[&one, &two]).unwrap();
        assert_eq!(svg.matches("<rect x=").count(), 3);
        assert!(svg.contains("1 &amp; &lt;2&gt;, commits/s") && !svg.contains("<2>"), "{svg}");
        assert!(svg.contains(">150 atonce</text>") && svg.contains(">3 Kafka</text>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn there_is_no_chart_of_nothing() {
        assert_eq!(render("Row", &[&line("none", &[], &[])]), None);
        assert_eq!(render("Row", &[]), None);
    }
}
