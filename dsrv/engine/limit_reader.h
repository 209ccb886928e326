// Limits as clients see them: their numbers, who holds their keys and who waits for them, and what
// an instance waits for. It changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/limit_views.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/limit_table.h"

namespace dfsmr {

class LimitCounts;
class LimitEnvoy;
class LimitJudge;
class LimitNumbersBook;

class LimitReader {
 public:
  LimitReader(OpenTurn& turn, Residents& residents, const LimitTable& table,
              const LimitNumbersBook& numbers, const LimitCounts& counts, const LimitJudge& judge,
              const LimitEnvoy& envoy)
      : turn_(turn),
        residents_(residents),
        table_(table),
        numbers_(numbers),
        counts_(counts),
        judge_(judge),
        envoy_(envoy) {}

  // Of any key, also one that nobody has asked for. A page of those that wait begins after `after`.
  LimitView Get(const std::string& ns, const std::string& key, const std::string& after,
                size_t page) const;
  // As Get, without those that hold it or wait for it.
  LimitView Standing(const std::string& ns, const std::string& key) const;
  // In the order of their keys.
  std::vector<LimitView> List(const LimitQuery& query) const;
  // What an instance and its tokens wait for, who holds it, and how many of those that wait have an
  // earlier turn: at most so many are counted, which takes the longer the more there are.
  static constexpr size_t kAheadCounted = 1'000;
  InstanceWaits WaitsOf(const Instance& instance, size_t ahead_at_most = kAheadCounted) const;
  // Fills in numbers and holders of what an instance waits for at a limit, as far as they are
  // known: elsewhere home knows them. False: it has room now.
  bool Fill(const std::string& ns, const std::string& instance, uint64_t visit, WaitView* wait,
            size_t ahead_at_most = kAheadCounted) const;
  // Whether WaitsOf says more of an instance than its row does.
  static bool Concern(const Instance& instance, bool tasks_limited);

 private:
  std::string NodeOf(const std::string& ns, const std::string& id, uint64_t visit) const;
  void AddClosed(const Resident& resident, InstanceWaits* waits) const;
  void AddHolders(LimitView* view) const;
  void AddReady(const std::string& after, size_t page, LimitView* view) const;
  // The first key from `from` on that may be one of those asked for.
  std::optional<std::string> NextKey(const LimitQuery& query, const std::string& from) const;

  OpenTurn& turn_;
  Residents& residents_;
  const LimitTable& table_;
  const LimitNumbersBook& numbers_;
  const LimitCounts& counts_;
  const LimitJudge& judge_;
  const LimitEnvoy& envoy_;
};

}  // namespace dfsmr
