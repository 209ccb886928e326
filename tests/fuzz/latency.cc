// What a node's latency was saved as, whatever it is, and samples after it.
#include "fsm/derived/latency.h"

#include "fsm/base/result.h"
#include "fsm/machine/machine.h"
#include "tests/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  Latency::Snapshot snapshot;
  for (size_t slices = bytes.Below(8); slices > 0; --slices) {
    auto& slice = snapshot.slices.emplace_back();
    slice.start = FromMicros(static_cast<int64_t>(bytes.Number()));
    slice.retries = bytes.Chance(64);
    for (size_t counts = bytes.Below(32); counts > 0; --counts) {
      slice.counts.push_back({static_cast<uint16_t>(bytes.Number()),
                              static_cast<uint32_t>(bytes.Number()),
                              static_cast<uint32_t>(bytes.Number())});
    }
  }
  Latency latency = Latency::Restore(snapshot);
  Timestamp now = FromMicros(1'700'000'000'000'000);
  for (size_t samples = 0; !bytes.empty() && samples < 100; ++samples) {
    now += std::chrono::seconds(bytes.Byte());
    latency.Learn({Duration(static_cast<int64_t>(bytes.Number() >> 8)), bytes.Chance(64),
                   Duration(bytes.Chance(32) ? bytes.Byte() : 0), bytes.Chance(64)},
                  now);
  }
  const auto timeout = latency.Timeout({}, false, 0);
  Check(timeout && *timeout >= TimeoutPolicy().min && *timeout <= TimeoutPolicy().max,
        "a timeout keeps to its policy");
  const Latency restored = Latency::Restore(latency.Save());
  for (const double percent : {50.0, 95.0}) {
    Check(restored.Quantile(percent) == latency.Quantile(percent), "a restored one says the same");
  }
  return 0;
}
