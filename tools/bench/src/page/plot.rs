//! One plot as SVG: lines over equally spaced places, whiskers from the least to the greatest run,
//! and each line's name at its end.
//!
//! Colours and fonts come from the page's style sheet, so that a plot is readable in light and in
//! dark. Places are equally spaced whatever their values, since skews of 0.9 and 0.99 would
//! otherwise fall together.

use std::fmt::Write;

/// Colours of the style sheet; more lines than that begin again, dashed.
pub const COLOURS: usize = 11;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 58.0;
/// Around a name, and for each of its characters.
const NAME_GAP: f64 = 28.0;
const CHARACTER_WIDTH: f64 = 7.2;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
const NAME_HEIGHT: f64 = 15.0;
/// Longer names are cut; the table below the plot has them whole.
const NAME_CHARACTERS: usize = 20;

pub struct Plot {
    pub x_label: String,
    pub y_label: String,
    /// What the places are called.
    pub places: Vec<String>,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub name: String,
    /// Which colour, the same in all plots of a page.
    pub colour: usize,
    /// One for each place; `None` where nothing was measured.
    pub points: Vec<Option<Point>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

impl Plot {
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().flatten());
        let greatest = points().map(|point| point.max).fold(0.0, f64::max);
        let names = self.lines.iter().map(|line| cut(&line.name).chars().count());
        let name_width = CHARACTER_WIDTH * names.max().unwrap_or(0) as f64;
        let right = WIDTH - NAME_GAP - name_width;
        let scale = Scale::up_to(greatest, self.places.len(), right);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over {}\">\n",
            escape(&self.y_label),
            escape(&self.x_label)
        );
        self.axes(&scale, &mut svg);
        for line in &self.lines {
            line.draw(&scale, &self.places, &mut svg);
        }
        self.names(&scale, &mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, scale: &Scale, svg: &mut String) {
        let (left, right) = (LEFT, scale.right);
        for tick in scale.ticks() {
            let y = scale.y(tick);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                y + 4.0,
                short(tick, scale.step)
            );
        }
        let base = HEIGHT - BOTTOM;
        for (at, place) in self.places.iter().enumerate() {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                scale.x(at),
                base + 19.0,
                escape(place)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (left + right) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x_label)
        );
    }

    /// At the lines' ends, moved apart where they would overlap.
    fn names(&self, scale: &Scale, svg: &mut String) {
        let mut names: Vec<(f64, f64, &Line)> = self
            .lines
            .iter()
            .filter_map(|line| {
                let at = line.points.iter().rposition(Option::is_some)?;
                let end = scale.y(line.points[at]?.value);
                Some((end, scale.x(at), line))
            })
            .collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends: Vec<f64> = names.iter().map(|name| name.0).collect();
        for (y, (end, x, line)) in apart(&ends).into_iter().zip(names) {
            let left = scale.right + 16.0;
            let _ = writeln!(
                svg,
                "<path class=\"leader\" d=\"M{:.1} {end:.1}L{:.1} {y:.1}\"/>\
                 <text class=\"name c{}\" x=\"{left:.1}\" y=\"{:.1}\">{}</text>",
                x + 6.0,
                left - 4.0,
                line.colour % COLOURS,
                y + 4.0,
                escape(&cut(&line.name))
            );
        }
    }
}

impl Line {
    fn draw(&self, scale: &Scale, places: &[String], svg: &mut String) {
        let class = format!("c{}", self.colour % COLOURS);
        let dashes = if self.colour >= COLOURS { " stroke-dasharray=\"5 4\"" } else { "" };
        let mut path = String::new();
        let mut pen = 'M';
        for (at, point) in self.points.iter().enumerate() {
            match point {
                Some(point) => {
                    let _ = write!(path, "{pen}{:.1} {:.1}", scale.x(at), scale.y(point.value));
                    pen = 'L';
                }
                None => pen = 'M',
            }
        }
        let _ = writeln!(svg, "<path class=\"line {class}\" d=\"{path}\"{dashes}/>");
        for (at, point) in self.points.iter().enumerate() {
            let Some(point) = point else { continue };
            let (x, y) = (scale.x(at), scale.y(point.value));
            let _ = writeln!(
                svg,
                "<path class=\"whisker {class}\" d=\"M{x:.1} {:.1}V{:.1}\"/>\
                 <circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\">\
                 <title>{}, {}: {}</title></circle>",
                scale.y(point.min),
                scale.y(point.max),
                escape(&self.name),
                escape(&places[at]),
                crate::table::thousands(point.value)
            );
        }
    }
}

/// Where values and places lie.
struct Scale {
    top: f64,
    step: f64,
    places: usize,
    /// Where the names begin.
    right: f64,
}

impl Scale {
    /// From 0 to a round number not below `greatest`, in about five steps.
    fn up_to(greatest: f64, places: usize, right: f64) -> Scale {
        let rough = (greatest / 5.0).max(f64::MIN_POSITIVE);
        let magnitude = 10f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = factors.map(|f| f * magnitude).into_iter().find(|&s| s >= rough * 0.999);
        let step = if greatest > 0.0 { step.unwrap_or(rough) } else { 1.0 };
        Scale { top: (greatest / step - 1e-9).ceil().max(1.0) * step, step, places, right }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (top, step) = (self.top, self.step);
        (0..).map(move |n| f64::from(n) * step).take_while(move |&tick| tick <= top * 1.001)
    }

    fn y(&self, value: f64) -> f64 {
        let height = HEIGHT - TOP - BOTTOM;
        TOP + height * (1.0 - value / self.top)
    }

    fn x(&self, place: usize) -> f64 {
        let width = self.right - LEFT - 40.0;
        match self.places {
            0 | 1 => LEFT + 20.0 + width / 2.0,
            places => LEFT + 20.0 + width * place as f64 / (places - 1) as f64,
        }
    }
}

/// Heights near the given ones (which ascend), at least a name's height from each other.
fn apart(ends: &[f64]) -> Vec<f64> {
    let mut heights = ends.to_vec();
    for at in 1..heights.len() {
        heights[at] = heights[at].max(heights[at - 1] + NAME_HEIGHT);
    }
    // Back up again where they ran off the bottom.
    let mut limit = HEIGHT - BOTTOM + NAME_HEIGHT / 2.0;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - NAME_HEIGHT;
    }
    heights
}

/// A tick's number, with as few digits as its step allows.
fn short(value: f64, step: f64) -> String {
    match step {
        _ if value == 0.0 => "0".to_owned(),
        s if s >= 1e6 => format!("{}M", value / 1e6),
        s if s >= 1e3 => format!("{}k", value / 1e3),
        s if s >= 1.0 => format!("{value}"),
        s => format!("{value:.*}", (-s.log10()).ceil() as usize),
    }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARACTERS) {
        None => name.to_owned(),
        Some((at, _)) => format!("{}…", &name[..at]),
    }
}

/// For HTML's text and attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_in_a_round_number_just_above() {
        for (greatest, top) in [(0.0, 1.0), (97.0, 100.0), (412_000.0, 500_000.0), (1.0, 1.0)] {
            let scale = Scale::up_to(greatest, 3, WIDTH);
            assert!((scale.top - top).abs() < 1e-9, "{greatest}: {}", scale.top);
            assert!((2..=7).contains(&scale.ticks().count()), "{greatest}");
        }
    }

    #[test]
    fn names_do_not_overlap_and_stay_inside() {
        let ends = [100.0, 101.0, 102.0, 290.0, 292.0, 293.0];
        let heights = apart(&ends);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT - 1e-9));
        assert!(heights.iter().all(|&height| height < HEIGHT));
        assert_eq!(heights[0], 100.0);
    }

    #[test]
    fn a_plot_has_a_point_for_each_value_and_a_gap_for_none() {
        let point = |value| Some(Point { value, min: value, max: value });
        let line = |name: &str, points: &[Option<Point>]| Line {
            name: name.to_owned(),
            colour: 0,
            points: points.to_vec(),
        };
        let plot = Plot {
            x_label: "theta".into(),
            y_label: "share <%>".into(),
            places: ["0", "1", "2"].map(str::to_owned).to_vec(),
            lines: vec![line("a", &[point(1.0), None, point(3.0)]), line("b", &[None; 3])],
        };
        let svg = plot.svg();
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches(">a</text>").count(), 1);
        assert!(!svg.contains(">b</text>"));
        assert!(svg.contains("share &lt;%&gt;"));
        assert_eq!(svg.matches('M').count(), 2 + 2 + 1, "two moves of the line: {svg}");
    }
}
