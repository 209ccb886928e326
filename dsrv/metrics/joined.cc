#include "dsrv/metrics/joined.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

namespace dfsmr::metrics {
namespace {

// Families, or how they begin, of which each partition tells the same, or the worst counts.
constexpr std::string_view kGreatest[] = {
    "process_",
    "dfsmr_agent_slots",
    "dfsmr_agents",
    "dfsmr_asking",
    "dfsmr_audit_failed",
    "dfsmr_backup_",
    "dfsmr_breaker_state",
    "dfsmr_build_info",
    "dfsmr_cluster_servers",
    "dfsmr_disk_free_bytes",
    "dfsmr_feed_first_seq",
    "dfsmr_feed_lag_records",
    "dfsmr_feed_lag_seconds",
    "dfsmr_feed_last_seq",
    "dfsmr_feed_watchers",
    "dfsmr_fenced_commits",
    "dfsmr_forward_seconds",
    "dfsmr_forwarded_calls",
    "dfsmr_http_",
    "dfsmr_lease_remaining_seconds",
    "dfsmr_log_bytes",
    "dfsmr_metrics_folded",
    "dfsmr_outbox_messages",
    "dfsmr_package_activations",
    "dfsmr_package_bytes",
    "dfsmr_packages_blocked",
    "dfsmr_partitions",
    "dfsmr_ready_oldest_seconds",
    "dfsmr_retry_ratio",
    "dfsmr_room",
    "dfsmr_store_connections",
    "dfsmr_store_stalled",
    "dfsmr_takeover_seconds",
    "dfsmr_takeovers",
    "dfsmr_task_timeout_seconds",
    "dfsmr_tls_expiry_timestamp_seconds",
    "target_info",
    "up",
};

bool TakesGreatest(std::string_view family) {
  return std::ranges::any_of(kGreatest, [family](std::string_view one) {
    return one.ends_with('_') ? family.starts_with(one) : family == one;
  });
}

std::string NumberText(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) {
    return std::to_string(static_cast<int64_t>(value));
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

struct JoinedSeries {
  std::string name;  // with its labels
  std::string text;  // of the value, as long as there is one
  double value = 0;
};
struct JoinedFamily {
  std::string head;  // HELP and TYPE
  bool greatest = false;
  std::vector<JoinedSeries> series;
  std::map<std::string, size_t, std::less<>> places;
};

class Joining {
 public:
  void Take(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      TakeLine(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  std::string Text() const {
    std::string all;
    for (const JoinedFamily& family : families_) {
      all += family.head;
      for (const JoinedSeries& one : family.series) all += one.name + ' ' + one.text + '\n';
    }
    return all + end_;
  }

 private:
  void TakeLine(std::string_view line) {
    if (line == "# EOF") {
      end_ = "# EOF\n";
    } else if (line.starts_with('#')) {
      TakeHead(line);
    } else if (!line.empty() && family_) {
      TakeSeries(line);
    }
  }

  // "# HELP NAME …" and "# TYPE NAME …", of which the first begins a family.
  void TakeHead(std::string_view line) {
    const std::string_view rest = line.substr(std::min(line.size(), size_t{7}));
    std::string name(rest.substr(0, rest.find(' ')));
    if (name.ends_with("_total")) name.resize(name.size() - 6);
    const auto [place, added] = places_.emplace(name, families_.size());
    if (added) families_.push_back({.head = {}, .greatest = TakesGreatest(name), .series = {}});
    family_ = &families_[place->second];
    const std::string head = std::string(line) + '\n';
    if (family_->head.find(head) == std::string::npos) family_->head += head;
  }

  void TakeSeries(std::string_view line) {
    const size_t space = line.rfind(' ');
    if (space == std::string_view::npos) return;
    const std::string text(line.substr(space + 1));
    const double value = std::strtod(text.c_str(), nullptr);
    std::string name(line.substr(0, space));
    const auto [place, added] = family_->places.emplace(name, family_->series.size());
    if (added) {
      family_->series.push_back({std::move(name), text, value});
      return;
    }
    JoinedSeries& series = family_->series[place->second];
    if (family_->greatest && value <= series.value) return;
    series.value = family_->greatest ? value : series.value + value;
    series.text = NumberText(series.value);
  }

  std::vector<JoinedFamily> families_;
  std::map<std::string, size_t> places_;
  JoinedFamily* family_ = nullptr;
  std::string end_;
};

}  // namespace

std::string Joined(const std::vector<std::string>& texts) {
  if (texts.size() == 1) return texts.front();
  Joining joining;
  for (const std::string& text : texts) joining.Take(text);
  return joining.Text();
}

}  // namespace dfsmr::metrics
