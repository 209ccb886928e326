#include "storage/postgres/hosts.h"

#include <cstdio>
#include <future>
#include <utility>

namespace dfsmr {
namespace {

Error Former(const PgConnection& connection) {
  return {Code::kUnavailable, Reason::kNone,
          connection.host() + ": it is a former primary: its timeline is " +
              std::to_string(connection.timeline().number) +
              ", and a later one has been there already (if it was restored from a backup: stop "
              "all servers, and run dsrv store renew)"};
}

PgTimeline ReadTimeline(const std::string& text) {
  unsigned long long system = 0;
  unsigned number = 0;
  if (std::sscanf(text.c_str(), "%llu:%u", &system, &number) != 2) return {};
  return {system, number};
}

}  // namespace

PgHosts::PgHosts(PgAddress address, const std::string& known, Tell tell)
    : address_(std::move(address)), tell_(std::move(tell)), known_(ReadTimeline(known)) {}

std::string PgHosts::known() const {
  const Lock lock(mutex_);
  return std::to_string(known_.system) + ":" + std::to_string(known_.number);
}

bool PgHosts::Accept(const PgConnection& connection) {
  const Lock lock(mutex_);
  if (known_.Before(connection.timeline())) known_ = connection.timeline();
  return !connection.timeline().Before(known_);
}

PgHosts::Opened PgHosts::Open(int host) const {
  return PgConnection::Open(address_, host, choice_);
}

std::optional<std::unique_ptr<PgConnection>> PgHosts::OpenChosen() {
  const int host = *choice_;
  if (host == kNoHost) return std::nullopt;
  auto opened = Open(host);
  if (opened && Accept(**opened)) return *std::move(opened);
  int same = host;
  choice_->compare_exchange_strong(same, kNoHost);
  return std::nullopt;
}

Result<std::unique_ptr<PgConnection>> PgHosts::Connect() {
  if (auto opened = OpenChosen()) return *std::move(opened);
  const uint64_t before = rounds_;
  const Lock lock(asking_);
  // Another thread may have asked meanwhile.
  if (auto opened = OpenChosen()) return *std::move(opened);
  if (rounds_ != before && nobody_) return *nobody_;
  auto best = Best(OpenAll());
  nobody_ = best ? std::nullopt : std::optional(best.error());
  ++rounds_;
  return best;
}

std::vector<PgHosts::Opened> PgHosts::OpenAll() const {
  std::vector<std::future<Opened>> asked;
  for (int host = 1; host < static_cast<int>(address_.hosts.size()); ++host) {
    asked.push_back(std::async(std::launch::async, [this, host] { return Open(host); }));
  }
  std::vector<Opened> all;
  all.push_back(Open(0));
  for (auto& one : asked) all.push_back(one.get());
  return all;
}

PgHosts::Opened PgHosts::Best(std::vector<Opened> all) {
  for (const Opened& one : all) {
    if (one) Accept(**one);
  }
  std::string former;
  std::string why;
  std::unique_ptr<PgConnection> best;
  for (Opened& one : all) {
    if (one && !Accept(**one)) {
      one = Former(**one);
      former += (former.empty() ? "" : "; ") + one.error().message;
    }
    if (!one) {
      why += (why.empty() ? "" : "; ") + one.error().message;
    } else if (!best) {
      best = *std::move(one);
    }
  }
  TellOf(former);
  if (!best) {
    return Error{Code::kUnavailable, Reason::kNone,
                 address_.shown + " cannot be reached: " + why};
  }
  *choice_ = best->number();
  return best;
}

void PgHosts::TellOf(const std::string& former) {
  if (std::exchange(told_, former) == former) return;
  if (!former.empty()) tell_(true, former + "; it is not used");
}

}  // namespace dfsmr
