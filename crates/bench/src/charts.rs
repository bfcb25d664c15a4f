//! What is easier seen than read: hand-overs against the number of waiters, and times as distributions.

use plotters::prelude::*;

use super::Result;
use super::hand_over::{self, SLOTS};
use super::start;
use super::table::{Row, Table};

const SIZE: (u32, u32) = (860, 480);

/// Told apart also by who sees fewer colours.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(140, 140, 140),
];

/// For the names of the lines above the lines.
const HEADROOM: f64 = 1.6;

/// Points of a distribution.
const POINTS: u32 = 100;

/// What a chart shows.
#[derive(Clone, Copy)]
enum Of {
    /// Which share of all took so many milliseconds at most.
    Shares,
    /// Medians against the number of callers that wait.
    Medians,
}

type Line = (String, Vec<(f64, f64)>);

/// Draws what the table has lines for.
pub fn draw(table: &Table, folder: &str) -> Result<()> {
    let waiting = hand_over::waiting(table);
    let mut who = vec!["flock".to_owned()];
    for server in ["MariaDB", "MySQL"] {
        who.extend(SLOTS.map(|slots| hand_over::dblock(server, slots)));
    }
    let row = |who: &str, waiting: usize| table.row(&hand_over::line(who, waiting));
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let against_waiting = |who: &String| -> Line {
        let points = waiting
            .iter()
            .filter_map(|&waiting| Some((waiting as f64, row(who, waiting)?.median() * 1000.0)));
        (who.clone(), points.collect())
    };
    let lines: Vec<Line> = who.iter().map(against_waiting).collect();
    chart(
        &format!("{folder}/waiting.svg"),
        "From one command's end to the next one's start, median",
        Of::Medians,
        &lines,
    )?;
    let of_all = |rows: Vec<(String, &Row)>| -> Vec<Line> {
        rows.into_iter()
            .map(|(name, row)| (name, distribution(row)))
            .collect()
    };
    if let Some(&middle) = waiting.get(1) {
        let rows = who
            .iter()
            .filter_map(|who| Some((who.clone(), row(who, middle)?)));
        chart(
            &format!("{folder}/hand-over.svg"),
            &format!("From one command's end to the next one's start, {middle} waiting"),
            Of::Shares,
            &of_all(rows.collect()),
        )?;
    }
    let rows = table
        .rows
        .iter()
        .filter(|row| row.part == start::PART && row.samples.len() > 1);
    let rows = rows.filter(|row| row.ratio.is_none() || !row.what.starts_with("that of MariaDB"));
    let named = rows.map(|row| (row.what.replace('`', ""), row));
    let mut named: Vec<(String, &Row)> = named.collect();
    named.retain(|(name, _)| {
        ["socket", "with TLS", "binary"]
            .iter()
            .all(|end| !name.ends_with(end))
    });
    chart(
        &format!("{folder}/start.svg"),
        "A run of `true`, from start to end",
        Of::Shares,
        &of_all(named),
    )
}

/// Which share of all took so many milliseconds at most.
fn distribution(row: &Row) -> Vec<(f64, f64)> {
    (0..=POINTS)
        .map(|at| f64::from(at) / f64::from(POINTS))
        .map(|share| (row.quantile(share) * 1000.0, share))
        .collect()
}

/// Lines over a logarithmic axis.
fn chart(file: &str, title: &str, of: Of, lines: &[Line]) -> Result<()> {
    let lines: Vec<&Line> = lines
        .iter()
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let all = || lines.iter().flat_map(|(_, points)| points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let least = all().map(of).fold(f64::INFINITY, f64::min);
        let most = all().map(of).fold(0.0, f64::max);
        (least * 0.9, most * 1.1)
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    // Shares end at one, below the curves' right end there is room; above other lines it has to be made.
    let (top, names_at, points) = match of {
        Of::Shares => (1.0, SeriesLabelPosition::LowerRight, 0),
        Of::Medians => (y.1 * HEADROOM, SeriesLabelPosition::UpperLeft, 3),
    };
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((x.0..x.1).log_scale(), 0.0..top)?;
    let (x_name, y_name) = match of {
        Of::Shares => ("milliseconds", "share of all"),
        Of::Medians => ("callers that wait", "milliseconds"),
    };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&label)
        .draw()?;
    for ((name, line), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.clone(), style).point_size(points))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(names_at);
    labels.background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "plotters asks for that")]
fn label(figure: &f64) -> String {
    format!("{figure}")
}
