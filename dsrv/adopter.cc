#include "dsrv/adopter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/engine.h"
#include "dsrv/served.h"
#include "storage/place.h"

namespace dfsmr {

void Adopter::Adopt(const std::string& ns, Done done) {
  {
    Lock lock(mutex_);
    if (stopped_) {
      lock.Unlock();
      return done(false);
    }
    asked_.emplace_back(ns, std::move(done));
  }
  Next();
}

void Adopter::Stop() {
  Asked asked;
  {
    const Lock lock(mutex_);
    stopped_ = true;
    asked.swap(asked_);
  }
  for (const auto& [ns, done] : asked) done(false);
}

void Adopter::Next() {
  const Lock lock(mutex_);
  if (busy_ || asked_.empty()) return;
  busy_ = true;
  pool_.Post([this, asked = std::exchange(asked_, {})] { Read(asked); });
}

void Adopter::Read(const Asked& asked) {
  const auto same = [&asked](const auto& one) { return one.first == asked.front().first; };
  const std::string ns = std::ranges::all_of(asked, same) ? asked.front().first : "";
  auto read = access_.Reload(reader_.store, kHome);
  auto adoption = read ? ReadAdoption(reader_, kHome, CompileStored, ns) : read.error();
  if (!adoption) {
    spdlog::warn("what home has defined could not be read: {}", adoption.error().message);
    return End(asked, false);
  }
  auto shared = std::make_shared<Adoption>(*std::move(adoption));
  Mailbox::Mail mail{.run =
                         [this, asked, shared](Engine& engine) {
                           engine.Adopt(std::move(*shared));
                           End(asked, true);
                         },
                     .drop = [this, asked] { End(asked, false); },
                     .owed = true};
  if (!loop_.Post(std::move(mail))) End(asked, false);
}

void Adopter::End(const Asked& asked, bool done) {
  {
    const Lock lock(mutex_);
    busy_ = false;
  }
  for (const auto& one : asked) one.second(done);
  Next();
}

}  // namespace dfsmr
