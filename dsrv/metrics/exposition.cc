#include "dsrv/metrics/exposition.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace dfsmr::metrics {
namespace {

std::string TextOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// OpenMetrics has edges as floating point numbers even where they are whole.
std::string EdgeOf(double edge, Form form) {
  std::string text = TextOf(edge);
  const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
  return form == Form::kOpenMetrics && whole ? text + ".0" : text;
}

void Escape(std::string_view value, bool quotes, std::string* out) {
  for (const char c : value) {
    if (c == '\\')
      *out += "\\\\";
    else if (c == '\n')
      *out += "\\n";
    else if (c == '"' && quotes)
      *out += "\\\"";
    else
      *out += c;
  }
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view TakeUntil(char end, std::string_view* rest) {
  const size_t at = std::min(rest->find(end), rest->size());
  const std::string_view part = rest->substr(0, at);
  rest->remove_prefix(std::min(at + 1, rest->size()));
  return Trim(part);
}

// The weight of one entry of an Accept header, from 0 to 1; malformed ones weigh 1.
double WeightOf(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view one = TakeUntil(';', &parameters);
    if (!one.starts_with("q=")) continue;
    double weight = 1;
    const auto read = std::from_chars(one.data() + 2, one.data() + one.size(), weight);
    return read.ec == std::errc() ? weight : 1;
  }
  return 1;
}

bool SameWord(std::string_view text, std::string_view lower) {
  return std::ranges::equal(
      text, lower, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

}  // namespace

Form FormOf(std::string_view accept) {
  double open = 0;
  double text = 0;
  while (!accept.empty()) {
    std::string_view entry = TakeUntil(',', &accept);
    const std::string_view type = TakeUntil(';', &entry);
    const double weight = WeightOf(entry);
    if (SameWord(type, "application/openmetrics-text")) open = std::max(open, weight);
    if (SameWord(type, "text/plain")) text = std::max(text, weight);
  }
  return open > 0 && open >= text ? Form::kOpenMetrics : Form::kText;
}

std::string_view MediaType(Form form) {
  return form == Form::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
}

Labels Labels::With(std::string_view name, std::string_view value) const {
  Labels more;
  more.text_.reserve(text_.size() + name.size() + value.size() + 4);
  more.text_ = text_;
  if (!text_.empty()) more.text_ += ',';
  more.text_ += name;
  more.text_ += "=\"";
  Escape(value, /*quotes=*/true, &more.text_);
  more.text_ += '"';
  return more;
}

void Exposition::Family(std::string_view name, Type type, std::string_view help) {
  constexpr std::array<std::string_view, 3> kTypes = {"counter", "gauge", "histogram"};
  name_ = name;
  counter_ = type == Type::kCounter;
  // Plain text knows a counter by its whole name, OpenMetrics without the suffix.
  const std::string shown = name_ + (counter_ && form_ == Form::kText ? "_total" : "");
  text_ += "# HELP " + shown + ' ';
  Escape(help, /*quotes=*/form_ == Form::kOpenMetrics, &text_);
  text_ += "\n# TYPE " + shown + ' ';
  text_ += kTypes[static_cast<size_t>(type)];
  text_ += '\n';
}

void Exposition::Begin(std::string_view suffix, const Labels& labels, std::string_view le) {
  text_ += name_;
  text_ += counter_ ? "_total" : suffix;
  if (!labels.text().empty() || !le.empty()) {
    text_ += '{';
    text_ += labels.text();
    if (!le.empty()) {
      if (!labels.text().empty()) text_ += ',';
      text_ += "le=\"";
      text_ += le;
      text_ += '"';
    }
    text_ += '}';
  }
  text_ += ' ';
}

void Exposition::Add(const Labels& labels, double value) {
  Begin("", labels);
  text_ += TextOf(value);
  text_ += '\n';
}

void Exposition::AddHistogram(const Labels& labels, std::span<const uint64_t> edges,
                              std::span<const uint64_t> counts, uint64_t sum, double per_unit) {
  if (shown_edges_ != edges.data() || shown_unit_ != per_unit) {
    shown_edges_ = edges.data();
    shown_unit_ = per_unit;
    les_.clear();
    for (uint64_t edge : edges) {
      les_.push_back(EdgeOf(static_cast<double>(edge) / per_unit, form_));
    }
    les_.emplace_back("+Inf");
  }
  uint64_t all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    Begin("_bucket", labels, les_[i]);
    text_ += std::to_string(all) + '\n';
  }
  Begin("_sum", labels);
  text_ += TextOf(static_cast<double>(sum) / per_unit) + '\n';
  Begin("_count", labels);
  text_ += std::to_string(all) + '\n';
}

std::string Exposition::Take() {
  if (form_ == Form::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace dfsmr::metrics
