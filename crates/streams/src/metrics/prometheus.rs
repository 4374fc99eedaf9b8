//! An application's numbers as Prometheus reads them, under the names that Kafka Streams' have there: its group (client, thread, task, store), then
//! the metric. A worker is what a thread is there.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{Measured, Metrics, Spread, StoreMetrics, TaskMetrics, WorkerMetrics};
use crate::state::ApplicationState;
use crate::statistics::Statistics;

/// All of it.
pub(crate) fn text(metrics: Metrics, statistics: Statistics) -> String {
    let mut registry = Registry::with_prefix("atonce_streams");
    registry.register_collector(Box::new(Page { metrics, statistics }));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Page {
    metrics: Metrics,
    statistics: Statistics,
}

#[derive(Clone, Copy)]
enum Number {
    Counter(u64),
    Gauge(f64),
}

type Labels = Vec<(&'static str, String)>;

/// The families, filled one sample after the other: a family's samples must stand together.
#[derive(Default)]
struct Families(Vec<Family>);

struct Family {
    name: String,
    help: &'static str,
    samples: Vec<(Labels, Number)>,
}

impl Families {
    fn add(&mut self, name: String, help: &'static str, labels: &Labels, number: Number) {
        let sample = (labels.clone(), number);
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family { name, help, samples: vec![sample] }),
        }
    }

    fn counter(&mut self, name: &str, help: &'static str, labels: &Labels, value: u64) {
        self.add(name.to_owned(), help, labels, Number::Counter(value));
    }

    fn gauge(&mut self, name: &str, help: &'static str, labels: &Labels, value: f64) {
        self.add(name.to_owned(), help, labels, Number::Gauge(value));
    }

    fn measured(&mut self, name: &str, help: &'static str, labels: &Labels, measured: Measured) {
        let Measured { total, rate, latency_avg, latency_max } = measured;
        self.add(name.to_owned(), help, labels, Number::Counter(total));
        self.add(format!("{name}_rate"), "The same, in a second", labels, Number::Gauge(rate));
        let seconds = |latency: std::time::Duration| Number::Gauge(latency.as_secs_f64());
        self.add(format!("{name}_latency_avg_seconds"), "How long one takes", labels, seconds(latency_avg));
        self.add(format!("{name}_latency_max_seconds"), "How long the slowest took", labels, seconds(latency_max));
    }

    fn spread(&mut self, name: &str, help: &'static str, labels: &Labels, spread: Spread) {
        for (which, value) in [("avg", spread.avg), ("min", spread.min), ("max", spread.max)] {
            self.add(format!("{name}_{which}_seconds"), help, labels, Number::Gauge(value.as_secs_f64()));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and lags that fit a float")]
fn float(value: i64) -> f64 {
    value as f64
}

fn size(value: usize) -> f64 {
    float(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Page {
    fn families(&self) -> Families {
        let mut families = Families::default();
        let Metrics { state, alive_workers, workers, tasks } = &self.metrics;
        for possible in ApplicationState::ALL {
            let labels = vec![("state", possible.name().to_owned())];
            let is_it = f64::from(u8::from(possible == *state));
            families.gauge("client_state", "1 for the state that the application is in", &labels, is_it);
        }
        families.gauge("client_alive_threads", "Workers that have not ended", &Vec::new(), size(*alive_workers));
        client(&mut families, &self.statistics);
        for (index, numbers) in workers {
            worker(&mut families, &vec![("worker", index.to_string())], numbers);
        }
        for (id, numbers) in tasks {
            let labels = vec![("worker", numbers.worker.to_string()), ("task", id.to_string())];
            task(&mut families, &labels, numbers);
            for (name, numbers) in &numbers.stores {
                store(&mut families, &[labels.as_slice(), &[("store", name.clone())]].concat(), numbers);
            }
        }
        families
    }
}

fn client(families: &mut Families, statistics: &Statistics) {
    let none = Vec::new();
    let mut counter = |name, help, value| families.counter(name, help, &none, value);
    counter("client_commits", "Commits that stand", statistics.committed);
    counter("client_aborts", "Intervals that were undone", statistics.aborted);
    counter("client_fenced", "Refusals that said another is in charge", statistics.fenced);
    counter("client_in_doubt", "Commits without an answer at first", statistics.in_doubt);
    counter("client_committed_records", "Records of intervals that were committed", statistics.records);
    counter("client_output_records", "Records written by sinks", statistics.output_records);
    counter("client_rebuilt_stores", "Stores that could not be trusted", statistics.rebuilt_stores);
    counter("client_failed_threads", "Workers that could not go on and were replaced", statistics.replaced_workers);
}

fn worker(families: &mut Families, labels: &Labels, numbers: &WorkerMetrics) {
    families.measured("thread_commit", "Commits that stand", labels, numbers.commit);
    families.measured("thread_poll", "Polls of the consumer", labels, numbers.poll);
    families.measured("thread_process", "Records processed", labels, numbers.process);
    families.measured("thread_punctuate", "Punctuations by the wall clock", labels, numbers.punctuate);
    families.counter("thread_task_created", "Tasks given to the worker", labels, numbers.task_created_total);
    families.counter("thread_task_closed", "Tasks that the worker gave up", labels, numbers.task_closed_total);
}

fn task(families: &mut Families, labels: &Labels, numbers: &TaskMetrics) {
    families.measured("task_process", "Records processed", labels, numbers.process);
    families.counter("task_punctuate", "Punctuations", labels, numbers.punctuate_total);
    families.spread("task_record_lateness", "How far records are behind stream time", labels, numbers.record_lateness);
    families.spread(
        "task_record_e2e_latency",
        "From a record's time to when it has passed its task",
        labels,
        numbers.record_e2e_latency,
    );
    families.counter("task_dropped_records", "Records without key or value", labels, numbers.dropped_records_total);
    families.counter("task_skipped_records", "Records that failed, left out", labels, numbers.skipped_records_total);
    families.counter("task_dead_letters", "Records that failed, put elsewhere", labels, numbers.dead_letters_total);
    families.gauge("task_active_buffer_count", "Records that wait", labels, size(numbers.active_buffer_count));
    for (partition, lag) in &numbers.lag {
        // One that is not known is not told: 0 would be a lie.
        let Some(lag) = lag else { continue };
        let place = [("topic", partition.topic.to_string()), ("partition", partition.partition.to_string())];
        let labels = [labels.as_slice(), &place].concat();
        families.gauge("task_records_lag", "Offsets between the position and the end", &labels, float(*lag));
    }
    families.counter("task_restore", "Records of change logs taken in", labels, numbers.restore_total);
    families.gauge("task_restore_rate", "The same, in a second", labels, numbers.restore_rate);
    let remaining = float(numbers.restore_remaining_records_total);
    families.gauge("task_restore_remaining_records", "Offsets of change logs to go", labels, remaining);
}

fn store(families: &mut Families, labels: &Labels, numbers: &StoreMetrics) {
    families.counter("state_get", "Values read", labels, numbers.get_total);
    families.counter("state_put", "Values set", labels, numbers.put_total);
    families.counter("state_delete", "Keys deleted", labels, numbers.delete_total);
    families.counter("state_range", "Scans begun", labels, numbers.range_total);
    families.gauge("state_hit_ratio", "Values read without the engine, of all", labels, numbers.hit_ratio);
    let uncommitted = size(numbers.uncommitted_bytes);
    families.gauge("state_uncommitted_bytes", "Changes that wait for a commit", labels, uncommitted);
    families.measured("state_engine_get", "Values read from the engine", labels, numbers.engine_get);
    families.measured("state_engine_range", "Pages of scans read from the engine", labels, numbers.engine_range);
    families.measured("state_flush", "Batches that the engine took in", labels, numbers.flush);
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, help, samples } in self.families().0 {
            let kind = match samples.first() {
                Some((_, Number::Counter(_))) => MetricType::Counter,
                Some((_, Number::Gauge(_))) | None => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(&name, help, None, kind)?;
            for (labels, number) in samples {
                let sample = family.encode_family(&labels)?;
                match number {
                    Number::Counter(value) => ConstCounter::new(value).encode(sample)?,
                    Number::Gauge(value) => ConstGauge::new(value).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use atonce_kernel::TopicPartition;
    use atonce_streams_core::TaskId;

    use super::*;

    #[test]
    fn each_family_is_told_once_with_all_its_samples() {
        let id = |partition| TaskId { subtopology: 0, partition };
        let lag =
            BTreeMap::from([(TopicPartition::new("a\"b", 0), Some(7)), (TopicPartition::new("unknown", 0), None)]);
        let stores = BTreeMap::from([("counts".to_owned(), StoreMetrics { put_total: 9, ..StoreMetrics::default() })]);
        let first = TaskMetrics { lag, stores, ..TaskMetrics::default() };
        let metrics = Metrics {
            state: ApplicationState::Running,
            alive_workers: 1,
            workers: BTreeMap::from([(0, WorkerMetrics { task_created_total: 2, ..WorkerMetrics::default() })]),
            tasks: BTreeMap::from([(id(0), first), (id(1), TaskMetrics::default())]),
        };
        let text = text(metrics, Statistics { committed: 5, ..Statistics::default() });
        for line in [
            "atonce_streams_client_state{state=\"RUNNING\"} 1.0",
            "atonce_streams_client_state{state=\"ERROR\"} 0.0",
            "atonce_streams_client_commits_total 5",
            "atonce_streams_thread_task_created_total{worker=\"0\"} 2",
            "atonce_streams_task_process_total{worker=\"0\",task=\"0_1\"} 0",
            "atonce_streams_task_records_lag{worker=\"0\",task=\"0_0\",topic=\"a\\\"b\",partition=\"0\"} 7.0",
            "atonce_streams_state_put_total{worker=\"0\",task=\"0_0\",store=\"counts\"} 9",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        assert!(!text.contains("unknown"), "{text}");
        let mut families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let told = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), told, "each once");
        assert!(text.ends_with("# EOF\n"));
    }
}
