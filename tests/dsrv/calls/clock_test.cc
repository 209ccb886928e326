#include "dsrv/calls/clock.h"

#include <doctest/doctest.h>
#include <google/protobuf/util/time_util.h>

namespace dfsmr {
namespace {

using google::protobuf::util::TimeUtil;

Timestamp At(const char* text) {
  google::protobuf::Timestamp time;
  REQUIRE(TimeUtil::FromString(text, &time));
  return FromMicros(TimeUtil::TimestampToMicroseconds(time));
}

v1::AdvanceClockRequest To(const char* text) {
  v1::AdvanceClockRequest request;
  REQUIRE(TimeUtil::FromString(text, request.mutable_to()));
  return request;
}

v1::AdvanceClockRequest By(std::chrono::seconds by) {
  v1::AdvanceClockRequest request;
  *request.mutable_by() = TimeUtil::SecondsToDuration(by.count());
  return request;
}

}  // namespace

using namespace std::chrono_literals;

TEST_CASE("an advance goes by a duration, to a time, or to what is due next") {
  const Timestamp now = At("2026-01-31T08:00:00Z");
  v1::AdvanceClockRequest next;
  next.set_to_next(true);
  CHECK(TargetOf(By(90s), now, kNever) == now + 90s);
  CHECK(TargetOf(By(0s), now, kNever) == now);
  CHECK(TargetOf(To("2026-01-31T08:00:00Z"), now, kNever) == now);
  CHECK(TargetOf(To("2026-02-01T00:00:00Z"), now, kNever) == now + 16h);
  CHECK(TargetOf(next, now, now + 5h) == now + 5h);
  CHECK(TargetOf(next, now, kNever) == now);  // nothing is due: it stays
}

TEST_CASE("the clock neither goes back, nor further than ten years a call") {
  struct Row {
    const char* now;
    v1::AdvanceClockRequest request;
    bool good;
  };
  const Row rows[] = {
      {"2026-01-31T08:00:00Z", To("2026-01-31T07:59:59.999999Z"), false},
      {"2026-01-31T08:00:00Z", To("0001-01-01T00:00:00Z"), false},
      {"2026-01-31T08:00:00Z", To("2036-01-31T08:00:00Z"), true},
      {"2026-01-31T08:00:00Z", To("2036-01-31T08:00:01Z"), false},
      {"2024-02-29T00:00:00Z", To("2034-02-28T00:00:00Z"), true},
      {"2026-01-31T08:00:00Z", By(24h * 3'650), true},
      {"2026-01-31T08:00:00Z", By(24h * 3'660), false},
      {"2026-01-31T08:00:00Z", By(24h * 365 * 1'000'000), false},
      {"9995-01-01T00:00:00Z", By(24h * 365 * 9), false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.now);
    CAPTURE(row.request.ShortDebugString());
    const auto target = TargetOf(row.request, At(row.now), kNever);
    CHECK(target.has_value() == row.good);
    if (!target) CHECK(target.error().code == Code::kInvalidArgument);
  }
}

}  // namespace dfsmr
