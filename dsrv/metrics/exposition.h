// The two text forms in which Prometheus takes metrics: its own (text/plain; version=0.0.4) and
// OpenMetrics 1.0. Pure: values become text, in the order in which they are given.
//
//   Exposition out(Form::kText);
//   out.Family("dfsmr_starts", Type::kCounter, "Instances that were started.");
//   out.Add(Labels().With("machine", "crawler"), 3);   // dfsmr_starts_total{machine="crawler"} 3
//   std::string text = out.Take();
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::metrics {

enum class Form : uint8_t { kText, kOpenMetrics };
// OpenMetrics where an Accept header wants it at least as much as plain text.
Form FormOf(std::string_view accept);
std::string_view MediaType(Form form);

// Labels as they stand between braces. A value may hold any text.
class Labels {
 public:
  Labels With(std::string_view name, std::string_view value) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

class Exposition {
 public:
  explicit Exposition(Form form) : form_(form) {}

  // Begins a family: each once. A counter's name is without its "_total". A family to which nothing
  // is added has HELP and TYPE alone.
  void Family(std::string_view name, Type type, std::string_view help);
  // A counter or gauge.
  template <std::integral Number>
  void Add(const Labels& labels, Number value) {
    Begin("", labels);
    text_ += std::to_string(value);
    text_ += '\n';
  }
  void Add(const Labels& labels, double value);
  // Counts of the ranges up to each edge and, last, above; edges and sum in units of which
  // `per_unit` make one of the family's: 1e6 for microseconds in a family of seconds.
  // The edges outlive this.
  void AddHistogram(const Labels& labels, std::span<const uint64_t> edges,
                    std::span<const uint64_t> counts, uint64_t sum, double per_unit);

  // The whole text. Call it once.
  std::string Take();

 private:
  void Begin(std::string_view suffix, const Labels& labels, std::string_view le = {});

  const Form form_;
  std::string name_;
  bool counter_ = false;
  std::string text_;
  // The last edges as texts: many histograms in a row have the same.
  const uint64_t* shown_edges_ = nullptr;
  double shown_unit_ = 0;
  std::vector<std::string> les_;
};

}  // namespace dfsmr::metrics
