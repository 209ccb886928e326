// Files of settings, and the words that stand in them.
#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/yaml/definitions.h"
#include "tests/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  const std::string_view text = Bytes(data, size).Rest();
  std::vector<Diagnostic> diagnostics;
  const auto settings = ParseSettings(text, "fuzz.yaml", &diagnostics);
  for (const Diagnostic& diagnostic : diagnostics) {
    Check(Format(diagnostic).find('\n') == std::string::npos, "a diagnostic takes one line");
  }
  for (const Setting& setting : settings) {
    const auto duration = ParseDuration(setting.value);
    if (!duration) continue;
    const auto again = ParseDuration(FormatDuration(*duration));
    Check(again && *again == *duration, "a duration is read from its own text");
  }
  Nearest nearest(text.substr(0, 300));
  for (const Setting& setting : settings) nearest.Try(setting.key);
  (void)nearest.Hint();
  return 0;
}
