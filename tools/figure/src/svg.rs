//! SVG elements and axis scales. Styles are classes of `figure.css`, so that one drawing serves light and dark themes,
//! in a page and as a standalone file: see `docs/decisions/0050-analysis-and-report-of-the-laboratory.md`.

use super::text::without_controls;
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("figure.css");

/// Text anchor: which part of a text is at its position.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// Start.
    Start,
    /// Middle.
    Middle,
    /// End.
    End,
}

/// A drawing under construction.
pub struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

/// A rectangle in user units.
#[derive(Clone, Copy)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Bottom edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

impl Drawing {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Drawing {
        Drawing { width, height, body: String::new() }
    }

    /// Height in user units.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// Makes the drawing at least so wide.
    pub fn widen(&mut self, width: f64) {
        self.width = self.width.max(width);
    }

    /// Text whose baseline is at `y`; empty text is not drawn.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        if !text.is_empty() {
            self.push(html! { text x=(unit(x)) y=(unit(y)) text-anchor=(anchor) class=(class) { (text) } });
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ([x1, y1], [x2, y2]) = ([from.0, from.1].map(unit), [to.0, to.1].map(unit));
        self.push(html! { line x1=(x1) y1=(y1) x2=(x2) y2=(y2) class=(class) {} });
    }

    /// A rectangle; `tip` is its tooltip, empty for none.
    pub fn rect(&mut self, area: Area, class: &str, tip: &str) {
        self.shaded(area, class, 1.0, tip);
    }

    /// A rectangle with fill opacity `degree` from 0 to 1.
    pub fn shaded(&mut self, area: Area, class: &str, degree: f64, tip: &str) {
        let Area { x, y, width, height } = area;
        let degree = (degree < 1.0).then(|| format!("{degree:.3}"));
        self.push(html! {
            rect x=(format!("{x:.2}")) y=(unit(y)) width=(format!("{width:.2}")) height=(unit(height)) class=(class)
                fill-opacity=[degree] { (title(tip)) }
        });
    }

    /// A polyline through these points.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(html! { polyline points=(points.join(" ")) class=(class) {} });
    }

    /// The mark of a thread: threads differ in shape and in colour.
    pub fn mark(&mut self, thread: &str, x: f64, y: f64, tip: &str) {
        let class = format!("mark {thread}");
        let title = title(tip);
        self.push(match thread {
            "rx" => html! { circle cx=(unit(x)) cy=(unit(y)) r="3.5" class=(class) { (title) } },
            "guest" => html! {
                rect x=(unit(x - 3.2)) y=(unit(y - 3.2)) width="6.4" height="6.4" class=(class) { (title) }
            },
            _ => html! { path d=(format!("M{x:.1} {:.1}l4 7h-8z", y - 4.2)) class=(class) { (title) } },
        });
    }

    /// A ring around a mark.
    pub fn ring(&mut self, x: f64, y: f64) {
        self.push(html! { circle cx=(unit(x)) cy=(unit(y)) r="6" class="ring" {} });
    }

    /// The drawing as an inline `<svg>` element with an accessible label.
    pub fn finish(self, label: &str) -> String {
        let Drawing { width, height, body } = self;
        let (width, view) = (format!("{width:.0}"), format!("0 0 {width:.0} {height:.0}"));
        let drawing = html! {
            svg viewBox=(view) width=(width) role="img" aria-label=(label) { "\n" (PreEscaped(body)) }
        };
        without_controls(&drawing.into_string())
    }

    fn push(&mut self, element: Markup) {
        self.body.push_str(&element.into_string());
        self.body.push('\n');
    }
}

/// A coordinate.
fn unit(value: f64) -> String {
    format!("{value:.1}")
}

fn title(tip: &str) -> Markup {
    html! { @if !tip.is_empty() { title { (tip) } } }
}

/// Estimated width of a text in a font of this size.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub struct Key {
    /// CSS class.
    pub class: &'static str,
    /// Fill opacity, from 0 to 1.
    pub opacity: f64,
    /// Whether the sample is an upright line instead of an area.
    pub line: bool,
    /// Name; empty if the next entry belongs to the same name.
    pub name: String,
}

impl Key {
    /// An opaque entry.
    pub fn new(class: &'static str, name: &str) -> Key {
        Key { class, opacity: 1.0, line: false, name: name.to_owned() }
    }

    /// An entry for lines.
    pub fn line(class: &'static str, name: &str) -> Key {
        Key { line: true, ..Key::new(class, name) }
    }
}

/// Draws a legend whose top left corner is at `left` and `top`, and widens the drawing if necessary.
pub fn keys(drawing: &mut Drawing, left: f64, top: f64, keys: &[Key]) {
    let mut x = left;
    for key in keys {
        if key.line {
            drawing.line((x + 5.5, top - 1.0), (x + 5.5, top + 12.0), key.class);
        } else {
            drawing.shaded(Area { x, y: top, width: 11.0, height: 11.0 }, key.class, key.opacity, "");
        }
        drawing.text(x + 16.0, top + 10.0, Anchor::Start, "small", &key.name);
        x += if key.name.is_empty() { 13.0 } else { 32.0 + width(&key.name, 10.5) };
    }
    drawing.widen(x);
}

/// A drawing as a standalone SVG file, with namespace, styles and background.
pub fn standalone(drawing: &str) -> String {
    let drawing = drawing.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"alone\" ", 1);
    let begin = drawing.find(">\n").map_or(0, |at| at + 2);
    let (head, body) = drawing.split_at(begin);
    format!("{head}<style>\n{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{body}")
}

/// The style sheet, for a page of several drawings.
pub fn style() -> &'static str {
    STYLE
}

/// Limits of magnitude; values beyond them are clamped.
const MIN_VALUE: f64 = 1e-300;
const MAX_VALUE: f64 = 1e300;

/// Maps values to positions along an axis.
#[derive(Clone, Copy)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    length: f64,
    log: bool,
    /// Whether ticks are powers of ten (with 2 and 5 times between) instead of fixed ratios
    decades: bool,
}

impl Scale {
    /// A linear scale from 0 to `most` plus 10 %, along `length` from `start` (a negative length reverses the axis).
    pub fn linear(most: f64, start: f64, length: f64) -> Scale {
        // Smaller values have no tick between them and zero.
        let to = if most > MIN_VALUE { most.min(MAX_VALUE) * 1.1 } else { 1.0 };
        Scale { from: 0.0, to, start, length, log: false, decades: false }
    }

    /// A linear scale from `least` (at most 0) to `most` (at least 0), each extended by 10 %.
    pub fn between(least: f64, most: f64, start: f64, length: f64) -> Scale {
        let scale = Scale::linear(most.max(-least), start, length);
        let end =
            |value: f64| if value.abs() > MIN_VALUE { value.clamp(-MAX_VALUE, MAX_VALUE) * 1.1 } else { 0.0 };
        let (from, to) = (end(least.min(0.0)), end(most.max(0.0)));
        if from < to { Scale { from, to, ..scale } } else { scale }
    }

    /// A logarithmic scale of ratios.
    pub fn log(from: f64, to: f64, start: f64, length: f64) -> Scale {
        Scale { from: from.ln(), to: to.ln(), start, length, log: true, decades: false }
    }

    /// A logarithmic scale of positive values, with ticks at powers of ten.
    pub fn decades(least: f64, most: f64, start: f64, length: f64) -> Scale {
        let least = if least > 1e-9 { least.min(MAX_VALUE) } else { 1e-9 };
        let most = most.max(least * 2.0).min(MAX_VALUE * 2.0);
        Scale { decades: true, ..Scale::log(least / 1.15, most * 1.15, start, length) }
    }

    /// The position of a value, clamped to the ends.
    pub fn at(&self, value: f64) -> f64 {
        // Values without a logarithm map to the start.
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + part * self.length
    }

    /// The largest value on the scale.
    pub fn end(&self) -> f64 {
        if self.log { self.to.exp() } else { self.to }
    }

    /// Round tick values, about `about` of them.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        if self.decades {
            return self.tens(about);
        }
        if self.log {
            const RATIOS: [f64; 14] =
                [0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0];
            let inside = |ratio: &f64| ratio.ln() >= self.from - 1e-9 && ratio.ln() <= self.to + 1e-9;
            return RATIOS.into_iter().filter(inside).collect();
        }
        let rough = (self.to - self.from) / about as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let (first, last) = ((self.from / step).ceil() as i32, (self.to / step).floor() as i32);
        (first..=last).map(|n| f64::from(n) * step).collect()
    }

    /// Powers of ten, and 2 and 5 times them if there is space.
    fn tens(&self, about: usize) -> Vec<f64> {
        let powers = (self.from / 10_f64.ln()).floor() as i32..=(self.to / 10_f64.ln()).ceil() as i32;
        let all: Vec<f64> =
            powers.flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power))).collect();
        let inside = |value: &&f64| value.ln() >= self.from - 1e-9 && value.ln() <= self.to + 1e-9;
        let each: Vec<f64> = all.iter().filter(inside).copied().collect();
        if each.len() <= about.max(3) {
            return each;
        }
        all.iter().step_by(3).filter(inside).copied().collect()
    }
}

/// A tick label, without trailing zeros.
pub fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_in_range() {
        assert_eq!(Scale::linear(52.0, 0.0, 1.0).ticks(5), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::linear(0.0, 0.0, 1.0).ticks(2), [0.0, 0.5, 1.0]);
        assert_eq!(Scale::linear(0.9, 0.0, 1.0).ticks(5).len(), 5);
        assert_eq!(Scale::between(-10.0, 0.0, 0.0, 1.0).ticks(5), [-10.0, -5.0, 0.0]);
        for (least, most) in
            [(0.0, f64::INFINITY), (-f64::MAX, f64::MAX), (0.0, 5e-324), (f64::NAN, f64::NAN)]
        {
            let scales = [Scale::between(least, most, 0.0, 1.0), Scale::linear(most, 0.0, 1.0)];
            for scale in [scales[0], scales[1], Scale::decades(1e-9, most, 0.0, 1.0)] {
                assert!((1..1_000).contains(&scale.ticks(6).len()), "{least} {most}");
            }
        }
        assert_eq!(Scale::log(0.5, 2.0, 0.0, 1.0).ticks(5), [0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0]);
        assert_eq!(Scale::decades(2.0, 300.0, 0.0, 1.0).ticks(5), [10.0, 100.0]);
        assert_eq!(Scale::decades(2.0, 12.0, 0.0, 1.0).ticks(5), [2.0, 5.0, 10.0]);
        assert_eq!([0.5, 20.0, 0.0].map(tick), ["0.5", "20", "0"]);
    }

    #[test]
    fn scale_supports_both_directions_and_terminates() {
        let up = Scale::linear(10.0 / 1.1, 100.0, -100.0);
        assert_eq!((up.at(0.0), up.at(5.0).round(), up.at(99.0)), (100.0, 50.0, 0.0));
        assert!((Scale::log(0.5, 2.0, 0.0, 10.0).at(1.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn standalone_file_has_namespace_and_style() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text(1.0, 1.0, Anchor::Start, "label", "<b>");
        let text = standalone(&drawing.finish("a & b"));
        assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{text}");
        assert!(
            text.contains("<style>") && text.contains("&lt;b&gt;") && text.contains("a &amp; b"),
            "{text}"
        );
    }
}
