// Does something later, on a thread of gRPC's.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace dfsmr {

inline void RunAfter(std::chrono::milliseconds time, std::function<void()> run) {
  auto alarm = std::make_shared<grpc::Alarm>();
  grpc::Alarm& set = *alarm;
  set.Set(std::chrono::system_clock::now() + time,
          [alarm = std::move(alarm), run = std::move(run)](bool) mutable {
            const auto ends_with_this = std::move(alarm);
            run();
          });
}

}  // namespace dfsmr
