//! The page of metrics as JSON.

use serde_json::{Map, Value as Json, json};

/// Of a page in the OpenMetrics text format: a member for each name. A metric with a label is an
/// object by the label's values; the buckets of a histogram are pairs of an upper bound, in its
/// unit, and a count; the bound of the last one is null.
pub fn of_open_metrics(page: &str) -> Json {
    let mut metrics = Map::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((sample, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, label) = match sample.split_once('{') {
            Some((name, labels)) => (name, labels.split('"').nth(1)),
            None => (sample, None),
        };
        match label {
            None => {
                metrics.insert(name.to_owned(), json!(value));
            }
            Some(bound) if name.ends_with("_bucket") => {
                let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
                let buckets = metrics.entry(name).or_insert_with(|| json!([]));
                buckets.as_array_mut().into_iter().for_each(|it| it.push(json!([bound, value])));
            }
            Some(label) => {
                let family = metrics.entry(name).or_insert_with(|| json!({}));
                family[label] = json!(value);
            }
        }
    }
    Json::Object(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_keep_their_names_labels_and_buckets() {
        let page = "# TYPE tally_height gauge\ntally_height 17.0\n\
                    tally_transactions_total{outcome=\"committed\"} 40\n\
                    tally_transactions_total{outcome=\"retry\"} 2\n\
                    tally_commit_duration_seconds_bucket{le=\"0.0002\"} 4\n\
                    tally_commit_duration_seconds_bucket{le=\"+Inf\"} 5\n# EOF\n";
        let expected = json!({
            "tally_height": 17.0,
            "tally_transactions_total": {"committed": 40.0, "retry": 2.0},
            "tally_commit_duration_seconds_bucket": [[0.0002, 4.0], [null, 5.0]],
        });
        assert_eq!(of_open_metrics(page), expected);
    }
}
