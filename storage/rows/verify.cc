#include "storage/rows/verify.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "fsm/plan/assemble.h"
#include "storage/rows/encoding.h"
#include "storage/rows/feed.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "storage/rows/keys.h"
#include "storage/rows/machine.h"
#include "storage/rows/path.h"
#include "storage/rows/space.h"

namespace dfsmr::rows {
namespace {

constexpr size_t kMostProblems = 1'000;

template <typename Message>
bool Parses(std::string_view value) {
  Message message;
  return message.ParseFromArray(value.data(), static_cast<int>(value.size()));
}

bool IsNumber(std::string_view value) { return value.size() == 8; }
bool IsAnything(std::string_view) { return true; }

using Decodes = bool (*)(std::string_view value);
struct KindOfRow {
  const char* name;
  Decodes decodes;
};

// What stands in the row of each kind; those of occurrences' index by the next byte of their keys.
const std::map<uint8_t, KindOfRow>& Kinds() {
  static const std::map<uint8_t, KindOfRow> kinds = {
      {kMachine, {"machine", Parses<record::Machine>}},
      {kLive, {"live instance", Parses<record::Instance>}},
      {kStopped, {"stopped instance", Parses<record::Instance>}},
      {kSpec, {"spec", Parses<record::Spec>}},
      {kOutput, {"output", IsAnything}},
      {kFeed, {"page of the feed", IsAnything}},  // see VerifyPage
      {kHistory, {"page of a history", Parses<record::HistoryPage>}},
      {kKept, {"record that is kept", Parses<record::Event>}},
      {kExpiry, {"expiry", Parses<record::Expiry>}},
      {kLabel, {"label", IsAnything}},
      {kByMachine, {"instance of a machine", IsAnything}},
      {kChildren, {"child", IsAnything}},
      {kStats, {"statistics", Parses<record::Stats>}},
      {kFeedStart, {"feed's start", IsNumber}},
      {kStatsSeq, {"statistics' place", IsNumber}},
      {kStep, {"step", Parses<record::Step>}},
      {kGraph, {"graph", Parses<record::Graph>}},
      {kSharedGraph, {"shared graph", Parses<record::Graph>}},
      {kStarts, {"children to start", Parses<record::Starts>}},
      {kPlanned, {"flow of a planner", IsAnything}},
      {kUnstarted, {"child that was not started", IsAnything}},
      {kCredential, {"access token", Parses<record::AccessToken>}},
      {kDropped, {"statistics of what was removed", Parses<record::Stats>}},
      {kDocument, {"document", Parses<record::DocumentHead>}},
      {kDocumentText, {"document's text", Parses<record::Document>}},
      {kOccurrence, {"occurrence", Parses<record::Occurrence>}},
      {kSchedule, {"schedule", Parses<record::ScheduleState>}},
      {kOccurrenceIndex, {"occurrences' index", IsAnything}},
      {kTrigger, {"trigger", IsAnything}},  // also a number, see VerifyRow
      {kGathering, {"gathering", Parses<record::Gathering>}},
      {kGathered, {"gathered item", Parses<record::Gathered>}},
      {kSeen, {"item that was seen", IsAnything}},
      {kLimitOverride, {"limit", Parses<record::LimitOverride>}},
      {kLimitRate, {"rate", IsNumber}},
      {kLimitAsker, {"limit's last asker", Parses<record::LimitOverride>}},
      {kAgent, {"agent", Parses<record::Agent>}},
      {kLeftover, {"leftover", Parses<record::Leftover>}},
      {kClock, {"clock", Parses<record::Clock>}},
      {kSpace, {"namespace", Parses<record::Namespace>}},
      {kGroupHead, {"group", Parses<record::InstanceGroup>}},
      {kMember, {"member", IsAnything}},
      {kByCause, {"instance of a cause", IsAnything}},
      {kPackage, {"package", Parses<record::Package>}},
      {kPackageVersion, {"package version", Parses<record::PackageVersion>}},
      {kActivation, {"activation", Parses<record::PackageActivation>}},
      {kPackagePiece, {"piece of a package", IsAnything}},
      {kPackageText, {"text of a package", IsAnything}},
      {kTrustedKey, {"trusted key", Parses<record::TrustedKey>}},
      {kPackageSignature, {"signature", Parses<record::PackageSignature>}},
      {kPackageDefined, {"definitions of a package", Parses<record::PackageDefined>}},
      {kSecret, {"secret", Parses<record::Secret>}},
      {kSealedSecret, {"sealed secret", Parses<record::SealedSecret>}},
      {kBulk, {"bulk", Parses<record::Bulk>}},
      {kOut, {"message to another partition", Parses<record::Message>}},
      {kIn, {"number of another partition's messages", IsNumber}},
      {kFollower, {"follower in another partition", IsNumber}},
      {kGuest, {"guest of a limit", Parses<record::Message>}},
      {kTold, {"number of what home was told", IsNumber}},
      {kEmptied, {"partition without a namespace", IsNumber}},
      {kCounted, {"key of limits that is counted", Parses<record::Counted>}},
      {kPast, {"start of the feed's past", IsNumber}},
      {kCopied, {"place that a copy has come to", IsAnything}},
  };
  return kinds;
}

class Verifier {
 public:
  Verifier(const Reader& reader, PartitionId home, Verified* verified)
      : reader_(reader), home_{reader.view, home}, feed_(reader), verified_(*verified) {}

  Result<Ok> Run(const CompileSource& compile) {
    CompileAll(compile);
    auto spaces = ScanSpaces(home_, [this](std::string_view ns, const SpaceRow& row) {
      if (row.state == SpaceState::kDropping) dropping_.emplace(ns);
    });
    if (!spaces) Problem(spaces.error());
    Key begin(reader_.partition, Kind{});
    const std::string first = begin.bytes();
    std::string end = first;
    end.back() = '\xFF';
    auto scanned =
        reader_.view.ScanOnce(first, end, [this](std::string_view key, std::string_view value) {
          ++verified_.rows;
          VerifyRow(key, value);
          return true;
        });
    if (stopped_ != expiries_) {
      Problem(std::to_string(stopped_) + " instances have stopped, and " +
              std::to_string(expiries_) + " rows say when one may be removed");
    }
    return scanned;
  }

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, id

  void Problem(std::string text) {
    ++verified_.wrong;
    if (verified_.problems.size() < kMostProblems) verified_.problems.push_back(std::move(text));
  }
  void Problem(const Error& error) { Problem(error.message); }

  static std::string Called(const Name& name) {
    return "instance '" + name.second + "' of namespace '" + name.first + "'";
  }

  void CompileAll(const CompileSource& compile) {
    const bool here = home_.partition == reader_.partition;
    auto scanned = ScanMachines(home_, [&](const MachineRow& row) {
      if (here && !row.graph.empty() && !GraphIn(row.graph)) {
        Problem("version " + std::to_string(row.version) + " of plan '" + row.id +
                "' of namespace '" + row.ns + "': the graph that it was compiled to is damaged");
      }
      auto machine = compile(row.source);
      if (machine) {
        machines_[{row.ns, row.id, row.version}] =
            std::make_unique<const Machine>(*std::move(machine));
      } else if (here) {
        Problem("version " + std::to_string(row.version) + " of machine '" + row.id +
                "' of namespace '" + row.ns + "' is not accepted: " + machine.error().message);
      }
    });
    if (!scanned) Problem(scanned.error());
    resolve_ = [this](std::string_view ns, std::string_view machine, uint32_t version) {
      const auto found = machines_.find({std::string(ns), std::string(machine), version});
      return found == machines_.end() ? nullptr : found->second.get();
    };
  }

  void VerifyRow(std::string_view key, std::string_view value) {
    const auto kind = static_cast<uint8_t>(key[sizeof(PartitionId)]);
    const auto known = Kinds().find(kind);
    if (known == Kinds().end()) return Problem(Corrupt("row of an unknown kind", key));
    if (!known->second.decodes(value)) return Problem(Corrupt(known->second.name, key));
    KeyReader parts(key);
    switch (kind) {
      case kFeed:
        return VerifyPage(parts.Number(), value);
      case kLive:
      case kStopped:
        return VerifyInstance(key, value, kind == kStopped);
      case kSpec:
        return VerifySpec(parts, key);
      case kExpiry:
        return VerifyExpiry(parts);
      case kLabel:
        return VerifyLabel(parts);
      case kByMachine:
      case kChildren:
      case kMember:
      case kByCause:
        return VerifyIndex(kind, parts);
      case kOut:
        return VerifyOut(parts, key);
      case kFollower:
        return VerifyFollower(parts);
      default:
        return;
    }
  }

  void VerifyPage(uint64_t first, std::string_view value) {
    auto read = ReadPage({first, 0, std::string(value)}, 0, [](const Event&) { return true; });
    if (!read) Problem(read.error());
  }

  // Instances -------------------------------------------------------------------------------------

  void VerifyInstance(std::string_view key, std::string_view value, bool stopped) {
    ++verified_.instances;
    KeyReader parts(key);
    const std::string_view ns = parts.Text();
    const InstanceName name(ns, parts.Text());
    stopped_ += stopped ? 1 : 0;
    auto instance = DecodeInstance(reader_, name, key, value, resolve_);
    if (!instance) return Problem(instance.error());
    const Name called{instance->ns, instance->id};
    if (instance->Stopped() != stopped) {
      Problem(Called(called) + (stopped ? " has not stopped, and lies among those that have"
                                        : " has stopped, and lies among those that live"));
    }
    if (!stopped) VerifyPlace(*instance);
    VerifyHistory(*instance);
    VerifyIndexed(*instance);
  }

  // A live instance stands where its machine has a node.
  void VerifyPlace(const Instance& instance) {
    const Machine* machine = instance.plan
                                 ? GraphOf(instance)
                                 : resolve_(instance.ns, instance.machine, instance.version);
    if (!machine) return;
    for (const Token& token : instance.tokens) {
      if (token.node < machine->nodes.size()) continue;
      Problem(Called({instance.ns, instance.id}) + " stands at visit " +
              std::to_string(token.visit) + " on a node that machine '" + instance.machine +
              "' does not have");
    }
  }

  // Of a plan that has been planned; null: it has not been, or its graph cannot be read.
  const Machine* GraphOf(const Instance& instance) {
    if (instance.plan->graph.empty()) return nullptr;
    auto graph = GetGraph(reader_, instance);
    if (!graph) {
      Problem(graph.error());
      return nullptr;
    }
    Machine machine;
    machine.id = instance.machine;
    graph_ = std::make_unique<const Machine>(
        Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), std::move(machine)));
    return graph_.get();
  }

  // Each record is there, is of this instance, comes after the one before, and leads on from there.
  void VerifyHistory(const Instance& instance) {
    const Name name{instance.ns, instance.id};
    auto seqs = History(reader_, instance, 0);
    if (!seqs) return Problem(seqs.error());
    Path path;
    uint64_t before = 0;
    for (const uint64_t seq : *seqs) {
      ++verified_.records;
      if (seq <= before)
        Problem("the history of " + Called(name) + " goes back at record " + std::to_string(seq));
      before = seq;
      auto event = feed_.Get(seq);
      if (!event) {
        Problem("the history of " + Called(name) + " has record " + std::to_string(seq) + ": " +
                event.error().message);
        continue;
      }
      if (event->ns != instance.ns || event->instance != instance.id) {
        Problem("the history of " + Called(name) + " has record " + std::to_string(seq) +
                ", which is of instance '" + event->instance + "'");
        continue;
      }
      VerifyStep(name, *event, &path);
    }
    if (seqs->empty()) Problem(Called(name) + " has no history");
  }

  void VerifyStep(const Name& name, const Event& event, Path* path) {
    if (path->Follow(event, resolve_(event.ns, event.machine, event.version))) return;
    Problem("the history of " + Called(name) + " is no path: record " + std::to_string(event.seq) +
            " leads from '" + event.prev_node + "' by '" + event.transition + "' to '" +
            event.node + "'");
  }

  // Indexes ---------------------------------------------------------------------------------------

  bool Dropping(std::string_view ns) const { return dropping_.contains(std::string(ns)); }

  void MustHave(const Key& key, const Name& name, const char* what) {
    auto row = reader_.view.Get(key.bytes());
    if (!row) return Problem(row.error());
    if (!*row) Problem(Called(name) + " is missing in the index of " + what);
  }

  // The indexes have the instance.
  void VerifyIndexed(const Instance& instance) {
    if (Dropping(instance.ns)) return;
    const Name name{instance.ns, instance.id};
    auto spec = FindSpec(reader_, instance);
    if (!spec) return Problem(spec.error());
    if (!*spec) return Problem(Called(name) + " has no spec");
    const auto& [ns, id] = name;
    const PartitionId partition = reader_.partition;
    MustHave(Key(partition, kByMachine).Text(ns).Text(instance.machine).Text(id), name, "machines");
    for (const auto& [key, value] : (*spec)->labels) {
      MustHave(Key(partition, kLabel).Text(ns).Text(key).Text(value).Text(id), name, "labels");
    }
    if (!instance.parent.empty()) {
      MustHave(Key(partition, kChildren).Text(ns).Text(instance.parent).Text(id), name, "children");
    }
    if (!instance.provenance) return;
    const auto& [group, cause] = std::tie(instance.provenance->group, instance.provenance->cause);
    if (!group.empty())
      MustHave(Key(partition, kMember).Text(ns).Text(group).Text(id), name, "groups");
    if (!cause.empty())
      MustHave(Key(partition, kByCause).Text(ns).Text(cause).Text(id), name, "causes");
  }

  // The instance that an index names; nullopt: there is none, which has been told.
  std::optional<Instance> Named(const Name& name, const char* index) {
    auto instance = GetInstance(reader_, {name.first, name.second}, resolve_);
    if (instance) return *std::move(instance);
    if (instance.error().code == Code::kNotFound) {
      Problem("the index of " + std::string(index) + " has " + Called(name) +
              ", which there is not");
    }
    return std::nullopt;  // one that cannot be decoded is told where its row is
  }

  bool Exists(const Name& name) {
    for (const Kind kind : {kLive, kStopped}) {
      auto row =
          reader_.view.Get(Key(reader_.partition, kind).Text(name.first).Text(name.second).bytes());
      if (!row) Problem(row.error());
      if (!row || *row) return true;
    }
    return false;
  }

  void VerifySpec(KeyReader parts, std::string_view key) {
    const std::string ns(parts.Text());
    const std::string id(parts.Text());
    if (!Dropping(ns) && !Exists({ns, id})) Problem(Corrupt("spec without an instance", key));
  }

  void VerifyExpiry(KeyReader parts) {
    ++expiries_;
    (void)parts.Number();
    const std::string ns(parts.Text());
    const std::string id(parts.Text());
    auto row = reader_.view.Get(Key(reader_.partition, kStopped).Text(ns).Text(id).bytes());
    if (!row) return Problem(row.error());
    if (!*row) Problem(Called({ns, id}) + " may be removed at a time, and has not stopped");
  }

  void VerifyLabel(KeyReader parts) {
    const std::string ns(parts.Text());
    const std::string key(parts.Text());
    const std::string value(parts.Text());
    const std::string id(parts.Text());
    if (Dropping(ns)) return;
    auto spec = FindSpec(reader_, {ns, id});
    if (!spec) return;  // told where its row is
    const auto& labels = *spec ? (*spec)->labels : decltype((*spec)->labels)();
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) {
      Problem("the index of labels has " + Called({ns, id}) + " with " + key + "=" + value +
              ", and it has no such label");
    }
  }

  void VerifyIndex(uint8_t kind, KeyReader parts) {
    const std::string ns(parts.Text());
    const std::string under(parts.Text());
    const Name name{ns, std::string(parts.Text())};
    if (Dropping(ns)) return;
    const char* index = kind == kByMachine  ? "machines"
                        : kind == kChildren ? "children"
                        : kind == kMember   ? "groups"
                                            : "causes";
    const auto instance = Named(name, index);
    if (!instance) return;
    const Provenance provenance = instance->provenance ? *instance->provenance : Provenance();
    const std::string& is = kind == kByMachine  ? instance->machine
                            : kind == kChildren ? instance->parent
                            : kind == kMember   ? provenance.group
                                                : provenance.cause;
    if (is == under) return;
    Problem("the index of " + std::string(index) + " has " + Called(name) + " under '" + under +
            "', and it is of '" + is + "'");
  }

  // Messages --------------------------------------------------------------------------------------

  // Those to one partition have numbers without gaps.
  void VerifyOut(KeyReader parts, std::string_view key) {
    const auto to = static_cast<PartitionId>(parts.Number(2));
    const uint64_t number = parts.Number();
    const auto last = last_out_.find(to);
    if (to == reader_.partition || number == 0) Problem(Corrupt("message to nobody else", key));
    if (last != last_out_.end() && number != last->second + 1) {
      Problem("message " + std::to_string(number) + " to partition " + std::to_string(to) +
              " comes after " + std::to_string(last->second));
    }
    last_out_[to] = number;
  }

  // What it follows is here, and has not stopped.
  void VerifyFollower(KeyReader parts) {
    const std::string ns(parts.Text());
    const std::string id(parts.Text());
    const std::string follower(parts.Text());
    if (Dropping(ns)) return;
    auto row = reader_.view.Get(Key(reader_.partition, kLive).Text(ns).Text(id).bytes());
    if (!row) return Problem(row.error());
    if (*row) return;
    Problem("'" + follower + "' of another partition follows " + Called({ns, id}) +
            ", which does not live here");
  }

  const Reader reader_;
  const Reader home_;
  FeedReader feed_;
  Verified& verified_;
  std::map<PartitionId, uint64_t> last_out_;  // the last message to each
  std::map<std::tuple<std::string, std::string, uint32_t>, std::unique_ptr<const Machine>>
      machines_;
  std::unique_ptr<const Machine> graph_;  // of the plan that is looked at
  Resolve resolve_;
  std::set<std::string> dropping_;  // namespaces whose rows go by and by
  uint64_t stopped_ = 0;
  uint64_t expiries_ = 0;
};

}  // namespace

Result<Ok> Verify(const Reader& reader, const CompileSource& compile, Verified* verified,
                  std::optional<PartitionId> home) {
  return Verifier(reader, home.value_or(reader.partition), verified).Run(compile);
}

}  // namespace dfsmr::rows
