#include "tests/chaos/audit.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace dfsmr::chaos {
namespace {

// Instance, node left, transition, visit entered (0: of a plan).
using Kept = std::tuple<std::string, std::string, std::string, uint64_t>;

// What the feed tells of one instance.
struct Story {
  std::string machine;
  uint64_t started = 0;   // the record
  uint64_t finished = 0;
  std::string end;        // where, of a machine; and with what result
  std::string result;
  std::string node;       // where a machine stands
  uint64_t visit = 0;
  std::vector<uint64_t> records;      // of what moved it
};

bool IsFinal(const std::string& node) { return node == "done" || node == "failed"; }

std::string Next(const std::string& node, const std::string& transition) {
  static const std::map<std::pair<std::string, std::string>, std::string> edges = {
      {{"a", "ok"}, "b"}, {{"a", "again"}, "a"}, {{"b", "ok"}, "c"},       {{"b", "back"}, "a"},
      {{"c", "ok"}, "done"}, {{"c", "back"}, "a"}, {{"c", "error"}, "failed"}};
  const auto found = edges.find({node, transition});
  return found == edges.end() ? "" : found->second;
}

class Auditor {
 public:
  Auditor(const Dsrv& server, const Ledger& ledger, const std::vector<Watched>& watched,
          Findings* findings)
      : stub_(server.Connect()), ledger_(ledger), watched_(watched), findings_(*findings) {}

  AuditFigures Run() {
    ReadFeed();
    CheckStarts();
    CheckReports();
    CheckHandOuts();
    CheckCancels();
    for (const auto& [id, story] : stories_) CheckStory(id, story);
    CheckPlans();
    CompareWithServer();
    figures_.instances = stories_.size();
    return figures_;
  }

 private:
  void Wrong(const std::string& what) { findings_.Add(what); }

  void ReadFeed() {
    grpc::ClientContext context;
    v1::ChangesRequest request;
    request.set_after("0");
    auto stream = stub_.Changes(&context, request);
    v1::ChangesResponse response;
    while (stream->Read(&response)) {
      for (const v1::Change& change : response.changes()) {
        if (change.seq() != ++figures_.records) {
          return Wrong("the feed has record " + std::to_string(change.seq()) + " where " +
                       std::to_string(figures_.records) + " should be");
        }
        for (const Watched& watched : watched_) {
          if (change.seq() <= watched.hashes.size() &&
              watched.hashes[change.seq() - 1] != HashOf(change)) {
            return Wrong("record " + std::to_string(change.seq()) +
                         " is not what a watcher had seen: now " + change.ShortDebugString());
          }
        }
        Take(change);
      }
    }
    if (!stream->Finish().ok()) Wrong("the feed could not be read");
    for (const Watched& watched : watched_) {
      if (watched.hashes.size() > figures_.records) {
        Wrong("a watcher saw " + std::to_string(watched.hashes.size()) + " records, and only " +
              std::to_string(figures_.records) + " are there");
      }
    }
  }

  void Take(const v1::Change& change) {
    if (change.instance().empty()) return;
    Story& story = stories_[change.instance()];
    if (change.kind() == v1::Change::LATE) return;  // it was refused, and counts at a resume
    if (change.kind() == v1::Change::RESUMED) story.finished = 0;
    if (story.finished != 0) {
      Wrong(change.instance() + " had finished at record " + std::to_string(story.finished) +
            ", and then came " + change.ShortDebugString());
    }
    story.machine = change.machine();
    switch (change.kind()) {
      case v1::Change::STARTED:
        if (story.started != 0) Wrong(change.instance() + " was started twice");
        story.started = change.seq();
        story.node = change.node();
        story.visit = change.visit();
        break;
      case v1::Change::CLAIMED: {
        const bool fresh =
            claims_.insert({change.instance(), change.visit(), change.attempt()}).second;
        if (!fresh) Wrong("the same attempt twice: " + change.ShortDebugString());
        break;
      }
      case v1::Change::RELINQUISHED:
        // What never reached its worker does not count as an attempt.
        claims_.erase({change.instance(), change.visit(), change.attempt()});
        break;
      case v1::Change::TRANSITIONED:
      case v1::Change::SUSPENDED:
        Step(change, &story);
        break;
      case v1::Change::FINISHED:
        story.finished = change.seq();
        story.end = change.node();
        story.result = change.note().substr(0, change.note().find(':'));
        break;
      default: break;
    }
    if (change.kind() == v1::Change::TRANSITIONED || change.kind() == v1::Change::FINISHED) {
      story.records.push_back(change.seq());
    }
  }

  void Step(const v1::Change& change, Story* story) {
    ++figures_.transitions;
    // What comes next in a plan may wait for other steps, and then a report enters no visit.
    const bool plan = change.machine() != "route";
    const uint64_t visit = plan ? 0 : change.visit();
    ++kept_[{change.instance(), change.prev_node(), change.transition(), visit}];
    if (plan) return;
    if (change.prev_node() != story->node ||
        Next(change.prev_node(), change.transition()) != change.node()) {
      Wrong("no path of its machine: " + change.ShortDebugString() + " where it stood at " +
            story->node);
    }
    if (change.visit() <= story->visit) {
      Wrong("a visit number used twice: " + change.ShortDebugString());
    }
    story->node = change.node();
    story->visit = change.visit();
  }

  void CheckStarts() {
    for (const std::string& id : ledger_.started) {
      const auto found = stories_.find(id);
      if (found == stories_.end() || found->second.started == 0) {
        Wrong("the start of " + id + " was acknowledged and is lost");
      }
    }
  }

  void CheckReports() {
    std::set<std::tuple<std::string, std::string, uint64_t>> won;
    std::map<Kept, int> told;
    for (const auto& accepted : ledger_.accepted) {
      const bool plan = accepted.by != 0;
      if (!won.insert({accepted.instance, accepted.prev_node, accepted.left}).second) {
        Wrong("two reports of one visit were accepted: visit " + std::to_string(accepted.left) +
              " of " + accepted.instance + " at " + accepted.prev_node);
      }
      // A failed try goes on by itself; only what was done is told as it was reported.
      if (plan && accepted.transition != "ok") continue;
      ++told[{accepted.instance, accepted.prev_node, accepted.transition,
              plan ? 0 : accepted.visit}];
    }
    for (const auto& [key, times] : told) {
      const auto found = kept_.find(key);
      const int kept = found == kept_.end() ? 0 : found->second;
      const auto& [instance, node, transition, visit] = key;
      const bool plan = visit == 0;  // has a record for each way that the step leads on
      if (plan ? kept >= times : kept == times) continue;
      Wrong("the report " + transition + " of " + instance + " at " + node + " (entered visit " +
            std::to_string(visit) + ") was acknowledged " + std::to_string(times) +
            " times and is in the feed " + std::to_string(kept) + " times");
    }
  }

  void CheckHandOuts() {
    std::map<std::pair<std::string, uint64_t>, int> times;
    for (const auto& visit : ledger_.handed) ++times[visit];
    for (const auto& visit : ledger_.given_back) --times[visit];
    for (const auto& [visit, more] : times) {
      if (more <= 1) continue;
      Wrong("at most once, but visit " + std::to_string(visit.second) + " of " + visit.first +
            " was handed out " + std::to_string(more) + " times more than it was given back");
    }
  }

  void CheckCancels() {
    for (const auto& [id, forced] : ledger_.cancelled) {
      const auto found = stories_.find(id);
      if (found == stories_.end() || found->second.finished == 0) {
        Wrong("the cancel of " + id + " was acknowledged, and it goes on");
      } else if (found->second.result != "CANCELLED") {
        Wrong("the cancel of " + id + " was acknowledged, and it ended with " +
              found->second.result);
      }
      cancelled_.insert(id);
    }
  }

  void CheckStory(const std::string& id, const Story& story) {
    if (story.started == 0 && story.finished == 0) Wrong(id + " was never started");
    if (story.machine != "route" || story.finished == 0) return;
    if (!IsFinal(story.node) && story.result != "CANCELLED") {
      Wrong(id + " finished at " + story.node + " with " + story.result);
    }
    if (IsFinal(story.node) != (story.result == "SUCCESS" || story.result == "ERROR") &&
        story.result != "CANCELLED") {
      Wrong(id + " stands at " + story.node + " and ended with " + story.result);
    }
  }

  // Plans that nobody cancelled: every step was done once, with the data of the others.
  void CheckPlans() {
    std::map<std::string, std::map<std::string, std::vector<const Ledger::Accepted*>>> by_instance;
    std::map<std::string, int> mails;
    for (const auto& accepted : ledger_.accepted) {
      if (accepted.by == 0) continue;
      by_instance[accepted.instance][accepted.prev_node].push_back(&accepted);
      const auto input = nlohmann::json::parse(accepted.input, nullptr, false);
      if (accepted.transition == "ok" && input.is_object() && input.contains("of")) {
        ++mails[input["of"].get<std::string>()];
      }
    }
    for (const std::string& id : ledger_.started) {
      if (id.find(".main.") == std::string::npos) continue;
      ++figures_.plans;
      const Story& story = stories_[id];
      if (story.finished == 0) {
        Wrong("plan " + id + " has not ended");
        continue;
      }
      if (mails[id] != 1) {
        Wrong("the hook of " + id + " was worked off " + std::to_string(mails[id]) + " times");
      }
      CheckChildren(id, story);
      if (!cancelled_.contains(id)) CheckPlan(id, story, by_instance[id]);
    }
  }

  void CheckPlan(const std::string& id, const Story& story,
                 const std::map<std::string, std::vector<const Ledger::Accepted*>>& reports) {
    if (story.result != "SUCCESS" && story.result != "WARNING") {
      return Wrong("plan " + id + " ended with " + story.result);
    }
    const v1::Instance instance = Get(id);
    for (const char* node :
         {"first", "ask", "kids", "picky", "s1", "s2", "last", "s1/finalize", "s2/finalize"}) {
      const auto found = reports.find(node);
      int done = 0;
      int64_t by = 0;
      if (found != reports.end()) {
        for (const auto* report : found->second) {
          if (report->transition != "ok") continue;
          ++done;
          by = report->by;
        }
      }
      if (done != 1) {
        Wrong("step " + std::string(node) + " of " + id + " was done " + std::to_string(done) +
              " times");
        continue;
      }
      if (std::string(node).find('/') != std::string::npos) continue;
      const auto output = instance.outputs().find(node);
      if (output == instance.outputs().end() ||
          output->second != "{\"by\": " + std::to_string(by) + "}") {
        Wrong("the output of " + std::string(node) + " of " + id + " is not what was acknowledged");
      }
    }
    CheckEvents(id, reports.at("ask"));
  }

  // Acknowledged events were handed over, in order, and none that nobody sent.
  void CheckEvents(const std::string& id, std::vector<const Ledger::Accepted*> reports) {
    std::ranges::sort(reports, {}, &Ledger::Accepted::left);
    int64_t last = 0;
    std::map<int64_t, int> times;
    for (const auto* report : reports) {
      if (report->event != "tell") continue;
      if (report->number < last) Wrong("events of " + id + " came out of order");
      last = report->number;
      ++times[last];
    }
    for (int number = 1; number <= kEvents; ++number) {
      const auto sent = ledger_.events_sent.find({id, number});
      const int most = sent == ledger_.events_sent.end() ? 0 : sent->second;
      if (times[number] < 1 || times[number] > most) {
        Wrong("event " + std::to_string(number) + " of " + id + " was sent " +
              std::to_string(most) + " times and came " + std::to_string(times[number]) +
              " times");
      }
    }
  }

  void CheckChildren(const std::string& id, const Story& story) {
    int children = 0;
    for (auto child = stories_.lower_bound(id + "/");
         child != stories_.end() && child->first.starts_with(id + "/"); ++child) {
      ++children;
      const Story& own = child->second;
      if (own.finished == 0) {
        Wrong("child " + child->first + " has not ended, its parent has");
      } else if (!cancelled_.contains(id) && own.result != "SUCCESS") {
        Wrong("child " + child->first + " ended with " + own.result);
      } else if (!cancelled_.contains(id) && own.finished > story.finished) {
        Wrong("child " + child->first + " ended after its parent");
      }
    }
    if (!cancelled_.contains(id) && children != kSpawned + kKids) {
      Wrong("plan " + id + " had " + std::to_string(children) + " children");
    }
  }

  v1::Instance Get(const std::string& id) {
    grpc::ClientContext context;
    v1::GetInstanceRequest request;
    v1::Instance instance;
    request.set_id(id);
    const grpc::Status status = stub_.GetInstance(&context, request, &instance);
    if (!status.ok()) Wrong("GetInstance " + id + ": " + status.error_message());
    return instance;
  }

  // The server's own word about every so many of the instances.
  void CompareWithServer() {
    constexpr std::size_t kCompared = 1'000;
    const std::size_t every = stories_.size() / kCompared + 1;
    std::size_t at = 0;
    for (const auto& [id, story] : stories_) {
      if (at++ % every != 0) continue;
      ++figures_.compared;
      const v1::Instance instance = Get(id);
      const bool stopped = instance.state() == v1::Instance::STOPPED;
      if (stopped != (story.finished != 0)) {
        Wrong(id + " is " + v1::Instance::State_Name(instance.state()) +
              ", and the feed says otherwise");
      }
      if (stopped && v1::Instance::Result_Name(instance.result()) != story.result) {
        Wrong(id + " is " + v1::Instance::Result_Name(instance.result()) + ", and the feed says " +
              story.result);
      }
      if (story.machine == "route" && story.result != "CANCELLED" &&
          (instance.tokens_size() != 1 || instance.tokens(0).node() != story.node ||
           instance.tokens(0).visit() != story.visit)) {
        Wrong(id + " does not stand where the feed says, " + story.node + " visit " +
              std::to_string(story.visit) + ": " + instance.ShortDebugString());
      }
      CompareHistory(id, story);
    }
  }

  void CompareHistory(const std::string& id, const Story& story) {
    std::vector<uint64_t> records;
    v1::GetHistoryRequest request;
    request.set_id(id);
    request.set_page_size(1'000);
    do {
      grpc::ClientContext context;
      v1::GetHistoryResponse page;
      const grpc::Status status = stub_.GetHistory(&context, request, &page);
      if (!status.ok()) return Wrong("GetHistory " + id + ": " + status.error_message());
      for (const v1::Change& change : page.changes()) {
        if (change.kind() == v1::Change::TRANSITIONED || change.kind() == v1::Change::FINISHED) {
          records.push_back(change.seq());
        }
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    if (records != story.records) Wrong("the history of " + id + " is not what the feed says");
  }

  Stub stub_;
  const Ledger& ledger_;
  const std::vector<Watched>& watched_;
  Findings& findings_;
  AuditFigures figures_;
  std::map<std::string, Story> stories_;
  std::set<std::tuple<std::string, uint64_t, uint32_t>> claims_;
  std::map<Kept, int> kept_;  // records
  std::set<std::string> cancelled_;
};

}  // namespace

AuditFigures Audit(const Dsrv& server, const Ledger& ledger, const std::vector<Watched>& watched,
                   Findings* findings) {
  return Auditor(server, ledger, watched, findings).Run();
}

}  // namespace dfsmr::chaos
