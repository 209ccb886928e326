#include "tests/sim/messages/scenes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "dsrv/engine/backfills.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/histogram.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/triggers.h"
#include "storage/rows/message.h"
#include "tests/dsrv/engine/parted.h"
#include "tests/sim/play.h"
#include "tests/sim/random.h"

namespace dfsmr::message_sim {
namespace {

using Action = rows::GroupOrder::Action;
using Names = std::vector<std::string>;

constexpr std::string_view kJobs = R"(
id: job
nodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}
---
id: echo
nodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}
)";

class Stage : public Parted {
 public:
  explicit Stage(uint64_t seed) : Parted(3), random(seed) { Define(kJobs); }

  PartitionId Any() { return static_cast<PartitionId>(random.Below(size())); }
  PartitionId Elsewhere() { return static_cast<PartitionId>(1 + random.Below(size() - 1u)); }
  std::string Fresh() { return "n" + std::to_string(++names_) + "-"; }
  std::string Anywhere() { return Named(Fresh(), Any()); }
  // Somebody crashes, perhaps.
  void Perhaps() {
    if (random.Chance(25)) at(Any()).Crash();
  }
  // All messages come in the end: some twice, or after others that were sent later.
  void Settle() {
    for (int round = 0; round < 1'000; ++round) {
      for (PartitionId id = 0; id < size(); ++id) at(id).Drain();
      std::vector<Letter> letters = AllOffered();
      if (letters.empty()) return;
      const size_t cut = random.Below(letters.size());
      if (random.Chance(30)) std::rotate(letters.begin(), letters.begin() + cut, letters.end());
      for (const Letter& letter : letters) {
        const uint64_t up_to = Deliver(letter);
        const bool again = random.Chance(20);
        if (again) REQUIRE(Deliver(letter) >= up_to);
        if (!random.Chance(20)) Confirm(letter, up_to);
      }
      Perhaps();
    }
    FAIL("there is no end to the messages");
  }
  void Begin(const std::string& id, const std::string& group = "") {
    StartArgs args{.machine = "job", .id = id};
    if (!group.empty()) args.provenance = Provenance{.group = group};
    REQUIRE(Of(id).TryStart(std::move(args)));
  }
  InstanceState State(const std::string& id) { return Must(id).state; }
  size_t Running(const Names& ids) {
    return static_cast<size_t>(std::ranges::count_if(
        ids, [this](const std::string& id) { return State(id) == InstanceState::kRunning; }));
  }
  // One of the tasks that are ready anywhere is done; false: there is none.
  bool DoOne() {
    for (PartitionId id = 0; id < size(); ++id) {
      const auto tasks = at(id).Ready({}, 1);
      if (tasks.empty()) continue;
      REQUIRE(at(id).Report(tasks[0], "ok"));
      return true;
    }
    return false;
  }

  Random random;

 private:
  int names_ = 0;
};

// Groups ------------------------------------------------------------------------------------------

void OrdersToMembers(uint64_t seed) {
  Stage stage(seed);
  Names members;
  for (PartitionId id = 0; id < stage.size(); ++id) {
    members.push_back(stage.Named(stage.Fresh(), id));
    stage.Begin(members.back(), "g");
  }
  stage.Settle();
  const auto order = [&stage](Action action) {
    REQUIRE(stage.at(kHome).Do([&](Engine& e) {
      return e.groups().Control("ns", "g", {.action = action, .members = true, .note = "why"});
    }));
    stage.Perhaps();
    stage.Settle();
  };
  const auto all = [&](InstanceState state) {
    for (const std::string& id : members) REQUIRE(stage.State(id) == state);
  };
  order(Action::kPause);
  all(InstanceState::kPaused);
  order(Action::kResume);
  all(InstanceState::kRunning);
  order(Action::kCancel);
  all(InstanceState::kStopped);
}

// No more than may run, wherever they live, and in the end all have run.
void BackfillAcross(uint64_t seed) {
  Stage stage(seed);
  stage.DefineDocuments("schedule: daily\ncron: \"0 0 * * *\"\nstart: {machine: job}\n");
  const size_t total = 4 + stage.random.Below(6);
  BackfillArgs args;
  args.ns = "ns";
  args.name = "daily";
  args.version = 1;
  args.from = FromMicros(1'690'000'000'000'000);
  args.to = args.from + std::chrono::hours(24 * static_cast<int64_t>(total));
  args.max_running = 1 + static_cast<uint32_t>(stage.random.Below(3));
  args.group = "g";
  args.total = total;
  REQUIRE(stage.at(kHome).Do([&](Engine& e) { return e.backfills().Begin(args); }));
  for (size_t done = 0; done < total; ++done) {
    stage.Settle();
    const auto view = stage.at(kHome).Do([](Engine& e) { return e.groups().Get("ns", "g"); });
    REQUIRE(view);
    REQUIRE(view->row.counts.Live() == std::min<size_t>(*args.max_running, total - done));
    REQUIRE(view->row.counts.Total() + view->to_come == total);
    REQUIRE(stage.DoOne());
  }
  stage.Settle();
  REQUIRE(!stage.DoOne());
}

// Limits ------------------------------------------------------------------------------------------

// What had begun before its machine had a number counts.
void HeldUnasked(uint64_t seed) {
  Stage stage(seed);
  Names before;
  for (PartitionId id = 0; id < stage.size(); ++id) {
    before.push_back(stage.Named(stage.Fresh(), id));
    stage.Begin(before.back());
  }
  stage.Settle();
  REQUIRE(stage.at(kHome).Do([&](Engine& e) {
    return e.limits().Override("ns", "machine:job", {.max = stage.size()});
  }));
  stage.Settle();
  const std::string late = stage.Anywhere();
  stage.Begin(late);
  stage.Settle();
  REQUIRE(stage.State(late) == InstanceState::kScheduled);
  stage.Move(stage.random.Of(before), "ok");
  stage.Settle();
  REQUIRE(stage.State(late) == InstanceState::kRunning);
}

// A number that comes while instances wait for another key holds for them, too.
void NumberedLater(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: keyed\nlimit: {key: k, max: 1}\n"
      "nodes: {n: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
  Names all;
  for (size_t some = 2 + stage.random.Below(3); some > 0; --some) {
    all.push_back(stage.Anywhere());
    stage.Start("keyed", all.back());
    stage.Settle();
  }
  REQUIRE(stage.Running(all) == 1);
  const auto set = [&stage](const std::string& key, uint32_t max) {
    REQUIRE(stage.at(kHome).Do(
        [&](Engine& e) { return e.limits().Override("ns", key, {.max = max}); }));
    stage.Perhaps();
    stage.Settle();
  };
  set("machine:keyed", 1);
  set("k", 4);
  for (; !all.empty(); std::erase_if(all, [&stage](const std::string& id) {
           return stage.State(id) == InstanceState::kStopped;
         })) {
    REQUIRE(stage.Running(all) == 1);
    REQUIRE(stage.DoOne());
    stage.Settle();
  }
}

// Tasks of all partitions have the places of their queue by priority, of equals the oldest first.
void PlacesInOrder(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: placed\nnodes: {work: {start: true, queue: few, timeout: 0.0, transitions: {ok: done}}, "
      "done: {final: true}}\n");
  const auto set = [&stage](uint32_t max) {
    REQUIRE(stage.at(kHome).Do(
        [&](Engine& e) { return e.limits().Override("ns", "queue:few", {.max = max}); }));
    stage.Carry();
  };
  set(0);
  std::map<std::string, std::pair<int32_t, int>> turns;  // by instance
  for (int number = 0; number < 9; ++number) {
    const std::string id = stage.Anywhere();
    const auto priority = static_cast<int32_t>(stage.random.Below(3));
    REQUIRE(stage.Of(id).TryStart({.machine = "placed", .id = id, .priority = priority}));
    turns[id] = {-priority, number};
    stage.Elapse(50ms);
    stage.Carry();
  }
  // At each partition a worker waits.
  std::vector<Task> given;
  const auto wait = [&](PartitionId id) {
    PollArgs poll{.filter = {.ns = "ns"}, .worker = "w", .until = stage.at(id).now() + 1h};
    REQUIRE(stage.at(id).Do([&](Engine& e) {
      return e.Poll(std::move(poll), [&given](std::vector<Task> tasks) {
        std::ranges::move(tasks, std::back_inserter(given));
      });
    }));
  };
  for (PartitionId id = 0; id < stage.size(); ++id) wait(id);
  set(1);
  while (!turns.empty()) {
    stage.Elapse(1ms);
    stage.Carry();
    REQUIRE(given.size() <= 1);
    for (const Task& task : std::exchange(given, {})) {
      const auto turn = turns.extract(task.instance);
      REQUIRE(turn);
      for (const auto& [other, its] : turns) REQUIRE(turn.mapped() < its);
      REQUIRE(stage.Of(task.instance).Report(task, "ok"));
      wait(stage.PlaceOf(task.instance));
    }
  }
}

// One that is told to give way takes no turn until it has heard so.
void ToldToGiveWay(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: keyed\nlimit: {key: k, max: 2, on_conflict: replace}\n"
      "nodes: {n: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
  const auto deliver = [&stage](PartitionId from, PartitionId to) {
    for (const Parted::Letter& letter : stage.Offered(from, to)) {
      stage.Confirm(letter, stage.Deliver(letter));
    }
  };
  const auto later = [&stage] {
    for (PartitionId at = 0; at < stage.size(); ++at) stage.at(at).Advance(1s);
  };
  const auto ask = [&](const std::string& id) {  // home has heard of it, and has not been heard
    later();
    REQUIRE(stage.Of(id).TryStart({.machine = "keyed", .id = id}));
    deliver(stage.PlaceOf(id), kHome);
  };
  for (int i = 0; i < 2; ++i) {
    stage.Start("keyed", stage.Named(stage.Fresh(), 1));
    stage.Settle();
  }
  const std::string told = stage.Named(stage.Fresh(), 2);
  ask(told);
  Names newer;
  for (int i = 0; i < 3; ++i) newer.push_back(stage.Named(stage.Fresh(), 2));
  for (const std::string& id : newer) {
    if (id == newer.back()) {  // both places become free while the word to `told` is on its way
      deliver(kHome, 1);
      later();
      deliver(1, kHome);
    }
    ask(id);
  }
  stage.Perhaps();
  stage.Settle();
  REQUIRE(stage.State(told) == InstanceState::kStopped);
  REQUIRE(stage.State(newer[0]) == InstanceState::kStopped);  // the two that came last run
  REQUIRE(stage.Running({newer[1], newer[2]}) == 2);
}

// What is learned ---------------------------------------------------------------------------------

constexpr std::string_view kLearned = R"(
id: paced
nodes: {work: {start: true, timeout_initial: 100s, transitions: {ok: done}}, done: {final: true}}
---
id: braked
defaults: {timeout_strategy: fixed, timeout: 20.0}
nodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}
)";

// So many instances of a machine begin in a partition, and are claimed.
std::vector<Task> ClaimSome(Stage& stage, const std::string& machine, PartitionId place,
                            size_t some) {
  for (size_t i = 0; i < some; ++i) {
    stage.Start(machine, stage.Named(stage.Fresh(), place));
  }
  auto tasks = stage.at(place).Ready();
  REQUIRE(tasks.size() == some);
  return tasks;
}

// What a claim is given in a partition follows from the attempts of others, also after a crash.
void LearnedEverywhere(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kLearned);
  const auto settle = [&stage] {
    for (int i = 0; i < 3; ++i) {
      stage.Elapse(6s);
      stage.Carry();
    }
  };
  const PartitionId seen = stage.Elsewhere();
  size_t attempts = 0;
  for (int round = 0; round < 3; ++round) {
    const size_t some = 12 + stage.random.Below(10);
    const auto tasks = ClaimSome(stage, "paced", seen, some);
    stage.at(seen).Elapse(2s);
    for (const Task& task : tasks) REQUIRE(stage.at(seen).Report(task, "ok"));
    attempts += some;
    if (stage.random.Chance(30)) stage.at(seen).Crash();
    settle();
  }
  const auto known = stage.at(kHome).Do(
      [](Engine& e) { return e.survey().Durations("ns", "paced", 1, "work"); });
  REQUIRE(known);
  REQUIRE(known->samples == attempts);
  const PartitionId forgets = stage.Any();
  stage.at(forgets).Crash();
  for (PartitionId id = 0; id < stage.size(); ++id) {
    const Task task = ClaimSome(stage, "paced", id, 1).front();
    REQUIRE(task.deadline < stage.at(id).now() + 3s);
  }
}

// Retries of several partitions open the breaker everywhere, once; and it closes.
void BrakedEverywhere(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kLearned);
  const auto tell = [&stage](int times) {
    for (int i = 0; i < times; ++i) {
      stage.Elapse(600ms);
      stage.Carry();
    }
  };
  const auto all = [&stage](const std::string& state) {
    for (PartitionId id = 0; id < stage.size(); ++id) {
      REQUIRE(stage.at(id).Machine("braked").stats.breaker == state);
    }
  };
  const auto told = [&stage](PartitionId id, ChangeKind kind) {
    return std::ranges::count(stage.at(id).Feed(), kind, &Event::kind);
  };
  const size_t each = 6 + stage.random.Below(4);  // none has enough by itself
  for (PartitionId id = 0; id < stage.size(); ++id) ClaimSome(stage, "braked", id, each);
  stage.Elapse(20s);
  for (PartitionId id = 0; id < stage.size(); ++id) stage.at(id).Ready();
  tell(5);
  all("open");
  tell(120);
  all("closed");
  REQUIRE(told(kHome, ChangeKind::kBreakerOpened) == 1);
  REQUIRE(told(kHome, ChangeKind::kBreakerClosed) == 1);
  for (PartitionId id = 1; id < stage.size(); ++id) {
    REQUIRE(told(id, ChangeKind::kBreakerOpened) == 0);
  }
}

// A breaker does not open as long as it is not known what others hand out.
void HeardBeforeOpening(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kLearned);
  ClaimSome(stage, "braked", 1, 20 + stage.random.Below(10));
  for (int retries = 0; retries < 2; ++retries) {
    stage.Elapse(20s);
    stage.at(1).Ready();
    stage.Elapse(600ms);
  }
  ClaimSome(stage, "braked", 2, 100);
  // What partition 1 has to tell comes first.
  for (const Parted::Letter& letter : stage.Offered(1, kHome)) {
    stage.Confirm(letter, stage.Deliver(letter));
    stage.at(kHome).Drain();
  }
  for (int i = 0; i < 6; ++i) {
    stage.Elapse(600ms);
    stage.Carry();
  }
  REQUIRE(stage.at(kHome).Machine("braked").stats.breaker == "closed");
  const auto feed = stage.at(kHome).Feed();
  REQUIRE(std::ranges::count(feed, ChangeKind::kBreakerOpened, &Event::kind) == 0);
}

// Triggers and starts -----------------------------------------------------------------------------

// What happens elsewhere while a trigger is paused begins nothing until it goes on, and then once.
void PausedTrigger(uint64_t seed) {
  Stage stage(seed);
  stage.DefineDocuments(
      "trigger: t\non: {change: {kind: finished, machine: job}}\n"
      "start: {machine: echo, id: \"e-${item.instance.id}\"}\n");
  stage.Adopt();
  Names ended;
  for (size_t n = 1 + stage.random.Below(3); n > 0; --n) {
    ended.push_back(stage.Named(stage.Fresh(), stage.Elsewhere()));
    stage.Begin(ended.back());
    stage.Move(ended.back(), "ok");
  }
  const auto set = [&stage](bool paused) {
    REQUIRE(stage.at(kHome).Do([&](Engine& e) {
      return paused ? e.triggers().Pause("ns", "t", "", "") : e.triggers().Resume("ns", "t", false);
    }));
    if (!paused || stage.random.Chance(50)) stage.Adopt();
  };
  set(true);
  stage.Perhaps();
  stage.Settle();
  for (const std::string& id : ended) {
    const std::string echo = "e-" + id;
    REQUIRE(!stage.Of(echo).Get(echo));
  }
  set(false);
  stage.Settle();
  for (const std::string& id : ended) REQUIRE(stage.Begun("e-" + id) == 1);
}

// A poll whose instance lives elsewhere brings its items, and the next one follows in time.
void PollsElsewhere(uint64_t seed) {
  Stage stage(seed);
  const std::string name = stage.Named("p", stage.Elsewhere());
  stage.DefineDocuments("trigger: " + name +
                        "\non: {poll: {action: look, every: 30s}}\n"
                        "start: {machine: echo, id: \"o-${item.id}\"}\n");
  stage.Adopt();
  const PartitionId place = stage.PlaceOf(name);
  for (int poll = 1; poll <= 4; ++poll) {
    stage.Settle();
    const auto tasks = stage.at(place).Ready({.machine = "look"});
    REQUIRE(tasks.size() == 1);
    const bool some = stage.random.Chance(60);
    const std::string number = std::to_string(poll);
    const ReportArgs args{.transition = "ok",
                          .claim = tasks[0].claim,
                          .output = some ? "{\"items\":[{\"id\":" + number + "}]}" : "{}"};
    REQUIRE(stage.at(place).Do(
        [&](Engine& e) { return e.Report("ns", tasks[0].instance, args); }));
    stage.Perhaps();
    stage.Settle();
    const std::string item = "o-" + number;
    if (some) REQUIRE(stage.Begun(item) == 1);
    if (!some) REQUIRE(!stage.Of(item).Get(item));
    REQUIRE(stage.at(place).Ready({.machine = "look"}).empty());
    stage.Elapse(31s);
  }
}

// A start waits for its machine where that is still to be adopted.
void MachineToCome(uint64_t seed) {
  Stage stage(seed);
  stage.at(kHome).Define(
      "id: fresh\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n");
  const PartitionId place = stage.Elsewhere();
  const std::string id = stage.Named(stage.Fresh(), place);
  stage.DefineDocuments("schedule: s\nevery: 1m\noverlap: allow\nstart: {machine: fresh, id: " +
                        id + "}\n");
  stage.Elapse(1min);
  for (int i = 0; i < 3; ++i) {
    const auto letters = stage.Offered(kHome, place);
    REQUIRE(!letters.empty());
    REQUIRE(stage.Deliver(letters.front()) == 0);
    if (stage.random.Chance(25)) stage.at(kHome).Crash();
  }
  if (stage.random.Chance(25)) stage.at(place).Crash();  // which adopts what there is
  stage.Adopt();
  stage.Settle();
  REQUIRE(stage.Begun(id) == 1);
}

struct Overlapping : Stage {
  explicit Overlapping(uint64_t seed) : Stage(seed) {
    for (size_t some = 1 + random.Below(4); some > 0; --some) {
      before.push_back(Anywhere());
      Launches(before.back(), "allow");
      REQUIRE(Run());
    }
  }
  void Launches(const std::string& id, const std::string& overlap) {
    DefineDocuments("schedule: s\nevery: 1h\noverlap: " + overlap +
                    "\nstart: {machine: job, id: " + id + "}\n");
  }
  bool Run() {
    const auto ran =
        at(kHome).Do([](Engine& e) { return e.schedules().Run({.ns = "ns", .name = "s"}); });
    Perhaps();
    Settle();
    return ran && ran->outcome == OccurrenceOutcome::kStarted;
  }
  Names before;  // started while they might overlap
};

// A schedule that may not overlap any more waits for all that it has started.
void OverlapNoMore(uint64_t seed) {
  Overlapping stage(seed);
  const std::string last = stage.Anywhere();
  stage.Launches(last, "skip");
  stage.Perhaps();
  stage.Settle();
  for (const std::string& id : stage.before) {
    REQUIRE(!stage.Run());
    stage.Move(id, "ok");
    stage.Settle();
  }
  REQUIRE(stage.Run());
  REQUIRE(stage.Begun(last) == 1);
}

// One that replaces what it has started ends all of it, also what began before.
void OverlapReplaces(uint64_t seed) {
  Overlapping stage(seed);
  const std::string last = stage.Anywhere();
  stage.Launches(last, stage.random.Chance(50) ? "replace" : "cancel");
  stage.Settle();
  REQUIRE(stage.Run());
  for (const std::string& id : stage.before) {
    REQUIRE(stage.Must(id).result == InstanceResult::kCancelled);
  }
  REQUIRE(stage.State(last) == InstanceState::kRunning);
}

// A follower does not take for its own what is said to an earlier instance of its id.
void FormerFollower(uint64_t seed) {
  Stage stage(seed);
  const std::string first = stage.Named(stage.Fresh(), 1);
  const std::string second = stage.Named(stage.Fresh(), 2);
  stage.Begin(first);
  stage.Start("job", second, {{first}});
  const auto follow = stage.Offered(2, 1);
  REQUIRE(follow.size() == 1);
  const auto said = rows::DecodeMessage(follow.front().text);
  REQUIRE(said);
  const uint64_t born = std::get<rows::Message::Follow>(said->of).born;
  const uint64_t earlier = 1 + stage.random.Below(static_cast<size_t>(born));
  const rows::Message old{rows::Message::Ended{"ns", first, second, born - earlier,
                                               InstanceResult::kSuccess}};
  REQUIRE(stage.Deliver({1, 2, 1, rows::EncodeMessage(old)}) == 1);
  stage.Perhaps();
  REQUIRE(stage.State(second) == InstanceState::kScheduled);
}

const std::vector<NamedScene> kScenes = {{"orders to members", OrdersToMembers},
                                         {"a backfill across partitions", BackfillAcross},
                                         {"held unasked", HeldUnasked},
                                         {"numbered later", NumberedLater},
                                         {"places in order", PlacesInOrder},
                                         {"told to give way", ToldToGiveWay},
                                         {"a paused trigger", PausedTrigger},
                                         {"polls elsewhere", PollsElsewhere},
                                         {"a machine to come", MachineToCome},
                                         {"overlap no more", OverlapNoMore},
                                         {"overlap replaces", OverlapReplaces},
                                         {"a former follower", FormerFollower},
                                         {"learned everywhere", LearnedEverywhere},
                                         {"braked everywhere", BrakedEverywhere},
                                         {"heard before opening", HeardBeforeOpening}};

}  // namespace

std::string PlayScenes(uint64_t seed, bool trace) { return PlayTwo(kScenes, seed, trace); }

}  // namespace dfsmr::message_sim
