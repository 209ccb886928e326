// Starts instances: for callers, and for the server itself.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "fsm/rules/instance.h"
#include "storage/rows/message.h"

namespace dfsmr {

// The refusal of what is asked of the engine for an instance that lives in another partition:
// whoever has asked has not looked where it lives. `what`: "start it".
Error LivesNotHere(std::string_view ns, std::string_view id, const EngineOptions& options,
                   std::string_view what);

class Starter {
 public:
  Starter(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Limits& limits,
          Followers& followers, Planner& planner, Spaces& spaces, Messages& messages,
          const PackageTable& packages, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        limits_(limits),
        followers_(followers),
        planner_(planner),
        spaces_(spaces),
        messages_(messages),
        packages_(packages),
        options_(options) {}

  // The started instance, or an earlier one with the same id that was started in the same way. An
  // error, too, when it would live elsewhere.
  Result<Started> Start(StartArgs args);
  // Whether home has the machine of a start, which is still to be adopted here.
  bool ToBeAdopted(const StartArgs& args) const;
  // Elsewhere than at home: what home is to be asked before this is started, as Limits has it. The
  // start has its id then.
  std::optional<rows::Message::Stake> QuestionOf(StartArgs* args);
  // At home: whether limits leave out one that is to begin elsewhere. Its place is kept.
  Result<Ok> MayBeginElsewhere(const StartArgs& args);
  // Has it started where it lives, which is elsewhere, once this turn is durable. What becomes of
  // it is told to `asker`.
  void StartElsewhere(const StartArgs& args, rows::Message::Asker asker);

  // A start that is possible.
  struct Prepared {
    StartArgs args;  // with the id of the instance
    VersionState* version =
        nullptr;  // of the instance that will be made; null: it is there already
    bool elsewhere = false;  // where it will live
  };
  // Looks whether all of `starts` are possible, one after the other, and changes nothing. The error
  // names the first start that is not. Of those that will live elsewhere it does not know whether
  // their ids are taken, nor whether limits there have room for them.
  Result<std::vector<Prepared>> Prepare(std::vector<StartArgs> starts);
  // Makes the instance, unless it is there already. Call it in the turn of Prepare, in the same
  // order, and with at most one change of one instance between the two. Returns null when the
  // instance was there, or lives elsewhere: then `asker` is told what becomes of it.
  Resident* Begin(Prepared prepared, const rows::Message::Asker& asker = {});
  // Of a start that names a version of a package, "P.NAME@VERSION".
  Result<VersionState*> VersionAt(const StartArgs& args);

 private:
  using Ended = std::vector<std::pair<std::string, InstanceResult>>;
  using Earlier = std::map<std::pair<std::string, std::string>, const StartArgs*>;  // by ns and id
  using Reserved = std::map<std::string, uint64_t>;  // places under limits, by ns\0key

  // `earlier`: the starts of the same report that come before this one.
  // `reserved`: the places under limits that these are to take; null: there are none. `before`: how
  // many of them make an instance.
  Result<Prepared> Examine(StartArgs args, const Earlier& earlier, Reserved* reserved,
                           uint64_t before = 0);
  // Whether the id is taken by an instance that was started in the same way. An error: by another
  // one.
  Result<bool> Exists(const StartArgs& args, const Earlier& earlier);
  std::string DrawId(const std::string& ns);  // of one that lives here
  // The version that `args` names, or the reason why it cannot be started.
  Result<VersionState*> VersionOf(const StartArgs& args);
  static Result<VersionState*> Standing(VersionState* version);
  // Those that have stopped already, of the instances that must have before another one begins. An
  // instance of `earlier` has not.
  Result<Ended> EndedOf(const StartArgs& args, const Earlier& earlier);
  // What the params of a start are held against; null: anything goes.
  std::shared_ptr<const ParamsCheck> CheckOf(const StartArgs& args, const Machine& machine,
                                             const PackageVersion* package);
  Resident& Create(Prepared prepared);
  void Run(Resident& resident, const Ended& ended);
  // Gives its share of starts a trace.
  void Sample(StartArgs* args);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Limits& limits_;
  Followers& followers_;
  Planner& planner_;
  Spaces& spaces_;
  Messages& messages_;
  const PackageTable& packages_;
  const EngineOptions& options_;
};

}  // namespace dfsmr
