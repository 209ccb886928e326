#include "storage/rows/stats.h"

#include <algorithm>
#include <utility>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

void Encode(const Latency::Snapshot& snapshot, record::NodeLatency* out) {
  for (const auto& slice : snapshot.slices) {
    record::Slice* to = out->add_slices();
    to->set_start(Micros(slice.start));
    to->set_retries(slice.retries);
    for (const Latency::Count& count : slice.counts) {
      to->add_buckets(count.bucket);
      to->add_exact(count.exact);
      to->add_censored(count.censored);
    }
  }
}

Latency::Snapshot Decode(const record::NodeLatency& in) {
  Latency::Snapshot snapshot;
  for (const auto& slice : in.slices()) {
    auto& to = snapshot.slices.emplace_back();
    to.start = FromMicros(slice.start());
    /*mutant recover-retries-mixed*/ to.retries = slice.retries(); /*end*/
    const int counts = std::min({slice.buckets_size(), slice.exact_size(), slice.censored_size()});
    for (int i = 0; i < counts; ++i) {
      to.counts.push_back(
          {static_cast<uint16_t>(slice.buckets(i)), slice.exact(i), slice.censored(i)});
    }
  }
  return snapshot;
}

}  // namespace

void Encode(const Pace& pace, record::Pace* out) {
  out->set_samples(pace.samples);
  out->set_retries(pace.retries);
  out->set_learned(pace.learned);
  out->set_under_way(pace.under_way);
  for (const Pace::At& at : pace.at) {
    out->add_percents(at.percent);
    out->add_first(at.first.count());
    out->add_retry(at.retry.count());
  }
}

Pace Decode(const record::Pace& in) {
  Pace pace{in.samples(), in.retries(), in.learned(), in.under_way(), {}};
  const int all = std::min({in.percents_size(), in.first_size(), in.retry_size()});
  for (int i = 0; i < all; ++i) {
    pace.at.push_back({in.percents(i), Duration(in.first(i)), Duration(in.retry(i))});
  }
  return pace;
}

namespace {

void Encode(const StoppedCounts& counts, record::VersionStats* out) {
  out->set_stopped(counts.all);
  if (counts.results == ResultCounts{}) return;
  for (uint64_t count : counts.results) out->add_results(count);
}

StoppedCounts StoppedOf(const record::VersionStats& in) {
  StoppedCounts counts;
  counts.all = in.stopped();
  for (size_t i = 0; i < counts.results.size() && std::cmp_less(i, in.results_size()); ++i) {
    counts.results[i] = in.results(static_cast<int>(i));
  }
  return counts;
}

}  // namespace

void Add(const StoppedCounts& more, StoppedCounts* to) {
  to->all += more.all;
  for (size_t i = 0; i < to->results.size(); ++i) to->results[i] += more.results[i];
}

Result<DroppedCounts> DroppedIn(std::string_view key, std::string_view value) {
  record::Stats in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("machine's counters", key);
  }
  DroppedCounts dropped;
  for (const auto& one : in.versions()) dropped[one.version()] = StoppedOf(one);
  return dropped;
}

void PutStats(const Writer& writer, const StatsRow& row) {
  record::Stats out;
  for (const auto& [version, counts] : row.versions) {
    record::VersionStats* to = out.add_versions();
    to->set_version(version);
    Encode(counts.stopped, to);
    for (const auto& [node, count] : counts.nodes) {
      record::NodeCount* node_to = to->add_nodes();
      node_to->set_node(node);
      node_to->set_completed(count.completed);
      node_to->set_timed_out(count.timed_out);
    }
  }
  for (const auto& [node, snapshot] : row.latencies) {
    record::NodeLatency* to = out.add_latencies();
    to->set_node(node);
    Encode(snapshot, to);
  }
  for (const auto& [node, pace] : row.paces) {
    record::NodeLatency* to = out.add_latencies();
    to->set_node(node);
    Encode(pace, to->mutable_pace());
  }
  writer.batch.Put(Key(writer.partition, kStats).Text(row.ns).Text(row.machine),
                   out.SerializeAsString());
  writer.batch.Delete(Key(writer.partition, kDropped).Text(row.ns).Text(row.machine));
}

void PutDropped(const Writer& writer, std::string_view ns, std::string_view machine,
                const DroppedCounts& dropped) {
  record::Stats out;
  for (const auto& [version, count] : dropped) {
    record::VersionStats* to = out.add_versions();
    to->set_version(version);
    Encode(count, to);
  }
  writer.batch.Put(Key(writer.partition, kDropped).Text(ns).Text(machine), out.SerializeAsString());
}

Result<Ok> ScanDropped(const Reader& reader,
                       const std::function<void(const std::string& ns, const std::string& machine,
                                                const DroppedCounts&)>& visit) {
  const std::string begin = Key(reader.partition, kDropped);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   const auto dropped = DroppedIn(key, value);
                   if (!dropped) return dropped.error();
                   KeyReader parts(key);
                   const std::string ns(parts.Text());
                   visit(ns, std::string(parts.Text()), *dropped);
                   return true;
                 });
}

void PutStatsSeq(const Writer& writer, uint64_t seq) {
  PutNumber(writer, Key(writer.partition, kStatsSeq), seq);
}

Result<uint64_t> GetStatsSeq(const Reader& reader) {
  return GetNumber(reader, Key(reader.partition, kStatsSeq), 0);
}

Result<StatsRow> DecodeStats(std::string_view key, std::string_view value) {
  record::Stats in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("machine's counters", key);
  }
  KeyReader parts(key);
  StatsRow row;
  row.ns = parts.Text();
  row.machine = parts.Text();
  for (const auto& version : in.versions()) {
    VersionCounts& counts = row.versions[version.version()];
    counts.stopped = StoppedOf(version);
    for (const auto& node : version.nodes()) {
      counts.nodes[node.node()] = {node.completed(), node.timed_out()};
    }
  }
  for (const auto& node : in.latencies()) {
    if (node.has_pace()) {
      row.paces[node.node()] = Decode(node.pace());
    } else {
      row.latencies[node.node()] = Decode(node);
    }
  }
  return row;
}

Result<Ok> ScanStats(const Reader& reader, const std::function<void(StatsRow)>& visit) {
  const std::string begin = Key(reader.partition, kStats);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto row = DecodeStats(key, value);
                   if (!row) return row.error();
                   visit(*std::move(row));
                   return true;
                 });
}

}  // namespace dfsmr::rows
