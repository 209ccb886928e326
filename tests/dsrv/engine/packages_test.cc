// Packages: activation, what names mean, candidates, and what becomes of instances. Over crashes.
#include "dsrv/engine/packages.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/deletions.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/engine/workers.h"
#include "fsm/when/schedule.h"
#include "storage/place.h"
#include "storage/rows/machine.h"
#include "storage/rows/space.h"
#include "tests/dsrv/engine/own_names.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

EngineOptions Options() {
  EngineOptions options;
  options.own_machine = owned::OwnMachine;
  options.own_document = owned::OwnDocument;
  options.own_flow = [](const PackageVersion& version, PlanSource* flow) {
    owned::OwnFlow(version, &flow->flow);
  };
  return options;
}

class Shop : public World {
 public:
  explicit Shop(Store* store = nullptr) : World(Options(), store) {}

  // Puts a version of package p with the documents of `yaml`. Its worker serves all of it.
  Result<bool> Put(const std::string& version, const std::string& yaml,
                   const std::string& digest = "") {
    texts_[version] = yaml;
    rows::PackageVersionRow row;
    row.ns = "ns";
    row.package = "p";
    row.version = version;
    row.digest = "sha256:" + (digest.empty() ? version : digest);
    row.size = yaml.size();
    const Parsed parsed = ParseDefinitions(yaml, "documents/all.yaml");
    REQUIRE(parsed.ok());
    for (const dfsmr::Machine& one : parsed.definitions) {
      row.documents.push_back({std::string(KindName(one.defined_as)), one.id, "all.yaml", 1});
      for (const dfsmr::Node& node : one.nodes) row.nodes.push_back(one.id + "." + node.id);
    }
    for (const Document& one : parsed.documents) {
      row.documents.push_back({std::string(Name(one.kind())), one.name, "all.yaml", 1});
    }
    row.workers.push_back({"all", {"*"}, requires_, {}, {}});
    return Do([&](Engine& e) {
      row.upload = e.packages().BeginUpload("ns");
      (void)e.packages().PutPiece("ns", row.upload, 0, yaml);
      e.packages().PutText("ns", row.upload, "all.yaml", yaml);
      row.pieces = 1;
      return e.packages().Finish(row, {});
    });
  }

  // Of the worker of what is put from now on.
  void Require(std::vector<std::string> words) { requires_ = std::move(words); }

  Result<Activated> Try(ActivateArgs args) {
    args.ns = "ns";
    args.package = "p";
    return Do([&](Engine& e) -> Result<Activated> {
      auto asked = e.packages().Ask(args);
      if (!asked) return asked.error();
      if (asked->done) return *asked->done;
      Sources sources = SourcesOf(*asked->version);
      Compiled compiled = CompileAll(asked->under, sources, {}, e.now());
      auto done = e.packages().Activate(args, &sources, &compiled);
      REQUIRE(done);
      return *std::move(done);
    });
  }
  Activated Activate(const std::string& version, uint32_t share = 0) {
    auto done = Try({.version = version, .share = share});
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    return *done;
  }
  Result<Activated> Rollback() { return Try({.rollback = true}); }
  Result<Activated> Deactivate(bool force = false) {
    return Do([&](Engine& e) {
      return e.packages().Deactivate({.ns = "ns", .package = "p", .force = force});
    });
  }
  Result<Removed> Remove(const std::string& version) {
    return Do([&](Engine& e) {
      return e.packages().Remove({.ns = "ns", .package = "p", .version = version});
    });
  }
  PackageStanding Standing(const std::string& version) {
    return engine().packages().StandingOf(*engine().packages().table().Version("ns", "p", version));
  }
  std::string PackageOf(const std::string& id) {
    const Instance instance = Must(id);
    const auto definition =
        instance.Stopped()
            ? engine().reader().registry.Find("ns", instance.machine, instance.version)
            : engine().reader().registry.Now("ns", instance.machine, instance.version);
    return definition->package ? definition->package->version : "";
  }

 private:
  Sources SourcesOf(const PackageVersion& version) {
    Parsed parsed = ParseDefinitions(texts_.at(version.version), "all.yaml");
    Sources sources{std::move(parsed.definitions), std::move(parsed.documents)};
    for (dfsmr::Machine& one : sources.machines) owned::OwnMachine(version, &one);
    for (Document& one : sources.documents) owned::OwnDocument(version, &one);
    return sources;
  }

  std::map<std::string, std::string> texts_;
  std::vector<std::string> requires_;
};

std::string MachineM(const std::string& strategy, const std::string& node,
                     const std::string& id = "m") {
  return "id: " + id + "\nupgrade_strategy: " + strategy + "\nnodes:\n  " + node +
         ": {start: true, transitions: {ok: end}}\n  end: {final: true}\n---\n";
}

Reason RefusalOf(const Result<Started>& started) {
  REQUIRE(!started);
  return started.error().reason;
}

TEST_CASE("what a package has is defined under its name, and its tasks name it") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  CHECK(RefusalOf(shop.TryStart({.machine = "p.m"})) == Reason::kNoSuchMachine);
  const Activated done = shop.Activate("1.0.0");
  CHECK(done.changed);
  CHECK(done.previous.empty());
  REQUIRE(done.documents.size() == 1);
  CHECK(done.documents[0].id == "p.m");
  CHECK(done.documents[0].what == DocumentChange::What::kAdded);
  shop.Start("p.m", "i");
  const Task task = shop.ReadyOne();
  CHECK(task.action == "p.m.a");
  REQUIRE(task.package);
  CHECK(task.package->version == "1.0.0");
  CHECK(task.package_worker == "all");
  CHECK(shop.PackageOf("i") == "1.0.0");
  CHECK(shop.Report(task, "ok"));
  CHECK_FALSE(shop.Activate("1.0.0").changed);
}

TEST_CASE("who takes work that is named after a package has what its active version requires") {
  Shop shop;
  shop.Define("plan: caller\nflow: [{step: s, action: p.load}]\n");
  Filter plain{.ns = "ns", .packages = {"*"}};
  Filter gpu = plain;
  gpu.capabilities = {"gpu"};
  const auto takes = [&shop](const Filter& filter) {
    std::vector<Task> tasks;
    REQUIRE(shop.Do([&](Engine& e) {
      return e.Poll({.filter = filter, .worker = "w", .max_tasks = 1},
                    [&tasks](std::vector<Task> given) { tasks = std::move(given); });
    }));
    return tasks.size() == 1;
  };
  shop.Start("caller", "i");
  CHECK_FALSE(takes(gpu));  // there is no such package yet
  shop.Require({"gpu"});
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK_FALSE(takes(plain));
  const auto waits = shop.Do([](Engine& e) { return e.WaitsOf("ns", "i"); });
  REQUIRE(waits);
  REQUIRE(waits->why.size() == 1);
  CHECK(waits->why.begin()->second == "no agent has gpu");
  SUBCASE("who has it gets it") { CHECK(takes(gpu)); }
  SUBCASE("the next version does not require it") {
    shop.Require({});
    REQUIRE(shop.Put("2.0.0", MachineM("continue", "a")));
    shop.Activate("2.0.0");
    CHECK(takes(plain));
  }
  SUBCASE("no version is active any more") {
    REQUIRE(shop.Deactivate(true));
    CHECK_FALSE(takes(gpu));
    CHECK(takes({.ns = "ns", .actions = {"p.load"}}));
  }
}

TEST_CASE("a start is on the version that is active, also after a crash") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "one");
  shop.Activate("2.0.0");
  shop.Start("p.m", "two");
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(shop.PackageOf("one") == "1.0.0");
  CHECK(shop.PackageOf("two") == "2.0.0");
  std::map<std::string, std::string> served;
  for (const Task& task : shop.Ready()) served[task.instance] = task.package->version;
  CHECK(served == std::map<std::string, std::string>{{"one", "1.0.0"}, {"two", "2.0.0"}});
  CHECK(shop.Standing("1.0.0").state == PackageStanding::State::kPinned);
  CHECK(shop.Standing("1.0.0").live.at("p.m") == 1);
}

TEST_CASE("the same document with upgrade goes on with the new programs, its claims too") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("upgrade", "a")));
  REQUIRE(shop.Put("1.1.0", MachineM("upgrade", "a")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "claimed");
  const Task task = shop.ReadyOne();
  shop.Start("p.m", "ready");
  const Activated done = shop.Activate("1.1.0");
  CHECK(done.documents[0].what == DocumentChange::What::kSame);
  CHECK(done.documents[0].affected == 2);
  SUBCASE("as it is") {}
  SUBCASE("after a restart") { shop.Restart(); }
  CHECK(shop.PackageOf("claimed") == "1.1.0");
  const Task next = shop.ReadyOne();
  CHECK(next.instance == "ready");
  CHECK(next.version == 2);
  CHECK(next.package->version == "1.1.0");
  CHECK(shop.Machine("p.m", 2).stats.running == 2);
  CHECK(shop.Machine("p.m", 1).stats.running == 0);
  CHECK(shop.Node("p.m", "a").claimed == 2);
  CHECK(shop.Report(task, "ok"));
  CHECK(shop.Must("claimed").version == 2);  // it stays so now that it has stopped
  CHECK(shop.Machine("p.m", 2).stats.stopped == 1);
  CHECK(shop.Remove("1.0.0"));
  CHECK(shop.Report(next, "ok"));
  CHECK(shop.Standing("1.1.0").Live() == 0);
  shop.Restart();
  CHECK(shop.Machine("p.m", 2).stats.stopped == 2);
  CHECK(shop.Machine("p.m", 2).stats.running == 0);
}

TEST_CASE("another document with upgrade moves instances, as of a machine by hand") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("upgrade", "a")));
  REQUIRE(shop.Put("1.1.0", MachineM("upgrade", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("upgrade", "b")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "i");
  shop.Activate("1.1.0");
  shop.Start("p.m", "j");
  const Activated done = shop.Activate("2.0.0");
  CHECK(done.documents[0].what == DocumentChange::What::kChanged);
  CHECK(done.documents[0].affected == 2);
  shop.Drain();
  CHECK(shop.NodeOf("i") == "b");
  CHECK(shop.NodeOf("j") == "b");
  CHECK(shop.PackageOf("i") == "2.0.0");
  CHECK(shop.Ready().size() == 2);
}

TEST_CASE("what a version no longer has is retired: it goes on, and is not started") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a") + MachineM("continue", "x", "old")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  shop.Start("p.old", "i");
  const Activated done = shop.Activate("2.0.0");
  REQUIRE(done.documents.size() == 2);
  CHECK(done.documents[1].id == "p.old");
  CHECK(done.documents[1].what == DocumentChange::What::kRetired);
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(RefusalOf(shop.TryStart({.machine = "p.old"})) == Reason::kRetired);
  CHECK(shop.Machine("p.old").retired);
  CHECK(shop.Report(shop.ReadyOne(), "ok"));
  CHECK(shop.Must("i").result == InstanceResult::kSuccess);
  // Its id is free.
  CHECK(shop.Define(MachineM("continue", "hand", "p.old")).front().version == 2);
  CHECK_FALSE(shop.Machine("p.old").retired);
  auto again = shop.Try({.version = "1.0.0"});
  REQUIRE(!again);
  CHECK(again.error().reason == Reason::kIdTaken);
  again = shop.Try({.version = "1.0.0", .adopt = true});
  REQUIRE(again);
  CHECK(again->documents[1].what == DocumentChange::What::kAdopted);
  CHECK(again->documents[1].version == 3);
}

TEST_CASE("a trigger that is retired is shown as ended, until it is defined again or deleted") {
  Shop shop;
  const std::string both = MachineM("continue", "a") +
                           "trigger: t\non: {webhook: {path: h, open: true}}\n"
                           "start: {machine: p.m}\n";
  const auto names = [&shop] {
    std::string all;
    const auto listed = shop.Do([&](Engine& e) {
      return e.triggers().List("ns", "", [&all](const TriggerView& view) {
        all += view.definition.document->name + (view.row.deleted ? " ended " : " ");
        return true;
      });
    });
    REQUIRE(listed);
    return all;
  };
  const auto fire = [](Engine& e) { return e.triggers().Fire("ns", "p.t", "", "{}"); };
  REQUIRE(shop.Put("1.0.0", both));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  REQUIRE(shop.Do(fire));
  CHECK(names() == "p.t ");
  shop.Activate("2.0.0");
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(names() == "p.t ended ");
  const auto view = shop.Do([](Engine& e) { return e.triggers().Get("ns", "p.t", 0); });
  REQUIRE(view);
  CHECK(view->row.deleted);
  CHECK(view->occurrences.count == 1);
  CHECK(shop.Do(fire).error().reason == Reason::kRetired);
  CHECK(shop.Do([](Engine& e) { return e.documents().StandingIn("ns"); }) == 0);
  SUBCASE("defined again") {
    shop.Activate("1.0.0");
    CHECK(names() == "p.t ");
    CHECK(shop.Do(fire));
  }
  SUBCASE("when the version that had it is gone") {
    REQUIRE(shop.Report(shop.ReadyOne(), "ok"));
    REQUIRE(shop.Remove("1.0.0"));
    shop.Crash();
    CHECK(names() == "p.t ended ");
  }
  SUBCASE("deleted") {
    const auto drop = [](Engine& e) {
      return e.documents().Delete({"ns", DocumentKind::kTrigger, "p.t"}, "ann");
    };
    REQUIRE(shop.Do(drop));
    CHECK(names().empty());
    CHECK(shop.Do(drop).error().reason == Reason::kNoSuchTrigger);
  }
}

TEST_CASE("an id belongs to who defined it") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  auto defined = shop.Do(
      [](Engine& e) { return TryDefine(e, ParseMachines(MachineM("continue", "a", "p.m"))); });
  REQUIRE(!defined);
  CHECK(defined.error().reason == Reason::kOwnedByPackage);
}

TEST_CASE("what is named from outside is not retired without force") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  shop.Define("plan: outside\nflow: [{step: s, spawn: {machine: p.m}}]\n");
  auto refused = shop.Deactivate();
  REQUIRE(!refused);
  CHECK(refused.error().reason == Reason::kPackageInUse);
  CHECK(refused.error().message.find("outside") != std::string::npos);
  CHECK(shop.Deactivate(/*force=*/true));
  CHECK(RefusalOf(shop.TryStart({.machine = "p.m"})) == Reason::kRetired);
}

TEST_CASE("rollback activates what was active before, and once more undoes it") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  auto none = shop.Rollback();
  REQUIRE(!none);
  CHECK(none.error().reason == Reason::kNoPrevious);
  shop.Activate("2.0.0");
  auto back = shop.Rollback();
  REQUIRE(back);
  CHECK(back->package->version == "1.0.0");
  CHECK(back->documents[0].version == 3);
  shop.Start("p.m", "i");
  CHECK(shop.NodeOf("i") == "a");
  CHECK(shop.Rollback()->package->version == "2.0.0");
  REQUIRE(shop.Deactivate());
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(shop.Rollback()->package->version == "2.0.0");
  // What was active before that one is so still.
  CHECK(shop.Rollback()->package->version == "1.0.0");
  REQUIRE(shop.Deactivate());
  REQUIRE(shop.Remove("1.0.0").has_value() == false);  // an instance is pinned to it
  shop.Activate("2.0.0");
  CHECK(shop.Rollback()->package->version == "1.0.0");
  shop.Activate("2.0.0");
  auto changed = shop.Try({.version = "1.0.0", .if_active = "1.0.0"});
  REQUIRE(!changed);
  CHECK(changed.error().reason == Reason::kActiveChanged);
  CHECK(shop.Try({.version = "1.0.0", .if_active = "2.0.0"}));
}

TEST_CASE("what was active before a deactivation cannot be removed and rolled back to") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  REQUIRE(shop.Deactivate());
  REQUIRE(shop.Remove("1.0.0"));
  const auto back = shop.Rollback();
  REQUIRE(!back);
  CHECK(back.error().reason == Reason::kNoPrevious);
  CHECK(back.error().message.find("1.0.0") != std::string::npos);
}

TEST_CASE("a dry run pins its version, and counts as nothing else") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  REQUIRE(
      shop.TryStart({.machine = "p.m", .id = "dry", .start_at = shop.now() + 1h, .dry_run = true}));
  shop.Activate("2.0.0");
  SUBCASE("as it is") {}
  SUBCASE("after a restart") { shop.Restart(); }
  CHECK(shop.Standing("1.0.0").state == PackageStanding::State::kPinned);
  CHECK(shop.Standing("1.0.0").Live() == 0);
  const auto removed = shop.Remove("1.0.0");
  REQUIRE(!removed);
  CHECK(removed.error().message.find("1 dry runs of 'p.m'") != std::string::npos);
  shop.Elapse(2h);
  CHECK(shop.Standing("1.0.0").state == PackageStanding::State::kIdle);
  CHECK(shop.Remove("1.0.0"));
}

TEST_CASE("how instances ended is counted by version, as long as they are kept") {
  Shop shop;
  const std::string text =
      "id: m\nretention: 1h\nnodes:\n  a: {start: true, transitions: {ok: end, bad: worse}}\n"
      "  end: {final: true}\n  worse: {final: true, result: error}\n---\n";
  REQUIRE(shop.Put("1.0.0", text));
  shop.Activate("1.0.0");
  for (const char* transition : {"ok", "ok", "bad"}) {
    shop.Start("p.m", transition + std::to_string(Micros(shop.now())));
    CHECK(shop.Report(shop.ReadyOne(), transition));
    shop.Advance(1s);
  }
  const auto counted = [&shop](InstanceResult result) {
    return shop.Standing("1.0.0").results[static_cast<size_t>(result)];
  };
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  SUBCASE("after a restart") { shop.Restart(); }
  CHECK(counted(InstanceResult::kSuccess) == 2);
  CHECK(counted(InstanceResult::kError) == 1);
  shop.Elapse(2h);
  shop.Drain();
  SUBCASE("dropped") {}
  SUBCASE("dropped, and after a crash") { shop.Crash(); }
  CHECK(counted(InstanceResult::kSuccess) == 0);
  CHECK(counted(InstanceResult::kError) == 0);
}

TEST_CASE("so many activations are remembered") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  for (uint32_t share = 1; share <= 1'005; ++share) shop.Activate("2.0.0", share);
  const auto kept = rows::GetActivations({shop.store(), shop.partition()}, "ns", "p", 5'000);
  REQUIRE(kept);
  CHECK(kept->size() == 1'000);
  CHECK(kept->front().share == 1'005);
}

TEST_CASE("equal documents share what they were compiled to") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("1.1.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  for (const std::string version : {"1.0.0", "1.1.0", "2.0.0"}) shop.Activate(version);
  const auto settings = [&shop](uint32_t version) {
    return shop.engine().reader().registry.Find("ns", "p.m", version)->machine.nodes[0].settings;
  };
  CHECK(settings(1) == settings(2));
  CHECK(settings(2) != settings(3));
}

TEST_CASE("what a worker starts beside its report is its package's own, of the same version") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a") + MachineM("continue", "c", "child")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "i");
  const Task task = shop.ReadyOne();
  shop.Activate("2.0.0");
  const auto answer = shop.Do([&task](Engine& e) {
    return e.Report("ns", task.instance, {.transition = "ok", .claim = task.claim}, {},
                    {{.ns = "ns", .machine = "child", .id = "k"}});
  });
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
  CHECK(shop.Must("k").machine == "p.child");
  CHECK(shop.PackageOf("k") == "1.0.0");
}

TEST_CASE("a flow that a worker asks for as a child sees what its parent's package has") {
  Shop shop;
  const std::string plan = "plan: all\nflow: [{step: s, action: act}]\n---\n";
  REQUIRE(shop.Put("1.0.0", plan + "action: act\nqueue: old\n"));
  REQUIRE(shop.Put("2.0.0", plan + "action: act\nqueue: fresh\n"));
  shop.Activate("1.0.0");
  shop.Start("p.all", "i");
  const Task task = shop.ReadyOne();
  shop.Activate("2.0.0");
  rows::ChildStart child;
  child.spec.flow = "[{step: x, action: act}]";
  const auto answer = shop.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "suspend", .claim = task.claim, .children = 1},
                    {child});
  });
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
  shop.Drain();
  CHECK(shop.Must("i/s/0").error == "");
  const Task inner = shop.ReadyOne();
  CHECK(inner.action == "p.act");
  CHECK(inner.queue == "old");
}

TEST_CASE("a candidate takes its share of the starts by name, and all that name it") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("upgrade", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("upgrade", "b") + MachineM("continue", "x", "fresh")));
  auto alone = shop.Try({.version = "2.0.0", .share = 500});
  REQUIRE(!alone);
  CHECK(alone.error().reason == Reason::kBadRequest);
  shop.Activate("1.0.0");
  shop.Start("p.m", "before");
  shop.Activate("2.0.0", 2'500);
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  shop.Drain();
  CHECK(shop.PackageOf("before") == "1.0.0");  // no strategy is applied
  int candidates = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string id = "i" + std::to_string(i);
    shop.Start("p.m", id);
    candidates += shop.PackageOf(id) == "2.0.0";
  }
  CHECK(candidates > 60);
  CHECK(candidates < 140);
  CHECK(RefusalOf(shop.TryStart({.machine = "p.fresh"})) == Reason::kNoSuchMachine);
  CHECK(shop.TryStart({.machine = "p.fresh", .package_version = "2.0.0", .id = "f"}));
  CHECK(shop.TryStart({.machine = "p.m", .package_version = "1.0.0", .id = "named"}));
  CHECK(shop.PackageOf("named") == "1.0.0");
  CHECK(shop.Machine("p.m").definition->package->version == "1.0.0");
  CHECK(shop.Standing("2.0.0").state == PackageStanding::State::kCandidate);
  REQUIRE(shop.Rollback());
  shop.Drain();
  CHECK(shop.Standing("2.0.0").state == PackageStanding::State::kPinned);
  CHECK(shop.Standing("1.0.0").state == PackageStanding::State::kActive);
  for (int i = 0; i < 50; ++i) {
    const std::string id = "j" + std::to_string(i);
    shop.Start("p.m", id);
    CHECK(shop.PackageOf(id) == "1.0.0");
  }
  shop.Activate("2.0.0");
  shop.Drain();
  CHECK(shop.PackageOf("before") == "2.0.0");
}

TEST_CASE("to activate the active version ends its candidate") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  shop.Activate("1.0.0");
  CHECK(!shop.Activate("1.0.0").changed);
  shop.Activate("2.0.0", 5'000);
  CHECK(shop.Try({.version = "1.0.0", .validate_only = true})->changed);
  CHECK(shop.Standing("2.0.0").state == PackageStanding::State::kCandidate);
  CHECK(shop.Activate("1.0.0").changed);
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(shop.Standing("2.0.0").state == PackageStanding::State::kIdle);
  CHECK(shop.Standing("1.0.0").state == PackageStanding::State::kActive);
  shop.Start("p.m", "i");
  CHECK(shop.PackageOf("i") == "1.0.0");
  CHECK(!shop.Activate("1.0.0").changed);
}

TEST_CASE("who keeps a package from being retired is told with all that it names") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a") + "action: act\n---\n"));
  shop.Activate("1.0.0");
  shop.Define("plan: outer\nflow: [{step: a, action: p.act}, {step: m, spawn: {machine: p.m}}]");
  const auto refused = shop.Deactivate();
  REQUIRE(!refused);
  CHECK(refused.error().reason == Reason::kPackageInUse);
  CHECK(refused.error().message.find("'outer' names 'p.act', 'p.m'") != std::string::npos);
}

TEST_CASE("a pinned plan takes the documents of its own version") {
  Shop shop;
  const std::string plan =
      "plan: all\nflow: [{step: first, spawn: {machine: m}}, {step: second, action: act}]\n---\n";
  REQUIRE(shop.Put("1.0.0", plan + MachineM("continue", "a") + "action: act\nqueue: old\n"));
  REQUIRE(shop.Put("2.0.0", plan + MachineM("continue", "b") + "action: act\nqueue: fresh\n"));
  shop.Activate("1.0.0");
  REQUIRE(shop.TryStart({.machine = "p.all", .id = "held", .hold = true}));
  shop.Activate("2.0.0");
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  REQUIRE(shop.Do([](Engine& e) { return e.Resume("ns", "held", "", false); }));
  shop.Drain();
  std::set<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    for (const Task& task : shop.Ready()) {
      REQUIRE(task.package);
      CHECK(task.package->version == "1.0.0");
      seen.insert(task.node + "/" + task.queue);
      CHECK(shop.Report(task, "ok"));
    }
    shop.Drain();
  }
  CHECK(seen == std::set<std::string>{"a/default", "second/old"});
}

TEST_CASE("name and version belong to one content for good, and removal needs rest") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));
  auto again = shop.Put("1.0.0", MachineM("continue", "a"));
  REQUIRE(again);
  CHECK_FALSE(*again);
  auto other = shop.Put("1.0.0", MachineM("continue", "b"), "other");
  REQUIRE(!other);
  CHECK(other.error().reason == Reason::kVersionExists);
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "a")));  // the text that the test remembers
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "a")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "i");
  CHECK(shop.Remove("1.0.0").error().reason == Reason::kPackageInUse);
  shop.Activate("2.0.0");
  auto pinned = shop.Remove("1.0.0");
  REQUIRE(!pinned);
  CHECK(pinned.error().message.find("1 of 'p.m'") != std::string::npos);
  CHECK(shop.Report(shop.ReadyOne(), "ok"));
  auto removed = shop.Remove("1.0.0");
  REQUIRE(removed);
  CHECK(removed->freed > 0);
  CHECK(shop.Rollback().error().reason == Reason::kNoPrevious);
  shop.Crash();
  CHECK(shop.Put("1.0.0", MachineM("continue", "b"), "other").error().reason ==
        Reason::kVersionExists);
  CHECK(shop.PackageOf("i") == "1.0.0");  // still readable
}

TEST_CASE("an upload that breaks leaves nothing") {
  Shop shop;
  shop.Do([](Engine& e) {
    const auto upload = e.packages().BeginUpload("ns");
    (void)e.packages().PutPiece("ns", upload, 0, "bytes");
    e.packages().PutText("ns", upload, "a.yaml", "text");
    return true;
  });
  CHECK(shop.RowsOf('\x43').size() == 1);
  shop.Crash();
  shop.Drain();
  CHECK(shop.RowsOf('\x43').empty());
  CHECK(shop.RowsOf('\x44').empty());
}

TEST_CASE("an archive comes only where the disk has room for it and for those on their way") {
  Shop shop;
  std::optional<uint64_t> spare = 100;
  Packages& packages = shop.engine().packages();
  packages.LookForRoom([&spare] { return spare; });
  CHECK(packages.HasRoom(100));
  REQUIRE(!packages.HasRoom(101));
  CHECK(packages.HasRoom(101).error().reason == Reason::kDiskFull);
  rows::UploadId upload;
  shop.Do([&](Engine& e) {
    upload = e.packages().BeginUpload("ns", 60);
    return true;
  });
  CHECK(packages.HasRoom(40));
  CHECK(!packages.HasRoom(41));
  // What has come is on the disk, and no longer to come.
  CHECK(shop.Do([&](Engine& e) {
    return e.packages().PutPiece("ns", upload, 0, std::string(20, 'x'));
  }));
  CHECK(packages.HasRoom(60));
  shop.engine().SetRoom(Room::kScarce);
  CHECK(packages.HasRoom(1).error().reason == Reason::kDiskFull);
  const auto piece =
      shop.Do([&](Engine& e) { return e.packages().PutPiece("ns", upload, 1, "bytes"); });
  REQUIRE(!piece);
  CHECK(piece.error().reason == Reason::kDiskFull);
  CHECK(shop.RowsOf('\x43').size() == 1);
  shop.engine().SetRoom(Room::kAmple);
  shop.Do([&](Engine& e) {
    e.packages().Abandon("ns", upload);
    return true;
  });
  CHECK(packages.HasRoom(100));
  spare.reset();
  CHECK(packages.HasRoom(uint64_t{1} << 40));
}

TEST_CASE("a schedule lives with the active version, and keeps its state") {
  Shop shop;
  const std::string nightly = "schedule: nightly\nevery: 1h\nstart: {machine: m}\n---\n";
  REQUIRE(shop.Put("1.0.0", nightly + MachineM("continue", "a")));
  REQUIRE(shop.Put("2.0.0", nightly + MachineM("continue", "b")));
  REQUIRE(shop.Put("3.0.0", MachineM("continue", "c")));
  shop.Activate("1.0.0");
  shop.Elapse(1h);
  const auto first = shop.Ready();
  REQUIRE(first.size() == 1);
  CHECK(first[0].package->version == "1.0.0");
  CHECK(shop.Report(first[0], "ok"));
  shop.Activate("2.0.0");
  shop.Elapse(1h);
  const auto second = shop.Ready();
  REQUIRE(second.size() == 1);
  CHECK(second[0].package->version == "2.0.0");
  CHECK(shop.Report(second[0], "ok"));
  shop.Crash();
  CHECK(shop.Standing("1.0.0").defined.at("schedule:p.nightly") == 1);
  CHECK(shop.Standing("2.0.0").defined.at("schedule:p.nightly") == 1);  // it is the same
  CHECK_FALSE(shop.Standing("3.0.0").defined.contains("schedule:p.nightly"));
  shop.Activate("3.0.0");
  shop.Elapse(3h);
  CHECK(shop.Ready().empty());
}

SpaceUsage UsageOf(Shop& shop) {
  auto view = shop.Do([](Engine& e) { return e.namespaces().Get("ns"); });
  REQUIRE(view);
  return view->usage;
}
void SetQuotas(Shop& shop, uint64_t definitions, uint64_t bytes) {
  SpaceChange change;
  change.quotas.definitions = definitions;
  change.quotas.package_bytes = bytes;
  change.definitions = change.package_bytes = true;
  REQUIRE(shop.Do([&](Engine& e) { return e.namespaces().Update("ns", change, "ann"); }));
}

TEST_CASE("packages count in their namespace, and keep to its quotas") {
  Shop shop;
  const std::string two = MachineM("continue", "a") + MachineM("continue", "a", "n");
  REQUIRE(shop.Put("1.0.0", two));
  REQUIRE(shop.Put("2.0.0", MachineM("continue", "b")));
  const uint64_t bytes = two.size() + MachineM("continue", "b").size();
  CHECK(UsageOf(shop).package_bytes == bytes);
  CHECK(UsageOf(shop).definitions == 0);
  SetQuotas(shop, 1, bytes + 1);
  auto full = shop.Put("3.0.0", MachineM("continue", "c"));
  REQUIRE(!full);
  CHECK(full.error().reason == Reason::kQuotaExceeded);
  CHECK(shop.RowsOf('\x43').size() == 2);
  auto more = shop.Try({.version = "1.0.0"});
  REQUIRE(!more);
  CHECK(more.error().reason == Reason::kQuotaExceeded);
  SetQuotas(shop, 2, 0);
  shop.Activate("1.0.0");
  CHECK(UsageOf(shop).definitions == 2);
  shop.Activate("2.0.0");  // retires one
  CHECK(UsageOf(shop).definitions == 1);
  shop.Crash();
  CHECK(UsageOf(shop).definitions == 1);
  CHECK(UsageOf(shop).package_bytes == bytes);
  REQUIRE(shop.Remove("1.0.0"));
  CHECK(UsageOf(shop).package_bytes == MachineM("continue", "b").size());
}

TEST_CASE("a namespace that is deleted takes its packages along") {
  Shop shop;
  const std::string nightly = "schedule: nightly\nevery: 1h\nstart: {machine: m}\n---\n";
  REQUIRE(shop.Put("1.0.0", nightly + MachineM("continue", "a")));
  shop.Activate("1.0.0");
  shop.Start("p.m", "i");
  rows::UploadId upload;
  shop.Do([&](Engine& e) {
    upload = e.packages().BeginUpload("ns");
    (void)e.packages().PutPiece("ns", upload, 0, "bytes");
    return true;
  });
  REQUIRE(shop.Do([](Engine& e) { return e.Delete("ns", 0s, "ann"); }));
  CHECK(shop.Try({.version = "1.0.0", .share = 5}).error().reason == Reason::kNamespaceDeleting);
  CHECK(shop.Put("2.0.0", MachineM("continue", "b")).error().reason == Reason::kNamespaceDeleting);
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  for (int looks = 0; looks < 200; ++looks) shop.Elapse(100ms);
  CHECK(!*rows::HasNamespaceRows({shop.store(), shop.partition()}, "ns"));
  // What comes of the upload is not kept, and neither is its version.
  rows::PackageVersionRow row;
  row.ns = "ns";
  row.package = "p";
  row.version = "3.0.0";
  row.digest = "sha256:3";
  row.upload = upload;
  const auto late = shop.Do([&](Engine& e) {
    (void)e.packages().PutPiece("ns", upload, 1, "bytes");
    return e.packages().Finish(row, {});
  });
  REQUIRE(!late);
  CHECK(late.error().reason == Reason::kNamespaceDeleting);
  CHECK(!*rows::HasNamespaceRows({shop.store(), shop.partition()}, "ns"));
  // A new one of the name knows nothing of the old, and its schedule starts nothing.
  REQUIRE(shop.Put("1.0.0", MachineM("continue", "c")));
  CHECK(RefusalOf(shop.TryStart({.machine = "p.m"})) == Reason::kNoSuchMachine);
  shop.Activate("1.0.0");
  shop.Start("p.m", "i");
  CHECK(shop.PackageOf("i") == "1.0.0");
  shop.Elapse(2h);
  CHECK(shop.Ready().size() == 1);
}

// An engine of another partition of the store that a shop has its rows in.
class Branch : public World {
 public:
  static constexpr PartitionId kPartition = 1;

  explicit Branch(Store* store) : World(With(Options()), store) {}

  void Adopt(const std::string& ns = "") {
    auto adoption = ReadAdoption(engine().reader(), 0, CompileOne, ns);
    REQUIRE(adoption);
    Do([&](Engine& e) {
      e.Adopt(*std::move(adoption));
      return 0;
    });
    Drain();
  }
  // The n-th id that lives here.
  static std::string Id(int n) {
    for (int i = 0;; ++i) {
      std::string id = "i" + std::to_string(i);
      if (PartitionOf("ns", id, 2) == kPartition && n-- == 0) return id;
    }
  }

 private:
  static EngineOptions With(EngineOptions options) {
    options.partition = kPartition;
    options.partitions = 2;
    options.home = 0;
    return options;
  }
};

TEST_CASE("what home defines holds in another partition once it has been adopted") {
  MemoryStore store;
  Shop home(&store);
  Branch branch(&store);
  home.Define(MachineM("upgrade", "a"));
  CHECK(RefusalOf(branch.TryStart({.machine = "m", .id = Branch::Id(0)})) ==
        Reason::kNoSuchMachine);
  branch.Adopt();
  branch.Start("m", Branch::Id(0));
  CHECK(branch.Ready().front().node == "a");
  home.Define("id: m\nupgrade_strategy: upgrade\nnodes:\n  a: {start: true, transitions: {ok: b}}\n"
              "  b: {transitions: {ok: end}}\n  end: {final: true}\n");
  SUBCASE("when it is told") { branch.Adopt("ns"); }
  SUBCASE("when it is opened anew") { branch.Crash(); }
  branch.Drain();
  CHECK(branch.Machine("m").definition->version == 2);
  CHECK(branch.Must(Branch::Id(0)).version == 2);
  // DEFINED is home's to tell, and the rows are there alone.
  REQUIRE(rows::ScanFeed({store, Branch::kPartition}, 1, [](const Event& event) {
    CHECK(event.kind != ChangeKind::kDefined);
    return true;
  }));
  int rows = 0;
  REQUIRE(rows::ScanMachines({store, Branch::kPartition}, [&](const rows::MachineRow&) { ++rows; }));
  CHECK(rows == 0);
}

TEST_CASE("a candidate has its share of the starts in another partition, and a retired id none") {
  MemoryStore store;
  Shop home(&store);
  Branch branch(&store);
  REQUIRE(home.Put("1.0.0", MachineM("continue", "a") + MachineM("continue", "a", "old")));
  home.Activate("1.0.0");
  branch.Adopt("ns");
  CHECK(branch.Start("p.m", Branch::Id(0)).version == 1);
  REQUIRE(home.Put("2.0.0", MachineM("continue", "b")));
  home.Activate("2.0.0", 10'000);
  branch.Adopt("ns");
  const auto package = [&branch](const Instance& instance) {
    return branch.engine()
        .reader()
        .registry.Find("ns", instance.machine, instance.version)
        ->package->version;
  };
  CHECK(package(branch.Start("p.m", Branch::Id(1))) == "2.0.0");
  home.Activate("2.0.0");
  CHECK(branch.TryStart({.machine = "p.old", .id = Branch::Id(2)}));
  SUBCASE("when it is told") { branch.Adopt("ns"); }
  SUBCASE("when it is opened anew") { branch.Crash(); }
  CHECK(RefusalOf(branch.TryStart({.machine = "p.old", .id = Branch::Id(3)})) ==
        Reason::kRetired);
  CHECK(package(branch.Start("p.m", Branch::Id(4))) == "2.0.0");
}

TEST_CASE("a namespace that is frozen at home rests in another partition, too") {
  MemoryStore store;
  Shop home(&store);
  Branch branch(&store);
  home.Define(MachineM("continue", "a"));
  branch.Adopt();
  branch.Start("m", Branch::Id(0));
  const auto freeze = [&home](bool frozen) {
    REQUIRE(home.Do([&](Engine& e) { return e.Freeze("ns", frozen, "ann"); }));
  };
  freeze(true);
  branch.Adopt("ns");
  SUBCASE("when it is told") {}
  SUBCASE("when it is opened anew") { branch.Crash(); }
  CHECK(branch.Ready().empty());
  CHECK(RefusalOf(branch.TryStart({.machine = "m", .id = Branch::Id(1)})) ==
        Reason::kNamespaceFrozen);
  freeze(false);
  branch.Adopt("ns");
  CHECK(branch.Ready().size() == 1);
}

}  // namespace
}  // namespace dfsmr
