// Filters: any text is refused at a column of it, or means something that negates as a whole.
#include <cctype>

#include "fsm/base/names.h"
#include "fsm/filter/filter.h"
#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

class Facts : public FilterFacts {
 public:
  explicit Facts(std::string_view text) : text_(text) {}
  bool AnyText(FilterKey, const std::string&, const Visit& visit) const override {
    return visit(text_);
  }
  double Number(FilterKey) const override { return static_cast<double>(text_.size()); }
  std::optional<Timestamp> Time(FilterKey) const override { return FromMicros(1); }

 private:
  const std::string_view text_;
};

void CheckColumn(std::string_view text, const Error& error) {
  Check(error.code == Code::kInvalidArgument, "a bad filter is the caller's fault");
  if (error.reason != Reason::kBadFilter) return;
  constexpr std::string_view kBegin = "filter, column ";
  Check(error.message.starts_with(kBegin), "a bad filter has a column");
  const size_t column = std::stoull(error.message.substr(kBegin.size()));
  Check(column >= 1 && column <= text.size() + 1, "the column is one of the text");
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto filter = InstanceFilter::Parse(text, FromMicros(1'000'000'000'000'000));
  if (!filter) {
    CheckColumn(text, filter.error());
    return 0;
  }
  const Facts facts(text);
  for (FilterTerm term : filter->terms()) {
    const bool holds = Holds(term, facts);
    term.negated = !term.negated;
    Check(Holds(term, facts) != holds, "a term or its negation holds");
  }
  return 0;
}
