#include "tests/sim/messages/message_sim.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "fsm/yaml/definitions.h"
#include "record.pb.h"
#include "storage/rows/bare.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"
#include "storage/rows/verify.h"

namespace dfsmr::message_sim {
namespace {

constexpr std::string_view kJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done, bad: broken, again: work}}
  done: {final: true}
  broken: {final: true, result: error}
)";
constexpr int kSteps = 400;

std::string Text(const Parted::Letter& one) {
  return "message " + std::to_string(one.number) + " from " + std::to_string(one.from) + " to " +
         std::to_string(one.to);
}

// The same with what it says.
std::string LongText(const Parted::Letter& one) {
  record::Message message;
  message.ParseFromString(one.text);
  return Text(one) + ": " + message.ShortDebugString();
}

}  // namespace

MessageSim::MessageSim(uint64_t seed, bool trace) : random_(seed), trace_(trace) {
  below_ = std::make_unique<MemoryStore>();
  Open(static_cast<uint16_t>(2 + random_.Below(3)));
}

// What is below, by as many engines.
void MessageSim::Open(uint16_t partitions) {
  parted_.reset();
  disks_.clear();
  for (uint16_t i = 0; i < partitions; ++i) {
    disks_.push_back(std::make_unique<FaultyStore>(*below_));
  }
  parted_ = std::make_unique<Parted>(
      partitions, [this](PartitionId id) -> Store* { return disks_[id].get(); });
  for (PartitionId id = 0; id < partitions; ++id) {
    at(id).OnCommit([this, id](const Turn&, const std::vector<Event>& events) {
      for (const Event& event : events) Published(id, event);
      if (running_.size() > kMayRun) Wrong("more run than the limit lets");
      if (keyed_running_.size() > kMayRun) Wrong("more run than their machine's limit lets");
    });
  }
}

void MessageSim::Wrong(const std::string& what) {
  if (Good()) problem_ = what;
}

void MessageSim::Note(const std::string& what) {
  if (trace_) std::printf("%s\n", what.c_str());
}

std::string MessageSim::Run() {
  Define();
  for (int step = 0; step < kSteps && Good(); ++step) {
    const size_t dice = random_.Below(100);
    if (dice < 25) {
      Client();
    } else if (dice < 50) {
      Offer();
    } else if (dice < 75) {
      Arrive();
    } else if (dice < 90) {
      Confirm();
    } else {
      Fault();
    }
    for (PartitionId id = 0; id < parted_->size(); ++id) {
      if (!at(id).failed().empty()) Mend(id);
    }
  }
  if (Good()) Finish();
  return problem_;
}

// What is durable ---------------------------------------------------------------------------------

void MessageSim::Published(PartitionId id, const Event& event) {
  ++records_;
  if (over_) {
    Wrong("a restart has changed something: record " + std::to_string(event.seq) + " of " +
          std::to_string(id) + ", of kind " + std::to_string(static_cast<int>(event.kind)) +
          ", of instance " + event.instance);
  }
  known_.emplace(id, event.seq);
  NoteGroup(event);
  NoteKeyed(id, event);
  NoteAsked(event);
  if (event.instance.empty() || event.kind == ChangeKind::kOccurred) return;
  if (parted_->PlaceOf(event.instance) != id) Wrong(event.instance + " does not live there");
  Seen& seen = seen_[event.instance];
  seen.exists = true;
  if (limited_.contains(event.instance)) {
    const auto now = rows::GetBareInstance({*below_, id}, {"ns", event.instance},
                                           at(id).engine().reader().registry.resolve());
    const bool runs = now && now->state == InstanceState::kRunning;
    runs ? (void)running_.insert(event.instance) : (void)running_.erase(event.instance);
  }
  if (event.kind == ChangeKind::kStarted) {
    ++seen.begun;
    seen.begun_at = records_;
  } else if (event.kind == ChangeKind::kFinished) {
    if (seen.finished_at == 0) seen.finished_at = records_;
    seen.goes_on = false;
  } else if (event.kind == ChangeKind::kResumed) {
    seen.goes_on = seen.finished_at != 0;
  } else if (event.kind == ChangeKind::kStartRefused) {
    ++seen.refused;
  } else if (event.kind == ChangeKind::kTransitioned) {
    if (event.client == "schedule:poke") ++seen.poked;
    if (reports_.contains(event.params)) reported_.insert(event.params);
  }
}

// Clients -----------------------------------------------------------------------------------------

void MessageSim::Define() {
  parted_->Define(std::string(kJob) + LimitedJobs() + ListenedJobs() + KeyedJobs() +
                  GroupedJobs() + PlacedJobs() + AskedJobs());
  DefineTrigger();
  DefineKeys();
  DefineGroups();
  target_ = parted_->Named("target", Any());
  after_[target_] = {};
  parted_->Start("job", target_);
  parted_->DefineDocuments(
      "schedule: go\nevery: 1m\noverlap: allow\nstart: {machine: job}\n---\n"
      "schedule: bad\nevery: 1m\noverlap: allow\nstart: {machine: job}\n---\n"
      "schedule: poke\nevery: 1m\nsend: {instance: " +
      target_ + ", transition: again}\n");
}

void MessageSim::Client() {
  const size_t dice = random_.Below(10);
  if (random_.Chance(2)) return StartMany();
  if (random_.Chance(3)) return Pause();
  if (random_.Chance(15)) return Grouped();
  if (random_.Chance(12)) return Keyed();
  if (random_.Chance(15)) return Asked();
  if (random_.Chance(40)) return Limited();
  if (dice < 4) {
    Start();
  } else if (dice < 6) {
    Move();
  } else if (dice < 9) {
    ReportWithStart();
  } else {
    const auto by = std::chrono::seconds(10 + random_.Below(60));
    for (PartitionId id = 0; id < parted_->size(); ++id) {
      disks_[id]->Heal();
      at(id).Elapse(by);
    }
    promised_.clear();  // home keeps no place so long
  }
}

// Of one that may follow others, which are known to be there.
void MessageSim::Start() {
  const std::string id = "i" + std::to_string(++names_);
  std::vector<Instance::Prerequisite> after;
  for (size_t i = random_.Below(3); i > 0 && !seen_.empty(); --i) {
    auto other = std::next(seen_.begin(), static_cast<long>(random_.Below(seen_.size())));
    const bool twice = std::ranges::find(after, other->first, &Instance::Prerequisite::instance) !=
                       after.end();
    // One that a limit holds for may be resumed after its end, and have another result then.
    const bool any_result = random_.Chance(70) || limited_.contains(other->first) ||
                            members_.contains(other->first) || keyed_.contains(other->first);
    if (other->first != target_ && !twice) after.push_back({other->first, any_result});
  }
  after_[id] = after;
  Note("start " + id + " at " + std::to_string(parted_->PlaceOf(id)));
  parted_->Of(id).Decide([&](Engine& e) {
    (void)e.Start({.ns = "ns", .machine = "job", .id = id, .after = after});
  });
  Commit(parted_->PlaceOf(id));
}

// Of one partition, in one turn, which follow one of another.
void MessageSim::StartMany() {
  if (seen_.empty()) return;
  const auto other = std::next(seen_.begin(), static_cast<long>(random_.Below(seen_.size())));
  const PartitionId id = Any();
  if (other->first == target_ || parted_->PlaceOf(other->first) == id) return;
  Note("many at " + std::to_string(id) + " follow " + other->first);
  const std::vector<Instance::Prerequisite> after{{other->first, true}};
  at(id).Decide([&](Engine& e) {
    for (size_t i = 15 + random_.Below(10); i > 0; --i) {
      const std::string name = parted_->Named("i" + std::to_string(++names_) + "-", id);
      after_[name] = after;
      (void)e.Start({.ns = "ns", .machine = "job", .id = name, .after = after});
    }
  });
  ++hits_["many messages in one turn"];
}

// One that has begun, and of which no other part of the model tells what becomes of it.
bool MessageSim::Free(const std::string& id) {
  return id != target_ && seen_[id].begun > 0 && !limited_.contains(id) && !keyed_.contains(id) &&
         !asked_.contains(id) && !members_.contains(id);
}

void MessageSim::Move() {
  if (seen_.empty()) return;
  auto one = std::next(seen_.begin(), static_cast<long>(random_.Below(seen_.size())));
  const std::string& id = one->first;
  if (!Free(id) && (!members_.contains(id) || one->second.begun == 0)) return;
  const bool bad = id.starts_with("bad-") || random_.Chance(20);
  Note("move " + id);
  parted_->Of(id).Decide([&](Engine& e) {
    (void)e.Report("ns", id, {.transition = bad ? "bad" : "ok"});
  });
}

// Of an instance, with one start, of an id that other reports may start with other params.
void MessageSim::ReportWithStart() {
  if (seen_.empty()) return;
  auto one = std::next(seen_.begin(), static_cast<long>(random_.Below(seen_.size())));
  const std::string id = one->first;
  if (!Free(id)) return;
  const std::string params = "{\"k\":" + std::to_string(++names_) + "}";
  const std::string starts =
      "s" + std::to_string(random_.Chance(30) ? random_.Below(5) : 100 + names_);
  reports_[params] = {id, starts};
  StartArgs start{.ns = "ns", .machine = "job", .id = starts};
  start.spec.params = params;
  Note("report " + params + " on " + id + " starts " + starts);
  parted_->Of(id).Decide([&](Engine& e) {
    (void)e.Report("ns", id, {.transition = "again", .params = params}, {}, {start});
  });
  Commit(parted_->PlaceOf(id));
}

// Messages ----------------------------------------------------------------------------------------

void MessageSim::Offer() {
  const PartitionId from = Any();
  const PartitionId to = Any();
  if (from == to) return;
  uint64_t& sent = sent_[{from, to}];
  if (random_.Chance(20)) sent = 0;  // on a new way
  if (!former_.empty() && random_.Chance(10)) {
    const auto& [who, outgoing] = random_.Of(former_);
    ++hits_["a former engine's messages are told"];
    if (who != to) Take(who, to, *outgoing, 0);
    return;
  }
  Take(from, to, *at(from).engine().messages().outgoing(), sent);
}

void MessageSim::Take(PartitionId from, PartitionId to, const Outgoing& outgoing, uint64_t after) {
  auto next = outgoing.Next(to, after, 1 + random_.Below(5));
  if (!next) return;
  for (const Outgoing::Numbered& one : *next) {
    const Parted::Letter letter{from, to, one.number, one.text};
    sent_[{from, to}] = one.number;
    auto [known, is_new] = texts_.emplace(std::tuple(from, to, one.number), one.text);
    if (known->second != one.text) Wrong(Text(letter) + " is another one than before");
    if (is_new) {
      bool rests = false;
      (void)rows::ReadOut({*below_, from}, to, one.number - 1,
                          [&](uint64_t number, std::string_view) {
                            rests = number == one.number;
                            return false;
                          });
      if (!rests) Wrong(Text(letter) + " is told before it is durable");
    }
    wire_.push_back(letter);
  }
}

void MessageSim::Arrive() {
  if (wire_.empty()) return;
  // The oldest, or any.
  const size_t which = random_.Chance(60) ? 0 : random_.Below(wire_.size());
  const Parted::Letter letter = wire_[which];
  const size_t dice = random_.Below(10);
  if (dice != 0) wire_.erase(wire_.begin() + static_cast<long>(which));
  if (dice == 0) ++hits_["a message comes twice"];
  if (dice == 1) {
    ++hits_["a message is lost"];
    return;
  }
  if (which != 0) ++hits_["a message overtakes another"];
  Deliver(letter);
}

void MessageSim::Deliver(const Parted::Letter& letter) {
  Note("deliver " + LongText(letter));
  record::Message message;
  message.ParseFromString(letter.text);
  if (message.has_reread()) ++hits_["a change is read again"];
  World& world = at(letter.to);
  world.Decide([&](Engine& e) {
    auto up_to = e.messages().Deliver(letter.from, letter.number, letter.text);
    if (!up_to) return Wrong(Text(letter) + " cannot be read");
    if (*up_to < letter.number) ++hits_["a message is not applied yet"];
    if (*up_to > letter.number) ++hits_["a message was applied before"];
    e.AfterCommit([this, letter, up_to = *up_to] {
      uint64_t& applied = applied_[{letter.from, letter.to}];
      if (up_to < applied) Wrong(Text(letter) + ": what was applied is not any more");
      applied = up_to;
      answers_.push_back({letter.from, letter.to, up_to});
    });
  });
  Commit(letter.to);
}

// At once, or with whatever comes next.
void MessageSim::Commit(PartitionId id) {
  if (at(id).failed().empty() && random_.Chance(50)) at(id).Commit();
}

void MessageSim::Confirm() {
  if (answers_.empty()) return;
  const size_t which = random_.Below(answers_.size());
  const Answer answer = answers_[which];
  const size_t dice = random_.Below(10);
  if (dice != 0) answers_.erase(answers_.begin() + static_cast<long>(which));
  if (dice == 1) {
    ++hits_["an answer is lost"];
    return;
  }
  at(answer.from).Decide([&](Engine& e) { e.messages().Applied(answer.to, answer.up_to); });
}

// Faults ------------------------------------------------------------------------------------------

void MessageSim::Fault() {
  const PartitionId id = Any();
  const size_t dice = random_.Below(10);
  if (dice < 3) {
    Restart(id, "an engine crashes");
  } else if (dice < 4) {
    ++hits_["an engine is taken over"];
    if (id == kHome) promised_.clear();
    former_.emplace_back(id, at(id).engine().messages().outgoing());
    auto former = at(id).TakeOver();
    if (former.in_flight) {
      auto written = disks_[id]->Write(id, former.engine->epoch(), *former.in_flight->batch);
      if (written) Wrong("a former engine has written");
    }
  } else if (dice < 6) {
    ++hits_["a write is torn"];
    disks_[id]->FailNextWrite(FaultyStore::Outcome::kTorn);
  } else if (dice < 8) {
    ++hits_["a write is done, and fails"];
    disks_[id]->FailNextWrite(FaultyStore::Outcome::kKept);
  } else {
    const bool scarce = random_.Chance(50);
    if (scarce) ++hits_["a disk has no room"];
    at(id).engine().SetRoom(scarce ? Room::kScarce : Room::kAmple);
  }
}

void MessageSim::Restart(PartitionId id, const std::string& why) {
  if (id == kHome) promised_.clear();
  ++hits_[why];
  Note(why + ": " + std::to_string(id));
  former_.emplace_back(id, at(id).engine().messages().outgoing());
  at(id).Crash();
}

// What was written although that failed is durable.
void MessageSim::Mend(PartitionId id) {
  if (id == kHome) promised_.clear();
  disks_[id]->Heal();
  ++hits_["an engine ends with its disk"];
  Note("mend " + std::to_string(id));
  at(id).Crash();
  for (const Event& event : at(id).Feed()) {
    if (!known_.contains({id, event.seq})) Published(id, event);
  }
}

// In the end --------------------------------------------------------------------------------------

bool MessageSim::CarryAll() {
  bool any = false;
  for (PartitionId from = 0; from < parted_->size(); ++from) {
    for (PartitionId to = 0; to < parted_->size(); ++to) {
      if (from == to) continue;
      const size_t before = wire_.size();
      Take(from, to, *at(from).engine().messages().outgoing(), 0);
      const std::vector<Parted::Letter> letters(wire_.begin() + static_cast<long>(before),
                                                wire_.end());
      for (const Parted::Letter& letter : letters) {
        Deliver(letter);
        at(to).Commit();
        const uint64_t up_to = applied_[{from, to}];
        if (up_to < letter.number) Wrong(Text(letter) + " is not applied in the end");
      }
      if (letters.empty()) continue;
      parted_->Confirm(letters.back(), applied_[{from, to}]);
      any = true;
    }
  }
  return any;
}

bool MessageSim::MoveAll() {
  bool any = false;
  std::vector<std::string> ids;
  for (const auto& [id, seen] : seen_) {
    if (seen.begun > 0 && seen.Live() && id != target_) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    (void)parted_->Of(id).Move(id, id.starts_with("bad-") ? "bad" : "ok");
    any = true;
  }
  return any;
}

void MessageSim::Finish() {
  promised_.clear();  // a minute passes
  for (PartitionId id = 0; id < parted_->size(); ++id) {
    disks_[id]->Heal();
    at(id).engine().SetRoom(Room::kAmple);
    if (random_.Chance(50)) Restart(id, "an engine crashes");
    at(id).Elapse(std::chrono::minutes(1));  // what waited for room goes on
  }
  while (!waiting_starts_.empty()) StartAsked();
  if (random_.Chance(40)) Join();
  SetPaused(false);
  SetMax("machine:job", 1'000);
  parted_->Adopt();
  Settle();
  parted_->Crash();
  FollowAll();  // numbers go on
  Settle();
  if (!Good()) return;
  PauseSchedules();
  TryQuota();
  TryPlaces();
  TryAsked();
  TryNumber();
  Settle();
  if (!Good()) return;
  CheckAll();
  over_ = true;
  parted_->Crash();
  while (CarryAll() && Good()) {
  }
  if (Good()) CheckAll();
}

// Until all is done.
void MessageSim::Settle() {
  bool any = true;
  for (int round = 0; any && Good(); ++round) {
    for (PartitionId id = 0; id < parted_->size(); ++id) at(id).Drain();
    any = CarryAll();
    if (!any) any = MoveAll();
    if (!any && round < 500) {
      ResumeAll();
      ResumeGroups();
      any = round < 3;
    }
    if (round == 1'000) return Wrong("there is no end");
  }
}

// In each partition an instance that follows one of each other.
void MessageSim::FollowAll() {
  for (PartitionId id = 0; id < parted_->size(); ++id) {
    const std::string first = parted_->Named("first", id);
    after_[first] = {};
    parted_->Start("job", first);
    for (PartitionId from = 0; from < parted_->size(); ++from) {
      if (from == id) continue;
      const std::string follower = parted_->Named("f" + std::to_string(id) + "-", from);
      after_[follower] = {{first, true}};
      parted_->Start("job", follower, after_[follower]);
    }
  }
}

void MessageSim::CheckAll() {
  for (auto& [id, seen] : seen_) {
    if (seen.exists) seen.result = parted_->Must(id).result;
  }
  CheckLimits();
  CheckGroups();
  CheckKeys();
  CheckAsked();
  CheckTrigger();
  CheckFollowers();
  CheckReports();
  CheckSchedules();
  CheckRows();
}

void MessageSim::CheckFollowers() {
  for (const auto& [id, after] : after_) {
    const auto found = seen_.find(id);
    if (found == seen_.end()) continue;  // it was refused, or lost with its engine
    const Seen& seen = found->second;
    bool may = true;
    for (const Instance::Prerequisite& one : after) {
      const Seen& other = seen_[one.instance];
      if (other.finished_at == 0 && other.begun > 0) Wrong(one.instance + " goes on");
      may = may && (one.any_result || other.result == InstanceResult::kSuccess);
      if (seen.begun > 0 && other.finished_at > seen.begun_at) {
        Wrong(id + " has begun before " + one.instance + " had stopped");
      }
    }
    if (seen.begun != (may ? 1u : 0u)) {
      Wrong(id + " has begun " + std::to_string(seen.begun) + " times; it " +
            (may ? "was to begin" : "was not to"));
    }
    if (!may && seen.result != InstanceResult::kError) Wrong(id + " has not ended with ERROR");
    if (!after.empty()) ++hits_[may ? "a follower begins" : "a follower ends with what it follows"];
  }
}

void MessageSim::CheckReports() {
  std::map<std::string, uint64_t> asked;  // by the id that is started
  std::map<std::string, uint64_t> refused;
  std::map<std::string, std::set<std::string>> by;
  for (const std::string& params : reported_) {
    const Report& report = reports_[params];
    ++asked[report.starts];
    by[report.starts].insert(report.instance);
  }
  for (const auto& [id, seen] : seen_) {
    if (seen.refused == 0) continue;
    for (const Event& event : parted_->Of(id).HistoryOf(parted_->Must(id))) {
      if (event.kind != ChangeKind::kStartRefused) continue;
      const size_t begin = event.note.find('\'') + 1;
      const std::string starts = event.note.substr(begin, event.note.find('\'', begin) - begin);
      ++refused[starts];
      ++hits_["a start with a report is refused elsewhere"];
      if (!by[starts].contains(id)) Wrong(id + " has not started " + starts);
    }
  }
  for (const auto& [id, times] : asked) {
    if (seen_[id].begun != 1) {
      Wrong(id + ", started with reports, has begun " + std::to_string(seen_[id].begun) + " times");
    }
    if (times != 1 + refused[id]) {
      Wrong(id + " was started with " + std::to_string(times) + " reports, of which " +
            std::to_string(refused[id]) + " were told that it was refused");
    }
    ++hits_["an instance is started with a report"];
  }
}

void MessageSim::CheckSchedules() {
  std::optional<Timestamp> last_success;
  uint64_t sent = 0;
  for (const char* name : {"go", "bad", "poke"}) {
    (void)rows::ScanOccurrences(
        {*below_, 0}, {"ns", DocumentKind::kSchedule, name}, UINT64_MAX, [&](const Occurrence& one) {
          if (one.outcome == OccurrenceOutcome::kSent) ++sent;
          if (one.outcome != OccurrenceOutcome::kStarted) return true;
          ++hits_["a schedule starts an instance"];
          const Seen& seen = seen_[one.instance];
          if (seen.begun != 1) {
            Wrong(one.instance + ", started by a schedule, has begun " +
                  std::to_string(seen.begun) + " times");
          }
          const bool good = seen.result == InstanceResult::kSuccess;
          if (good && name[0] == 'g') {
            last_success = std::max(one.time, last_success.value_or(one.time));
          }
          return true;
        });
  }
  auto go = rows::GetScheduleState({*below_, 0}, "ns", "go");
  auto bad = rows::GetScheduleState({*below_, 0}, "ns", "bad");
  if (!go || !*go || !bad || !*bad) return;  // none has come due
  if ((*go)->last_success != last_success) Wrong("the last success of 'go' is another one");
  uint64_t failures = 0;
  for (const auto& [id, seen] : seen_) {
    if (id.starts_with("bad-") && seen.finished_at > 0) ++failures;
  }
  if ((*bad)->failures != failures) {
    Wrong("of 'bad' " + std::to_string(failures) + " have failed, and " +
          std::to_string((*bad)->failures) + " were counted");
  }
  if (sent != seen_[target_].poked) {
    Wrong("'poke' was sent " + std::to_string(sent) + " times, and came " +
          std::to_string(seen_[target_].poked) + " times");
  }
  hits_["a schedule sends a transition"] += sent;
}

// They are sound, and nothing waits.
void MessageSim::CheckRows() {
  for (PartitionId id = 0; id < parted_->size(); ++id) {
    at(id).Restart();
    std::map<PartitionId, size_t> rest;
    (void)rows::ScanOut({*below_, id}, [&rest](PartitionId to, uint64_t) { ++rest[to]; });
    for (const auto& [to, count] : rest) {
      if (count > 17) Wrong(std::to_string(count) + " rows of messages rest");
    }
    (void)rows::ScanFollowers({*below_, id}, [this](const rows::FollowerRow& row) {
      Wrong(row.follower + " still follows " + row.instance + ", which has stopped");
    });
  }
  for (PartitionId id = 0; id < parted_->size(); ++id) {
    rows::Verified verified;
    (void)rows::Verify({*below_, id}, CompileOne, &verified, kHome);
    if (!verified.problems.empty()) Wrong(verified.problems.front());
  }
}

}  // namespace dfsmr::message_sim
