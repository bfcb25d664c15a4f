//! Metrics as text. `OpenMetrics` and Prometheus' older text format agree on what is written here: gauges alone, as they do not agree on
//! what a counter and an info are called.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::base::text::printable;

/// A metric, with one value for each of its labels' values.
#[derive(Debug)]
pub struct Family {
    /// Its name, without its unit.
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    samples: Vec<Sample>,
}

/// The labels with their values, and the value.
type Sample = (Vec<(&'static str, String)>, f64);

impl Family {
    /// A metric without values, and without a unit. It is called `dblock_` and the name.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            unit: None,
            samples: Vec::new(),
        }
    }

    /// As [`Family::new`], in seconds, as its name says at its end.
    pub fn seconds(name: &'static str, help: &'static str) -> Self {
        let unit = Some(Unit::Seconds);
        Self {
            unit,
            ..Self::new(name, help)
        }
    }

    /// Adds a value. A label's value is as the tables show it: what others have written there steers no terminal.
    pub fn add<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'static str, &'a str)>,
        value: f64,
    ) {
        let labels = labels.into_iter();
        let labels = labels.map(|(label, value)| (label, printable(value)));
        self.samples.push((labels.collect(), value));
    }
}

/// Metrics that are known already.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let mut metric = encoder.encode_descriptor(
                family.name,
                family.help,
                family.unit.as_ref(),
                MetricType::Gauge,
            )?;
            for (labels, value) in &family.samples {
                let labels = &labels[..];
                ConstGauge::new(*value).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The text, with its last line.
pub fn exposition(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix("dblock");
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text takes everything");
    text
}
